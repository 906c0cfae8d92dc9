/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_CORE_H
#define DIBS_CORE_CORE_H
/* The engine: request -> candidates -> commit -> result. It proposes by index, bands, order, mode; the ledger
 * decides; the probe asks the kernel. The caller passes in the clock and the settings. */
#include "base/clock.h"
#include "core/order.h"
#include "dibs/dibs.h"
#include "host/kernel.h"
#include "host/nat/nat.h"
#include "host/process.h"
#include "ledger/ledger.h"
#include "net/portbits.h"

/* Facts of a process and its network namespace. */
struct core_self {
    struct process_facts facts;
    uint64_t netns; /* 0: unknown */
    int64_t loaded_ms;
};

struct core_options {
    uint32_t uid; /* of this process */
    struct instant (*now)(void *ctx);
    void *now_ctx;
    /* Get the cached facts of a process that the caller watches; NULL: it watches none. */
    bool (*known)(void *ctx, pid_t pid, struct core_self *out);
    void *known_ctx;
    /* Optional: has this process a guard on the port? */
    bool (*is_guarded)(void *ctx, uint16_t port);
    void *guards;
    /* Optional: does the kernel enforce the claim, as its level says? */
    bool (*is_enforced)(void *ctx, const dibs_claim *claim);
    void *enforcer;
    char nat_file[DIBS_SETTING_VALUE_MAX + 8]; /* see nat_open() */
    const struct portbits *withheld; /* ports never chosen, in addition to the host's; borrowed; NULL: none */
};

/* Facts of the host, reloaded after a second. */
struct core_host {
    bool is_loaded;
    int64_t loaded_ms;
    bool has_ipv6;
    dibs_range ephemeral;
    uint16_t unprivileged_from; /* binding a lower port needs a privilege */
    bool is_ephemeral_detected;
    struct portbits reserved;
};

/* A cooling port in a list by release time. Its number is proto << 16 | port; 0 is both ends of the list. */
struct core_cooling {
    int64_t released_ms;
    uint32_t older, newer;
};

/* Occupancy derived from the ledger (advice, never the decision), loaded when a try without it has failed. */
struct core_index {
    bool is_loaded;
    uint64_t seq;                                /* number of the newest event in it */
    uint64_t notices;                            /* result of ledger_take_notices() when it was loaded */
    struct portbits taken[DIBS_PROTO_MAX + 1];   /* by protocol */
    struct portbits cooling[DIBS_PROTO_MAX + 1]; /* by protocol: the ports in the list */
    struct core_cooling *list;                   /* by number; NULL until a port cools */
    int64_t longest_ms; /* longest cooldown of the pools used so far; older releases are dropped */
};

/* Ports of our network namespace that had any socket a moment ago, by protocol. Zero it before a series. */
struct core_sockets {
    bool is_known[DIBS_PROTO_MAX + 1];
    struct portbits used[DIBS_PROTO_MAX + 1];
};

/* Ports that the probe found in use without a claim a moment ago. */
struct core_foreign {
    bool is_any;
    struct portbits ports;
    int64_t since_ms;
};

/* The last pool used, reloaded after a second or when another host has changed something. */
struct core_last_pool {
    bool is_loaded;
    int64_t loaded_ms;
    uint64_t notices; /* result of ledger_take_notices() when it was loaded */
    bool is_stored;   /* otherwise the default pool, made from each call's settings */
    dibs_pool pool;
};

enum { SOURCES_MAX = 16 }; /* different pools (and protocols) in one batch; 9 KiB each */

struct core {
    struct core_options options;
    struct ledger *ledger;
    struct process_view view;
    struct core_host host;
    struct core_last_pool last_pool;
    struct core_self self; /* of our own process, reloaded with the facts of the host */
    struct core_index index;
    struct core_foreign foreign;
    struct nat *nat;                               /* NAT rules */
    struct kernel_inventory inventory;             /* for core_socket_owners() */
    struct candidate_cached *sources[SOURCES_MAX]; /* cache of candidate.c */
    uint64_t random_state;
    uint64_t cursor; /* of the candidate orders, as far as we know */
    bool has_cursor;
    uint64_t n_conflicts; /* commit conflicts with other hosts at the last check */
    uint32_t detour;      /* random start outside our home blocks since the last conflict */
    uint64_t n_busy;      /* foreign ports that the probe has found so far */
};

/* Open the engine. It owns `ledger`, also on failure. */
dibs_status core_open(struct ledger *ledger, const struct core_options *options, struct core **out,
                      dibs_err *err);
void core_close(struct core *core);
/* Return the time of the engine's clock. */
struct instant core_now(const struct core *core);
/* Return a call for one part of a long operation, with the current time and its own timeout. */
struct call core_part(const struct core *core, const struct call *call);
const struct core_host *core_host(struct core *core, const struct call *call);
uint64_t core_random(struct core *core);

/* ---- pools (pool.c) ---- */
/* Get the pool of a request, with the settings that override it; an anonymous pool for `ranges`. */
dibs_status core_pool(struct core *core, const struct call *call, const char *name, const dibs_ranges *ranges,
                      dibs_pool *out, dibs_err *err);
