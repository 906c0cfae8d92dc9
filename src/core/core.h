/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_CORE_H
#define DIBS_CORE_CORE_H
/* The engine: request -> plan -> commit -> result.
 *
 * It decides by the index, the bands, the order and the mode; the ledger makes it true; the kernel is asked
 * through the probe. It has no clock of its own and reads no settings but those it was given. */
#include "base/clock.h"
#include "dibs/dibs.h"
#include "index/index.h"
#include "index/order.h"
#include "kernel/kernel.h"
#include "ledger/ledger.h"
#include "net/portbits.h"
#include "owner/owner.h"

/* For whom the engine acts. What it points to is borrowed for as long as that is so. */
struct core_caller {
    const dibs_settings *settings;
    const char *principal; /* "uid:1000" */
    uint32_t uid;
    int32_t pid;    /* in our pid namespace; 0: cannot be told, so that it cannot be a holder */
    uint64_t netns; /* its network namespace; 0: ours */
    bool is_admin;
    /* The ports are used on other hosts: this one's sockets, ranges and lack of IPv6 say nothing of them. */
    bool is_elsewhere;
    const char *command;         /* recorded with each claim that no process holds; NULL: none */
    const char *const *commands; /* the same, one for each request of a batch; NULL: `command` is for all */
    bool is_guest;               /* the ledger is another user's: pools are not his to change */
    struct ledger_allowance *allowance; /* as of a ledger_actor */
};

/* What is known of a process, and the network namespace it is in. */
struct core_self {
    struct owner_facts facts;
    uint64_t netns; /* 0: not to be found out */
    int64_t loaded_ms;
};

struct core_options {
    struct core_caller caller;
    struct instant (*now)(void *ctx);
    void *now_ctx;
    /* A process that somebody watches is known without looking again; NULL: nobody does. */
    bool (*known)(void *ctx, pid_t pid, struct core_self *out);
    void *known_ctx;
    struct kernel_group *group; /* of probes; NULL: each is on its own */
};

/* What the host says, read again when it is older than a second. */
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

struct core_cooling {
    dibs_proto proto;
    uint16_t port;
    int64_t released_ms;
};

/* Occupancy derived from the ledger (advice, never the decision), loaded when a blind try has failed. Cooling
 * ports stand in a ring in the order of their release; an entry counts while released_ms still says the same.
 */
struct core_index {
    bool is_loaded;
    uint64_t seq;               /* of the newest event in it */
    uint64_t elsewhere;         /* what ledger_heed() said then */
    struct portbits taken[4];   /* by protocol */
    struct portbits cooling[4]; /* by protocol */
    int64_t *released_ms[4];    /* by protocol and port; NULL until one is needed */
    struct core_cooling *ring;
    size_t head, n, max; /* max is 0 or a power of two */
    int64_t longest_ms;  /* the longest cooldown of the pools used so far; what rested longer is forgotten */
};

/* Ports of our own network namespace that had any socket a moment ago, by protocol. */
struct core_sockets {
    bool is_known[4];
    struct portbits used[4];
};

/* Ports that the probe found in use by strangers a moment ago. */
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
    uint64_t elsewhere; /* what ledger_heed() said then */
    dibs_pool pool;
};

struct core {
    struct core_options options;
    struct core_caller caller; /* the options', unless core_act_for() says another */
    struct instant moment;     /* wall_ms 0: there is none, time passes */
    struct ledger *ledger;
    struct owner_view view;
    struct core_host host;
    struct core_last_pool last_pool;
    struct core_self self; /* of our own process, as old as the facts of the host */
    struct core_index index;
    struct core_foreign foreign;
    struct kernel_inventory inventory; /* of sockets, for core_socket_owners */
    struct attempt_desk *desk;         /* of single claims; NULL: there was none yet */
    struct core_sockets *sockets;      /* while many are judged; else NULL */
    uint64_t random_state;
    uint64_t cursor; /* of the candidate orders, as far as we know */
    bool has_cursor;
    uint64_t n_beaten; /* how often other hosts were first, when it was last looked, */
    uint32_t detour;   /* ... and where we look since then for what is not ours first */
    uint64_t n_busy;   /* ports that the probe found in use by strangers, so far */
};

/* `ledger` is owned from then on, also when it fails. */
dibs_status core_open(struct ledger *ledger, const struct core_options *options, struct core **out,
                      dibs_err *err);
