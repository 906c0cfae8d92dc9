/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_CORE_H
#define DIBS_CORE_CORE_H
/* The engine: request -> plan -> commit -> result.
 *
 * It decides by the index, the bands, the order and the mode; the ledger makes it true; the kernel is asked
 * through the probe. It has no clock of its own and reads no settings but those it was given. */
#include "base/clock.h"
#include "core/order.h"
#include "dibs/dibs.h"
#include "host/kernel.h"
#include "host/process.h"
#include "ledger/ledger.h"
#include "net/portbits.h"

/* Facts of a process, and the network namespace it is in. */
struct core_self {
    struct process_facts facts;
    uint64_t netns; /* 0: not to be found out */
    int64_t loaded_ms;
};

struct core_options {
    uint32_t uid; /* of this process */
    struct instant (*now)(void *ctx);
    void *now_ctx;
    /* The facts of a process that the caller watches, without reading them again; NULL: it watches none. */
    bool (*known)(void *ctx, pid_t pid, struct core_self *out);
    void *known_ctx;
    const struct portbits *withheld; /* never chosen, beside the host's own; borrowed; NULL: none */
};

/* Facts of the host, read again when they are older than a second. */
struct core_host {
    bool is_loaded;
    int64_t loaded_ms;
    bool has_ipv6;
    uint64_t netns;
    dibs_range ephemeral;
    uint16_t unprivileged_from; /* below it, binding needs a privilege */
    bool is_ephemeral_detected;
    struct portbits reserved;
};

/* A port that cools, in a list by the time of its release. Its number is protocol and port, proto << 16 |
 * port; number 0 is both ends of the list. */
struct core_cooling {
    int64_t released_ms;
    uint32_t older, newer;
};

/* Occupancy derived from the ledger (advice, never the decision), loaded when a blind try has failed. */
struct core_index {
    bool is_loaded;
    uint64_t seq;                                /* of the newest event in it */
    uint64_t elsewhere;                          /* what ledger_take_notices() said then */
    struct portbits taken[DIBS_PROTO_MAX + 1];   /* by protocol */
    struct portbits cooling[DIBS_PROTO_MAX + 1]; /* by protocol: those in the list */
    struct core_cooling *list;                   /* by number; NULL until one is needed */
    int64_t longest_ms; /* the longest cooldown of the pools used so far; what rested longer is forgotten */
};

/* Ports of our own network namespace that had any socket a moment ago, by protocol; read when first needed.
 * Zero it before many claims are judged in a row. */
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

/* The pool that was asked for last, read again when it is older than a second, or another host has changed
 * something: most handles use one. */
struct core_last_pool {
    bool is_loaded;
    int64_t loaded_ms;
    uint64_t elsewhere; /* what ledger_take_notices() said then */
    bool is_stored;     /* else it is the default pool, made of each call's settings */
    dibs_pool pool;
};

enum { PLANS_MAX = 16 }; /* different pools (and protocols) in one batch; 9 KiB each */

struct core {
    struct core_options options;
    struct ledger *ledger;
    struct process_view view;
    struct core_host host;
    struct core_last_pool last_pool;
    struct core_self self; /* of our own process, as old as the facts of the host */
    struct core_index index;
    struct core_foreign foreign;
    struct kernel_inventory inventory;    /* of sockets, for core_socket_owners */
    struct plan_cached *plans[PLANS_MAX]; /* (plan.c) */
    uint64_t random_state;
    uint64_t cursor; /* of the candidate orders, as far as we know */
    bool has_cursor;
    uint64_t n_conflicts; /* how often other hosts were first, when it was last looked, */
    uint32_t detour;      /* ... and where we look since then for what is not ours first */
    uint64_t n_busy;      /* ports that the probe found in use by strangers, so far */
};

/* `ledger` is owned from then on, also when it fails. */
dibs_status core_open(struct ledger *ledger, const struct core_options *options, struct core **out,
                      dibs_err *err);
void core_close(struct core *core);
/* The time by the engine's clock. */
struct instant core_now(const struct core *core);
/* A call for one part of a long operation, with the current time and a timeout of its own. */
struct call core_part(const struct core *core, const struct call *call);
const struct core_host *core_host(struct core *core, const struct call *call);
uint64_t core_random(struct core *core);