/* Get the pool as stored, or the built-in pool "default", without overrides. */
dibs_status core_pool_stored(struct core *core, const struct call *call, const char *name, dibs_pool *out,
                             dibs_err *err);
/* Apply the settings that override the pool's. */
void core_pool_overrule(const struct call *call, dibs_pool *pool);
uint32_t core_band(const dibs_pool *pool);
/* Return whether the pools are the same except for their names. */
bool core_pool_is_same(const dibs_pool *a, const dibs_pool *b);
/* Remove the ports that dynamic choice never takes: ephemeral, reserved, privileged, browser-blocked. */
void core_withhold(struct core *core, const struct call *call, bool for_tcp, struct portbits *ports);
dibs_status core_pool_check(const dibs_pool *pool, dibs_err *err);
/* DENIED: the ledger belongs to another user. */
dibs_status core_may_change_pools(const struct call *call, dibs_err *err);
/* Check and store a pool; this handle uses it at once. */
dibs_status core_pool_put(struct core *core, const struct call *call, const dibs_pool *pool, dibs_err *err);
dibs_status core_pool_remove(struct core *core, const struct call *call, const char *name, dibs_err *err);
dibs_status core_pool_list(struct core *core, const struct call *call, dibs_pool_fn fn, void *ctx,
                           dibs_err *err);
/* Usage of a pool, given the ports with claims of each kind (index: the kind's value). */
struct core_room {
    dibs_pool_usage usage;
    uint32_t n_available_low; /* of usage.n_available: in the lower band */
};
void core_pool_room(struct core *core, const struct call *call, const dibs_pool *pool,
                    const struct portbits *const used[2], struct core_room *out);
dibs_status core_pool_usage(struct core *core, const struct call *call, const char *name,
                            dibs_pool_usage *out, dibs_err *err);
/* Callback for a list of claims: collect their ports in a struct portbits. */
bool core_add_port(void *ports, const dibs_claim *claim);
struct core_range_export {
    char *range;    /* DIBS_RANGES_TEXT_MAX + 1 bytes */
    uint8_t *bytes; /* *n bytes */
    size_t *n;
};
dibs_status core_snapshot_export(struct core *core, const struct call *call, const char *pool,
                                 const struct core_range_export *out, dibs_err *err);
dibs_status core_snapshot_import(struct core *core, const struct call *call, const char *pool,
                                 const dibs_range_snapshot *snapshot, size_t *n_claimed, dibs_err *err);

/* ---- liveness (liveness.c) ---- */
/* Fill claim->life and is_orphan; a kept claim without a holder is ALIVE. `why` may be NULL. For many claims,
 * `sockets` caches the ports that have sockets (NULL: check each port). */
dibs_life core_judge(struct core *core, const struct call *call, struct core_sockets *sockets,
                     dibs_claim *claim, const char **why);
/* The same for a claim whose holder is known to have ended. */
dibs_life core_judge_without_holder(struct core *core, struct core_sockets *sockets, dibs_claim *claim,
                                    const char **why);
/* Replace the recorded command of a living holder by the one that it runs now: `sh` may have executed
 * another. */
void core_see_command(struct core *core, dibs_claim *claim);
/* Return ALIVE if a socket of the claim's user uses it, else DEAD; UNKNOWN: `why`. `sockets` may be NULL. */
dibs_life core_socket_life(struct core *core, struct core_sockets *sockets, const dibs_claim *claim,
                           const char **why);

/* ---- claiming (claim.c, candidate.c) ---- */
/* Return whether the request has port 0 in a mode that needs a port: it creates nothing (D8). */
bool core_is_noop(const dibs_request *request);
dibs_status core_claim(struct core *core, const struct call *call, const dibs_batch *batch, dibs_claim *out,
                       dibs_err *err);
/* Claim one port on all hosts or on none (hosts.c); out[i] answers hosts[i]. NOT_FOUND: unknown host. */
struct core_hosts {
    const char *const *names;
    size_t n;
};
dibs_status core_claim_on_hosts(struct core *core, const struct call *call, const dibs_request *request,
                                const struct core_hosts *hosts, dibs_claim *out, dibs_err *err);
/* End the caller's claims of that name on those hosts, all or none. TAKEN: one of them has a holder. */
dibs_status core_release_on_hosts(struct core *core, const struct call *call, const dibs_which *which,
                                  const struct core_hosts *hosts, size_t *n, dibs_err *err);
/* A search for names. One that serves several calls of core_name() needs a transaction, because it remembers
 * the group that it has found last. */
struct core_names {
    struct core *core;
    const struct call *call;
    /* Private. */
    const char *project; /* of the remembered group, borrowed; NULL: none is remembered */
    char asked[DIBS_NAME_PART_MAX + 1], group[DIBS_NAME_PART_MAX + 1];
};
/* Find the full name of a project's request: in the group that the directory already has, whatever its branch
 * was then; else the requested name, or "shop~1a2b3c/web" when "shop" belongs to another directory. */
dibs_status core_name(struct core_names *in, const char *name, const char *project,
                      char out[DIBS_NAME_MAX + 1], dibs_err *err);