void core_close(struct core *core);
/* From now on; NULL: for the caller of the options again. */
void core_act_for(struct core *core, const struct core_caller *caller);
/* What follows happens at one moment, until core_end_moment(): for what takes no time to speak of, and would
 * read the clock a dozen times. */
void core_begin_moment(struct core *core);
void core_end_moment(struct core *core);

struct instant core_now(const struct core *core);
/* The same outside of any moment: how long something takes. */
struct instant core_clock(const struct core *core);
struct ledger_actor core_actor(const struct core *core, struct instant now);
const struct core_host *core_host(struct core *core);
uint64_t core_random(struct core *core);

/* ---- pools (pool.c) ---- */
/* The pool of a request with the settings' overrides applied; an anonymous one for `ranges`. */
dibs_status core_pool(struct core *core, const char *name, const dibs_ranges *ranges, dibs_pool *out,
                      dibs_err *err);
/* As stored, or what "default" is when nobody stored it: without overrides. */
dibs_status core_pool_stored(struct core *core, const char *name, dibs_pool *out, dibs_err *err);
/* As the settings have it. */
void core_pool_overrule(const struct core *core, dibs_pool *pool);
uint32_t core_band(const dibs_pool *pool);
/* Ports that dynamic choice does not take: ephemeral, reserved, and browser-blocked when `for_tcp`. */
void core_withheld(struct core *core, bool for_tcp, struct portbits *out);
dibs_status core_pool_check(const dibs_pool *pool, dibs_err *err);
/* DENIED: the ledger is another user's. */
dibs_status core_may_change_pools(const struct core *core, dibs_err *err);
/* Checked, stored, and seen by this handle at once. */
dibs_status core_pool_put(struct core *core, const dibs_pool *pool, dibs_err *err);
dibs_status core_pool_remove(struct core *core, const char *name, dibs_err *err);
dibs_status core_pool_list(struct core *core, dibs_pool_fn fn, void *ctx, dibs_err *err);
/* What of a pool is used when claims of either kind (by its value) have these ports. */
struct core_room {
    dibs_pool_usage usage;
    uint32_t n_available_low; /* of usage.n_available, in the lower band */
};
void core_pool_room(struct core *core, const dibs_pool *pool, const struct portbits *const used[2],
                    struct core_room *out);
dibs_status core_pool_usage(struct core *core, const char *name, dibs_pool_usage *out, dibs_err *err);
dibs_status core_snapshot_export(struct core *core, const char *pool, char *range, uint8_t *bytes, size_t *n,
                                 dibs_err *err);
dibs_status core_snapshot_import(struct core *core, const char *pool, const dibs_range_snapshot *snapshot,
                                 size_t *n_claimed, dibs_err *err);

/* ---- life (life.c) ---- */
/* Fills claim->life and is_orphan. ALIVE also for a kept claim without holder. `why` may be NULL. */
dibs_life core_judge(struct core *core, dibs_claim *claim, char *why, size_t why_size);
/* The same of a claim whose holder is known to have ended. */
dibs_life core_judge_bereft(struct core *core, dibs_claim *claim, char *why, size_t why_size);
/* Many are judged between these two: which ports have a socket at all is found out once. */
void core_judge_begin(struct core *core);
void core_judge_end(struct core *core);
/* Does a socket of the claim's user use it? ALIVE: yes, DEAD: no, UNKNOWN: `why`. */
dibs_life core_socket_life(struct core *core, const dibs_claim *claim, const char **why);

