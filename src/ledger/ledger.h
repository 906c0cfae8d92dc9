/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_LEDGER_H
#define DIBS_LEDGER_LEDGER_H
/* Claims and their history. Every operation is one decision: atomic, durable when it returns OK (INV-2), and
 * over within its deadline (INV-9). Its caller says which holders are dead and which ports to try, and the
 * bind probe is a callback. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"
#include "ledger/call.h"
#include "store/record.h"
#include "store/report.h"

struct ledger;

/* Is it the URI of a ledger? Nothing is opened. */
dibs_status ledger_check(const char *uri, dibs_err *err);
/* Do several hosts share the ledger of this URI? Only long-lived processes open such a one. */
bool ledger_is_cluster(const char *uri);
/* Can a host be called that in a cluster? */
dibs_status ledger_check_node(const char *name, dibs_err *err);
/* "sqlite:PATH", "etcd://..." (etcd/config.h) or "memory:". INVALID: unknown scheme; UNAVAILABLE: see
 * err->trouble. */
dibs_status ledger_open(const char *uri, const struct ledger_options *options, struct ledger **out,
                        dibs_err *err);
void ledger_close(struct ledger *ledger); /* NULL is fine */
/* As store_have_process(). */
void ledger_have_process(void);
/* Start the threads and watches of a long-lived process. */
dibs_status ledger_start_background(struct ledger *ledger, dibs_err *err);
/* A descriptor that is readable from then on when other hosts have changed something; -1: there is none. */
int ledger_notices(const struct ledger *ledger);
/* Apply those changes. The result counts them: they make no events here. */
uint64_t ledger_take_notices(struct ledger *ledger);
/* Revalidate the cached copy before the next transaction. */
void ledger_revalidate(struct ledger *ledger);
struct portbits;
/* Their ports since the last call. False: any port may have changed. */
bool ledger_changed_elsewhere(struct ledger *ledger, struct portbits *out);

/* Get a lease for this host, and renew it. The claims of this handle in pools of the scope cluster are
 * attached to it: when it has expired, their holders are dead for all hosts. Does nothing for a ledger of one
 * host. TAKEN: another machine has that name. */
dibs_status ledger_join(struct ledger *ledger, int64_t ttl_ms, const char *boot_id, dibs_err *err);
/* The ledger may be NULL. */
void ledger_lease(const struct ledger *ledger, struct ledger_lease *out);

/* Hosts that share the ledger; none for a ledger of one host. */
dibs_status ledger_nodes(struct ledger *ledger, const struct call *call, dibs_node_fn fn, void *ctx,
                         dibs_err *err);
/* Give that host a number, so that its claims can be restored; NULL: this one. INVALID: it cannot have one.
 */
dibs_status ledger_node_enrol(struct ledger *ledger, const char *name, dibs_err *err);
/* As dibs_node_remove(): first its claims in pools of the scope cluster end, then its own. */
dibs_status ledger_node_remove(struct ledger *ledger, const struct call *call, const char *name,
                               bool is_forced, size_t *n, dibs_err *err);

/* ---- one transaction of several calls ---- */
/* Calls with call.tx = the result share one write transaction, and are answered after ledger_commit(). Each
 * still succeeds or fails alone. A ledger has one transaction at a time. `is_synced`: the commit survives
 * power loss. Without that, the commit of a call that needs it (INV-2: it makes, changes or ends a kept
 * claim) fails, ledger_lacked_sync() is true, and the caller repeats all with a sync. */
struct ledger_tx *ledger_begin(struct ledger *ledger, bool is_synced);
bool ledger_lacked_sync(const struct ledger *ledger);
/* The same for calls that only read. NULL: `err` says why. */
struct ledger_tx *ledger_begin_read(struct ledger *ledger, const struct call *call, dibs_err *err);
/* Begin the store's transaction before the first change. Its failure is that of every call that follows. */
void ledger_tx_open(struct ledger_tx *tx, const struct call *call);
struct ledger_span {
    uint64_t before; /* the newest event before it: a follower that is behind has missed those of others */
    uint64_t after;
    dibs_err why; /* why its transaction could not begin; OK: it could, or nobody has tried */
};
/* UNAVAILABLE: nothing of it has happened. `out` may be NULL. */
dibs_status ledger_commit(struct ledger_tx *tx, struct ledger_span *out, dibs_err *err);
/* All or none of what the transactions of several hosts' handles have (ledger_beside()). */
dibs_status ledger_commit_all(struct ledger_tx *const *txs, size_t n, dibs_err *err);
void ledger_rollback(struct ledger_tx *tx); /* NULL is fine */