/* ---- pools (pool.c) ---- */
/* The pool of a request with the settings' overrides applied; an anonymous one for `ranges`. */
dibs_status core_pool(struct core *core, const struct call *call, const char *name, const dibs_ranges *ranges,
                      dibs_pool *out, dibs_err *err);
/* The pool as stored, or the built-in pool "default"; without overrides. */
dibs_status core_pool_stored(struct core *core, const struct call *call, const char *name, dibs_pool *out,
                             dibs_err *err);
/* Apply the settings that override the pool's. */
void core_pool_overrule(const struct call *call, dibs_pool *pool);
uint32_t core_band(const dibs_pool *pool);
/* Are all but their names the same? */
bool core_pool_is_same(const dibs_pool *a, const dibs_pool *b);
/* Take out what dynamic choice does not take: ephemeral, reserved, privileged, for TCP browser-blocked. */
void core_withhold(struct core *core, const struct call *call, bool for_tcp, struct portbits *ports);
dibs_status core_pool_check(const dibs_pool *pool, dibs_err *err);
/* DENIED: the ledger is another user's. */
dibs_status core_may_change_pools(const struct call *call, dibs_err *err);
/* Check and store a pool; this handle uses it at once. */
dibs_status core_pool_put(struct core *core, const struct call *call, const dibs_pool *pool, dibs_err *err);
dibs_status core_pool_remove(struct core *core, const struct call *call, const char *name, dibs_err *err);
dibs_status core_pool_list(struct core *core, const struct call *call, dibs_pool_fn fn, void *ctx,
                           dibs_err *err);
/* The usage of a pool when claims of either kind (by its value) have these ports. */
struct core_room {
    dibs_pool_usage usage;
    uint32_t n_available_low; /* of usage.n_available, in the lower band */
};
void core_pool_room(struct core *core, const struct call *call, const dibs_pool *pool,
                    const struct portbits *const used[2], struct core_room *out);
dibs_status core_pool_usage(struct core *core, const struct call *call, const char *name,
                            dibs_pool_usage *out, dibs_err *err);
/* For a list of claims: collect their ports in a struct portbits. */
bool core_add_port(void *ports, const dibs_claim *claim);
struct core_range_export {
    char *range;    /* DIBS_RANGES_TEXT_MAX + 1 bytes */
    uint8_t *bytes; /* *n of them */
    size_t *n;
};
dibs_status core_snapshot_export(struct core *core, const struct call *call, const char *pool,
                                 const struct core_range_export *out, dibs_err *err);
dibs_status core_snapshot_import(struct core *core, const struct call *call, const char *pool,
                                 const dibs_range_snapshot *snapshot, size_t *n_claimed, dibs_err *err);

/* ---- liveness (liveness.c) ---- */
/* Fills claim->life and is_orphan. ALIVE also for a kept claim without holder. `why` may be NULL. For many
 * claims, ports with any socket are listed once in `sockets` (NULL: look at each port). */
dibs_life core_judge(struct core *core, const struct call *call, struct core_sockets *sockets,
                     dibs_claim *claim, const char **why);
/* The same for a claim whose holder is known to have ended. */
dibs_life core_judge_without_holder(struct core *core, const struct call *call, struct core_sockets *sockets,
                                    dibs_claim *claim, const char **why);
/* Does a socket of the claim's user use it? ALIVE: yes, DEAD: no, UNKNOWN: `why`. `sockets` may be NULL. */
dibs_life core_socket_life(struct core *core, const struct call *call, struct core_sockets *sockets,
                           const dibs_claim *claim, const char **why);

/* ---- claiming (claim.c, plan.c) ---- */
/* Port 0 in a mode that needs one: it creates nothing (D8). */
bool core_is_noop(const dibs_request *request);
dibs_status core_claim(struct core *core, const struct call *call, const dibs_batch *batch, dibs_claim *out,
                       dibs_err *err);