/* ---- claiming (claim.c, plan.c) ---- */
/* Port 0 in a mode that needs one: it creates nothing (D8). */
bool core_is_noop(const dibs_request *request);
dibs_status core_claim(struct core *core, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
/* One port on all of those hosts, or on none (hosts.c); out[i] answers hosts[i]. NOT_FOUND: one is not known.
 */
dibs_status core_claim_on_hosts(struct core *core, const dibs_request *request, const char *const *hosts,
                                size_t n, dibs_claim *out, dibs_err *err);
/* Ends what the caller has by that name on those hosts, *n (may be NULL) of them, all or none. TAKEN:
 * somebody holds it there. */
dibs_status core_release_on_hosts(struct core *core, const dibs_which *which, const char *const *hosts,
                                  size_t n_hosts, size_t *n, dibs_err *err);
/* Which name a request of a project really has: in the group that the directory has already, whatever its
 * branch was then; else the one asked for, or "shop~1a2b3c/web" when "shop" is another directory's. */
dibs_status core_name(struct core *core, const char *name, const char *project, char out[DIBS_NAME_MAX + 1],
                      dibs_err *err);
/* The same for many names: the group of the one before is that of the next, without asking for it again.
 * Whether another directory took the name meanwhile, the ledger tells in the end. */
struct core_group {
    const char *project; /* compared as a pointer */
    char asked[DIBS_NAME_PART_MAX + 1];
    char found[DIBS_NAME_PART_MAX + 1];
};
dibs_status core_name_like(struct core *core, const char *name, const char *project, struct core_group *known,
                           char out[DIBS_NAME_MAX + 1], dibs_err *err);
/* The holder part of a claim from a request. */
dibs_status core_holder(struct core *core, dibs_holder kind, int32_t pid, int64_t ttl_ms, dibs_claim *out,
                        dibs_err *err);
enum ledger_probe core_probe(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err);

/* ---- refusals (refuse.c) ---- */
/* The error for a want that the ledger refused with TAKEN: blocker, relation, and what to do (D18). */
dibs_status core_refuse(struct core *core, const struct ledger_want *want, struct ledger_refusal *refusal,
                        dibs_err *err);
/* "'web', pid 12 (node), since 2026-01-31 12:00:00" */
void core_describe(const dibs_claim *claim, char *out, size_t size);

/* ---- claims that are there (which.c) ---- */
dibs_status core_find(struct core *core, const dibs_which *which, dibs_claim *out, dibs_err *err);
dibs_status core_release(struct core *core, const dibs_which *which, unsigned flags, size_t *n,
                         dibs_err *err);
dibs_status core_renew(struct core *core, const dibs_which *which, int64_t ttl_ms, dibs_claim *out,
                       dibs_err *err);
dibs_status core_transfer(struct core *core, const dibs_which *which, const dibs_heir *heir, dibs_claim *out,
                          dibs_err *err);
dibs_status core_list(struct core *core, const dibs_filter *filter, dibs_claim_fn fn, void *ctx,
                      dibs_err *err);

/* ---- a snapshot (restore.c) ---- */
dibs_status core_restore(struct core *core, const dibs_snapshot *snapshot, size_t *n_restored, dibs_err *err);

/* ---- looking (look.c, owners.c) ---- */
/* pids[i] has sockets[i] open; 0: it cannot be told, or the socket is too new to be looked at (inode 0). */
void core_socket_owners(struct core *core, struct kernel_socket *sockets, pid_t *pids, size_t n);
dibs_status core_explain(struct core *core, const dibs_port_question *question, dibs_port_report *out,
                         dibs_err *err);
dibs_status core_assert(struct core *core, const dibs_which *which, dibs_socket *out, dibs_err *err);

/* ---- hosts (reap.c) ---- */
dibs_status core_node_list(struct core *core, dibs_node_fn fn, void *ctx, dibs_err *err);
dibs_status core_node_remove(struct core *core, const char *name, unsigned flags, size_t *n, dibs_err *err);

/* ---- reaping and repair (reap.c, repair.c) ---- */
dibs_status core_reap(struct core *core, unsigned flags, dibs_claim_fn fn, void *ctx, size_t *n,
                      dibs_err *err);
dibs_status core_repair(struct core *core, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                        dibs_err *err);

/* ---- the index (occupancy.c) ---- */
/* Load it or bring it up to date. */
dibs_status core_index_refresh(struct core *core, dibs_err *err);
/* Ports that other hosts have changed are read anew: no event tells of them. */
dibs_status core_index_follow(struct core *core, dibs_err *err);
void core_index_note_claim(struct core *core, const dibs_claim *claim);
void core_index_note_end(struct core *core, const dibs_claim *claim, int64_t boot_ms);
/* A pool with this cooldown is used: if it is the longest so far, too much was forgotten already. */
void core_index_remember(struct core *core, int64_t cooldown_ms);
/* Forget ports that have rested long enough for every pool. */
void core_index_expire(struct core *core, int64_t now_ms);
/* Was it released less than `cooldown_ms` ago? */
bool core_index_is_cooling(const struct core *core, dibs_proto proto, uint16_t port, int64_t cooldown_ms);
/* The i-th entry of the ring, oldest first; false when it does not count any more. */
bool core_index_cooling(const struct core *core, size_t i, struct core_cooling *out);
void core_index_free(struct core_index *index);
#endif