/* The one retry rule: a decision or a commit failed because another host's commit came first, and there are
 * time and tries left. A commit of many calls has fewer tries: it is likelier to lose again, and its callers
 * then try in smaller groups. Begin with *n_tries 0. */
enum { LEDGER_TRIES_MAX = 1024 }; /* of one call; the deadline is sooner: each try asks etcd twice at least */
bool ledger_try_again(const struct ledger *ledger, const struct call *call, size_t n_calls,
                      unsigned *n_tries);

/* Do several hosts have it? */
bool ledger_is_shared(const struct ledger *ledger);
/* Open the same ledger as another host. INVALID: nobody shares it; NOT_FOUND: it does not know that host. */
dibs_status ledger_beside(struct ledger *ledger, const char *node, struct ledger **out, dibs_err *err);
bool ledger_is_of_this_host(const struct ledger *ledger, const struct ledger *beside);
/* This host is number *rank of *n; *n 0: nobody shares it. False: it has no number yet, and counts as the
 * last. */
bool ledger_place(const struct ledger *ledger, uint32_t *rank, uint32_t *n);

/* Have a shared store forget versions from before the last call, when they begin to fill it. The daemon of
 * each host calls it so often, and one of them does it. */
enum { LEDGER_COMPACT_MS = 60000 };
void ledger_compact(struct ledger *ledger);
/* Asks within `timeout_ms`. INVALID: nobody shares such a ledger. */
dibs_status ledger_cluster(const char *uri, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);

/* NULL: nothing does. */
const struct ledger_traffic *ledger_traffic(const struct ledger *ledger);
bool ledger_lost_race(const struct ledger *ledger);
/* The store did not answer: do not retry now. Only then the change may have happened, which the error says.
 */
bool ledger_was_unreachable(const struct ledger *ledger);

/* `fn` (NULL: none) sees every change of ours as it is written, before its commit. */
typedef void (*ledger_wrote_fn)(void *ctx, const dibs_event *event, const dibs_claim *claim);
void ledger_tell_writes(struct ledger *ledger, ledger_wrote_fn fn, void *ctx);

/* A random number fixed when the ledger was made: all who share it choose alike. */
uint64_t ledger_salt(const struct ledger *ledger);

enum ledger_probe { LEDGER_PROBE_FREE, LEDGER_PROBE_BUSY, LEDGER_PROBE_ABORT };

/* One claim that is wanted, and the ports to try for it, in order. */
struct ledger_want {
    dibs_claim claim;          /* everything but id, generation, port, times and token */
    uint16_t required;         /* the port that a claim found by name must have; 0: any */
    uint32_t align;            /* ... or what it must be a multiple of; 0 and 1: anything */
    const dibs_ranges *within; /* ... and where it must be; NULL: anywhere */
    uint16_t remembered;       /* the name's last port: its own cooling does not matter */
    bool is_lookup;            /* an existing claim of the name is answered as it is */
    bool is_same;              /* ... if it has the bindings that are asked for */
    bool is_adopted;           /* ... and is kept from now on */
    bool skips_probe;          /* declared: the number is used without a claim */
    bool is_choice;            /* candidates are dibs' choice: declared and cooling ports are passed over */
    bool accepts_cooling;      /* ... but these cooling ones are what is left */
    int64_t cooldown_ms;
    /* Bindings before a host without IPv6 narrowed them: the name's claim may have these. 0: not narrowed. */
    size_t n_wide;
    dibs_binding wide[DIBS_BINDINGS_MAX];
    const uint16_t *candidates;
    size_t n_candidates;
    uint32_t run;      /* so many wants from this one on get adjacent ports, from one of its candidates on */
    uint16_t run_base; /* the only begin at which a run is completed of which names hold a part; 0: none */
};

/* A claim that ends before the wants are decided, in the same transaction, unless somebody holds it. */
struct ledger_drop {
    struct ledger_seen seen;
    const char *frees; /* its name, which a want has: if it does not end, it is NAME/PORT then; NULL: none */
    bool stays;        /* it is in use without a holder: not ended, and kept as before */
    /* Unless it stays: TAKEN when somebody holds a claim whose name begins with so many bytes of its own. */
    uint32_t shared_bytes;
};

/* A caller's idempotency key of a batch: a repeated request with the same key gets the same answer. */
struct ledger_key {
    const char *text;
    uint64_t digest; /* of what is asked for: INVALID when it is something else than the first time */
};