/* One port on all hosts or on none (hosts.c); out[i] answers hosts[i]. NOT_FOUND: one is not known. */
struct core_hosts {
    const char *const *names;
    size_t n;
};
dibs_status core_claim_on_hosts(struct core *core, const struct call *call, const dibs_request *request,
                                const struct core_hosts *hosts, dibs_claim *out, dibs_err *err);
/* End the caller's claims of that name on those hosts, all or none; *n (may be NULL) counts them. TAKEN: a
 * process or lease holds one of them. */
dibs_status core_release_on_hosts(struct core *core, const struct call *call, const dibs_which *which,
                                  const struct core_hosts *hosts, size_t *n, dibs_err *err);
/* Find the full name of a project's request: in the group that the directory has already, whatever its branch
 * was then; else the requested name, or "shop~1a2b3c/web" when "shop" belongs to another directory. */
dibs_status core_name(struct core *core, const struct call *call, const char *name, const char *project,
                      char out[DIBS_NAME_MAX + 1], dibs_err *err);
/* Fill the holder part of a claim. */
dibs_status core_holder(struct core *core, const struct call *call, const dibs_heir *heir, dibs_claim *out,
                        dibs_err *err);
/* The probe of a ledger_batch; `ctx` is a struct core_probing. */
struct core_probing {
    struct core *core;
    const struct call *call;
};
enum ledger_probe core_probe(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err);

/* ---- refusals (refuse.c) ---- */
/* The error for a want that the ledger refused with TAKEN: blocker, relation, and what to do (D18). */
dibs_status core_refuse(struct core *core, const struct call *call, const struct ledger_want *want,
                        struct ledger_refusal *refusal, dibs_err *err);
/* "'web', pid 12 (node), since 2026-01-31 12:00:00" */
void core_describe(const dibs_claim *claim, char *out, size_t size);

/* ---- claims that are there (find.c) ---- */
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

/* ---- a snapshot (restore.c) ---- */
dibs_status core_restore(struct core *core, const struct call *call, const dibs_snapshot *snapshot,
                         size_t *n_restored, dibs_err *err);

/* ---- looking (port_report.c) ---- */
/* pids[i] has sockets[i] open; 0: unknown, or the socket is too new to be looked at (inode 0). */
void core_socket_owners(struct core *core, const struct call *call, struct kernel_socket *sockets,
                        pid_t *pids, size_t n);
/* Fill out->sockets with those on the port that have one of the question's protocols, and their owners. */
dibs_status core_port_sockets(struct core *core, const struct call *call, const dibs_port_question *question,
                              dibs_port_report *out, dibs_err *err);
/* Does the socket use a binding of the claim? */
bool core_socket_uses(const dibs_socket *socket, const dibs_claim *claim);
/* "pid 12 (node), uid 1000" */
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
    dibs_claim_fn fn; /* sees each claim that was ended; may be NULL */
    void *ctx;
    size_t n; /* so many were ended */
};
dibs_status core_reap(struct core *core, const struct call *call, struct core_reaping *r, dibs_err *err);
dibs_status core_repair(struct core *core, const struct call *call, const dibs_repair_plan *plan,
                        dibs_repair_fn fn, void *ctx, dibs_err *err);

/* ---- the index (occupancy.c) ---- */
/* Load the index, or bring it up to date. */
dibs_status core_index_refresh(struct core *core, const struct call *call, dibs_err *err);
/* Read the ports again that other hosts have changed: they have no events here. */
dibs_status core_index_follow(struct core *core, const struct call *call, dibs_err *err);
/* Load the index again before its next use, after a rollback or when the ledger was replaced. */
void core_index_forget(struct core *core);
void core_index_note_claim(struct core *core, const dibs_claim *claim);
void core_index_note_end(struct core *core, const dibs_claim *claim, int64_t boot_ms);
/* Remember cooling ports for at least this cooldown. A longer one than before makes the index load again. */
void core_index_remember(struct core *core, int64_t cooldown_ms);
/* Forget ports that have rested long enough for every pool. */
void core_index_expire(struct core *core, int64_t now_ms);
/* Was it released after `since_ms` (CLOCK_BOOTTIME)? */
bool core_index_is_cooling(const struct core *core, dibs_proto proto, uint16_t port, int64_t since_ms);
void core_index_free(struct core_index *index);
#endif