/* Fill the holder part of a claim. */
dibs_status core_holder(struct core *core, const struct call *call, const dibs_heir *heir, dibs_claim *out,
                        dibs_err *err);
/* DENIED: the kernel would let us bind the port, but not the caller. */
dibs_status core_may_bind(struct core *core, const struct call *call, const dibs_binding *binding,
                          uint16_t port, dibs_err *err);
/* The probe of a ledger_batch; `ctx` is a struct core_probing. */
struct core_probing {
    struct core *core;
    const struct call *call;
};
enum ledger_probe core_probe(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err);

/* Find up to `max` NAT rules that take packets to the port (a port is in use then, without a socket). They
 * are those of the last nat_refresh(). */
size_t core_nat_rules(const struct core *core, const struct nat_question *question, dibs_nat_rule *out,
                      size_t max);

/* ---- refusals (refuse.c) ---- */
/* Write the error for a want that the ledger refused with TAKEN: blocker, relation and advice (D18). */
dibs_status core_refuse(struct core *core, const struct call *call, const struct ledger_want *want,
                        struct ledger_refusal *refusal, dibs_err *err);
/* Write "'web', pid 12 (node), since 2026-01-31 12:00:00". */
void core_describe(const dibs_claim *claim, char *out, size_t size);

/* ---- existing claims (change.c) ---- */
dibs_status core_find(struct core *core, const struct call *call, const dibs_which *which, dibs_claim *out,
                      dibs_err *err);
dibs_status core_release(struct core *core, const struct call *call, const dibs_which *which, unsigned flags,
                         size_t *n, dibs_err *err);
dibs_status core_renew(struct core *core, const struct call *call, const dibs_which *which, int64_t ttl_ms,
                       dibs_claim *out, dibs_err *err);
dibs_status core_transfer(struct core *core, const struct call *call, const dibs_which *which,
                          const dibs_heir *heir, dibs_claim *out, dibs_err *err);
dibs_status core_list(struct core *core, const struct call *call, const dibs_filter *filter, dibs_claim_fn fn,
                      void *ctx, dibs_err *err);

/* ---- snapshots (restore.c) ---- */
dibs_status core_restore(struct core *core, const struct call *call, const dibs_snapshot *snapshot,
                         size_t *n_restored, dibs_err *err);

/* ---- reports (port_report.c) ---- */
/* Set pids[i] to the owner of sockets[i], all of one network namespace (0: ours); 0: unknown, or the socket
 * has no inode yet. */
void core_socket_owners(struct core *core, const struct call *call, uint64_t netns,
                        struct kernel_socket *sockets, pid_t *pids, size_t n);
/* Fill out->sockets with the port's sockets of the requested protocols, and their owners. */
dibs_status core_port_sockets(struct core *core, const struct call *call, const dibs_port_question *question,
                              dibs_port_report *out, dibs_err *err);
/* Return whether the socket uses a binding of the claim. */
bool core_socket_uses(const dibs_socket *socket, const dibs_claim *claim);
/* Write "pid 12 (node), uid 1000". */
enum { CORE_OWNER_TEXT = DIBS_COMMAND_MAX + 40 };
const char *core_owner_text(const dibs_socket *socket, char out[CORE_OWNER_TEXT]);
/* Report the socket in err->blocker; `err` may be NULL. */
void core_blame_socket(const dibs_socket *socket, dibs_err *err);
dibs_status core_explain(struct core *core, const struct call *call, const dibs_port_question *question,
                         dibs_port_report *out, dibs_err *err);
dibs_status core_assert(struct core *core, const struct call *call, const dibs_which *which, dibs_socket *out,
                        dibs_err *err);

/* ---- hosts (reap.c) ---- */
dibs_status core_node_remove(struct core *core, const struct call *call, const char *name, unsigned flags,
                             size_t *n, dibs_err *err);

/* ---- reaping and repair (reap.c, repair.c) ---- */
struct core_reaping {
    unsigned flags;   /* DIBS_REAP_... */
    dibs_claim_fn fn; /* called for each ended claim; may be NULL */
    void *ctx;
    size_t n; /* result: claims ended */
};
dibs_status core_reap(struct core *core, const struct call *call, struct core_reaping *r, dibs_err *err);
dibs_status core_repair(struct core *core, const struct call *call, const dibs_repair_plan *plan,
                        dibs_repair_fn fn, void *ctx, dibs_err *err);

/* ---- the index (index.c) ---- */
/* Load the index, or apply the events since then. */
dibs_status core_index_refresh(struct core *core, const struct call *call, dibs_err *err);
/* Reload the ports that other hosts have changed: their changes make no events here. */
dibs_status core_index_follow(struct core *core, const struct call *call, dibs_err *err);
/* Reload the index before its next use, after a rollback or when the ledger was replaced. */
void core_index_forget(struct core *core);
void core_index_note_claim(struct core *core, const dibs_claim *claim);
void core_index_note_end(struct core *core, const dibs_claim *claim, int64_t boot_ms);
void core_index_free(struct core_index *index);
#endif