struct ledger_batch {
    const struct ledger_key *key; /* NULL: none */
    const struct ledger_want *wants;
    size_t n;
    const struct ledger_drop *drops;
    size_t n_drops;
    bool is_dry_run; /* decide, answer, keep nothing */
    /* Ascending by id; may be taken over while they are as they were seen. */
    const struct ledger_seen *dead;
    size_t n_dead;
    enum ledger_probe (*probe)(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err);
    void *probe_ctx;
};

/* Why a batch was not claimed. */
struct ledger_refusal {
    size_t want;     /* index of the one that failed */
    bool is_shared;  /* what was to be dropped is used by who holds blocker */
    bool by_name;    /* the name's claim stands in the way: blocker */
    bool differs;    /* ... because something else was asked for than it has */
    bool breaks_run; /* ... because no run can be made around it */
    uint16_t port;   /* the last port that was blocked or busy; 0: none */
    bool is_busy;    /* the probe found that port busy */
    bool is_beyond;  /* the allowance of the call: EXHAUSTED, whatever ports are free */
    bool has_blocker;
    dibs_claim blocker; /* of `port`, not known to be dead; a damaged one comes first */
    size_t n_busy;      /* ports that the probe found busy */
    uint16_t busy[DIBS_CANDIDATES_MAX];
    size_t n_cooling; /* candidates passed over because they cool */
};

/* All or nothing (INV-4). TAKEN: a name or the only candidate is not to be had; EXHAUSTED: no candidate is;
 * both fill `refusal`. What the probe aborts with is passed on. out[i] answers wants[i], with its token. */
dibs_status ledger_claim(struct ledger *ledger, const struct call *call, const struct ledger_batch *batch,
                         dibs_claim *out, struct ledger_refusal *refusal, dibs_err *err);

/* DENIED unless the caller may end and change the claim. */
dibs_status ledger_check_right(const struct call *call, const dibs_claim *claim, dibs_err *err);

enum ledger_end_how {
    LEDGER_END_RELEASE, /* by its principal or an admin */
    LEDGER_END_UNHOLD,  /* same, but a kept claim stays, and one that a lease held before its process */
    LEDGER_END_UNKEEP,  /* same, but only for that lease */
    LEDGER_END_REAP,    /* its holder is dead: as UNHOLD, for any caller */
    LEDGER_END_STALE,   /* kept, its project is gone: ends */
    LEDGER_END_LEAK,    /* kept, three times not observed: ends */
    LEDGER_END_GONE, /* what it was for is gone, as an administrator knows: ends, if its lease is the same */
};
struct ledger_ending {
    const struct ledger_seen *seen;
    size_t n;
    enum ledger_end_how how;
};
/* Is the claim still there when it was ended like this at this moment (CLOCK_BOOTTIME)? */
bool ledger_stays(const dibs_claim *claim, enum ledger_end_how how, int64_t boot_ms);
/* End those of `seen` that still have the same generation (INV-3); `n` counts them. With RELEASE, UNHOLD,
 * UNKEEP and GONE the caller must have the right to: DENIED, and nothing is ended. */
dibs_status ledger_end(struct ledger *ledger, const struct call *call, const struct ledger_ending *what,
                       size_t *n, dibs_err *err);

struct ledger_ended {
    size_t n;
    dibs_claim claim;
};
/* The same for the one claim that a token names, as it was; n 0: the token is none, or old. */
dibs_status ledger_end_token(struct ledger *ledger, const struct call *call, const char *token,
                             enum ledger_end_how how, struct ledger_ended *out, dibs_err *err);

/* Is a claim that is not kept certain to be held? UNAVAILABLE: this host cannot renew its lease. NOT_FOUND:
 * the lease has expired, and the claim is lost. */
dibs_status ledger_certain(const dibs_claim *claim, dibs_err *err);
/* Record as events what others have ended of this host's claims; *n of them. */
dibs_status ledger_note_lost(struct ledger *ledger, const struct call *call, size_t *n, dibs_err *err);

/* Attach claims in pools of the scope cluster to the lease of this host that were made before the pool had
 * that scope or the host a lease; *n of them. */
dibs_status ledger_attach(struct ledger *ledger, const struct call *call, size_t *n, dibs_err *err);

/* A new lease end. NOT_FOUND: no such claim or another generation; INVALID: not held by a lease. */
dibs_status ledger_renew(struct ledger *ledger, const struct call *call, struct ledger_seen seen,
                         int64_t ttl_ms, dibs_claim *out, dibs_err *err);

/* `heir` carries holder, process, lease, is_kept, uid and command; a new generation and token. */
dibs_status ledger_transfer(struct ledger *ledger, const struct call *call, struct ledger_seen seen,
                            const dibs_claim *heir, dibs_claim *out, dibs_err *err);

/* NOT_FOUND: the claim has ended or has another generation; INVALID: that is no token. */
dibs_status ledger_find_token(struct ledger *ledger, const struct call *call, const char *token,
                              dibs_claim *out, dibs_err *err);
/* Its token stays empty. */
dibs_status ledger_find_id(struct ledger *ledger, const struct call *call, uint64_t id, dibs_claim *out,
                           dibs_err *err);
/* The caller's claim of that name; NOT_FOUND: none, but *remembered (may be NULL) is its last port or 0. */
dibs_status ledger_find_name(struct ledger *ledger, const struct call *call, const char *name,
                             dibs_claim *out, uint16_t *remembered, dibs_err *err);
/* Let a name of the caller remember a port, as after the end of a claim (INV-7). TAKEN: it has a claim. */
dibs_status ledger_remember_name(struct ledger *ledger, const struct call *call, const char *name,
                                 uint16_t port, dibs_err *err);
/* The first of them; NOT_FOUND: there is none. */
dibs_status ledger_first_name(struct ledger *ledger, const struct call *call,
                              const struct ledger_names *among, char out[DIBS_NAME_MAX + 1], dibs_err *err);

/* Ascending by id, tokens empty. `fn` must not call the ledger. */
dibs_status ledger_list(struct ledger *ledger, const struct call *call, const struct ledger_filter *filter,
                        bool (*fn)(void *, const dibs_claim *), void *ctx, dibs_err *err);

/* Slots of all protocols on these ports; NULL: all, grouped by protocol and port. */
dibs_status ledger_slots(struct ledger *ledger, const struct call *call, const struct portbits *ports,
                         ledger_slot_fn fn, void *ctx, dibs_err *err);

/* The newest event's number, and the cursor of candidate orders. */
dibs_status ledger_tail(struct ledger *ledger, const struct call *call, uint64_t *seq, uint64_t *cursor,
                        dibs_err *err);
struct ledger_feed {
    dibs_event_query query;
    uint64_t *oldest; /* gets the number of the oldest event still kept, or 0; may be NULL */
};
dibs_status ledger_events(struct ledger *ledger, const struct call *call, const struct ledger_feed *feed,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err);

dibs_status ledger_pool_get(struct ledger *ledger, const struct call *call, const char *name, dibs_pool *out,
                            dibs_err *err);
dibs_status ledger_pool_put(struct ledger *ledger, const struct call *call, const dibs_pool *pool,
                            dibs_err *err);
/* TAKEN while claims are in it. */
dibs_status ledger_pool_remove(struct ledger *ledger, const struct call *call, const char *name,
                               dibs_err *err);
dibs_status ledger_pools(struct ledger *ledger, const struct call *call,
                         bool (*fn)(void *, const dibs_pool *), void *ctx, dibs_err *err);

/* Count one more sighting of each of these generations as leaked (W4). */
dibs_status ledger_sighted(struct ledger *ledger, const struct call *call, const struct ledger_seen *seen,
                           size_t n, uint32_t *counts, dibs_err *err);
/* They were observed in use: forget their sightings. */
dibs_status ledger_not_leaked(struct ledger *ledger, const struct call *call, const uint64_t *ids, size_t n,
                              dibs_err *err);

/* Write claims and pools with new ids, generations and tokens, all or nothing. An identical claim is passed
 * over, a conflicting one fails with TAKEN, an invalid one with INVALID. With `refused` (one for each claim,
 * zeroed) such ones are reported there, and the others are written. */
dibs_status ledger_restore(struct ledger *ledger, const struct call *call, const dibs_snapshot *snapshot,
                           size_t *n_restored, dibs_err *refused, dibs_err *err);

/* Trim what is old. *n_damaged (may be NULL) counts the claims whose record is damaged now. */
dibs_status ledger_upkeep(struct ledger *ledger, const struct call *call, size_t *n_damaged, dibs_err *err);

/* As store_flaws(). */
dibs_status ledger_flaws(struct ledger *ledger, const struct call *call, store_flaw_fn fn, void *ctx,
                         dibs_err *err);

dibs_status ledger_health(struct ledger *ledger, struct ledger_health *out, dibs_err *err);

/* Copy what is readable of a damaged ledger into a new file, and swap them. Other processes may have it open.
 */
dibs_status ledger_salvage(const char *uri, const struct call *call, struct ledger_salvaged *out,
                           dibs_err *err);
#endif
