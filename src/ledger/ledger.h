/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_LEDGER_H
#define DIBS_LEDGER_LEDGER_H
/* Where claims and their history live.
 *
 * Every operation is one whole decision: atomic, durable when it returns OK (INV-2), and over
 * within its deadline (INV-9). A ledger knows nothing of processes, sockets or policy: its caller
 * says which holders are dead and which ports to try, and the bind probe is a callback. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
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
/* Before the first ledger of a program that has SQLite for itself: it does not count its memory, which nobody
 * asks for and which takes a tenth of a statement's time. Later it changes nothing. */
void ledger_have_process(void);
/* For a process that lives long: what can be done beside the calls is done by a thread. */
dibs_status ledger_start_background(struct ledger *ledger, dibs_err *err);
/* Since then: a descriptor that becomes readable when others have changed something; -1: there is none. */
int ledger_notices(const struct ledger *ledger);
/* Takes that in. The number grows with changes of which no event tells: those of other hosts. */
uint64_t ledger_take_notices(struct ledger *ledger);
/* Revalidate the cached copy before the next transaction. */
void ledger_revalidate(struct ledger *ledger);
struct portbits;
/* The ports that these changes were about, since it was asked last. False: any port may have changed. */
bool ledger_changed_elsewhere(struct ledger *ledger, struct portbits *out);

/* Join the hosts that share the ledger: each has a lease, which its daemon renews. Claims in pools of the
 * scope cluster are attached to it: when it has expired their holders are dead for all hosts. From then on
 * this handle makes such claims. Does nothing for a ledger of one host. TAKEN: another machine has that
 * name. */
dibs_status ledger_join(struct ledger *ledger, int64_t ttl_ms, const char *boot_id, dibs_err *err);
/* The ledger may be NULL. */
void ledger_lease(const struct ledger *ledger, struct ledger_lease *out);

/* Hosts that share the ledger; none for a ledger of one host. */
dibs_status ledger_nodes(struct ledger *ledger, const struct call *call, dibs_node_fn fn, void *ctx,
                         dibs_err *err);
/* From now on there is a host of that name: one whose claims are restored; NULL: this one. INVALID: there can
 * be none. */
dibs_status ledger_node_enrol(struct ledger *ledger, const char *name, dibs_err *err);
/* End all claims of a host and forget it: first those in pools of the scope cluster, then its own. As
 * dibs_node_remove(). */
dibs_status ledger_node_remove(struct ledger *ledger, const struct call *call, const char *name,
                               bool is_forced, size_t *n, dibs_err *err);

/* ---- one transaction of several calls ---- */
/* Calls with call.tx = the result share one write transaction: a call that is OK may be answered only after
 * ledger_commit(). Each call still succeeds or fails alone. The store's transaction begins with the first
 * change. A ledger has one transaction at a time; ledger_commit() or ledger_rollback() ends it. `is_synced`:
 * the commit survives power loss. Without that: if one of the calls needs it (INV-2: it makes, changes or
 * ends a kept claim), the commit fails, ledger_lacked_sync() is true, and the caller repeats all with a sync.
 */
struct ledger_tx *ledger_begin(struct ledger *ledger, bool is_synced);
bool ledger_lacked_sync(const struct ledger *ledger);
/* The same for calls that only read: they see one state, and cost one transaction. NULL: `err` says why. */
struct ledger_tx *ledger_begin_read(struct ledger *ledger, const struct call *call, dibs_err *err);
/* Begin the store's transaction at once, so that the commit is built on what is read before the first
 * change. Its failure is that of every call that follows. */
void ledger_tx_open(struct ledger_tx *tx, const struct call *call);
struct ledger_span {
    uint64_t before; /* number of the newest event before it: what lies between this and what a
                        follower saw last came from others */
    uint64_t after;
    dibs_err why; /* its transaction could not begin, which all its calls returned; OK: it could, or nobody
                     has tried */
};
/* UNAVAILABLE: nothing of it has happened. `out` may be NULL. */
dibs_status ledger_commit(struct ledger_tx *tx, struct ledger_span *out, dibs_err *err);
/* All or none of what the transactions of several hosts' handles have (ledger_beside()). */
dibs_status ledger_commit_all(struct ledger_tx *const *txs, size_t n, dibs_err *err);
void ledger_rollback(struct ledger_tx *tx); /* NULL is fine */

/* The one retry rule. After a decision or a commit that failed: another host's commit came first, and there
 * are time and tries left. A commit that `n_calls` share has the fewer tries the more they are: the larger
 * it is, the likelier it loses again, and its callers then try in smaller groups. Begin with *n_tries 0. */
enum { LEDGER_TRIES_MAX = 1024 }; /* of one call; the deadline is sooner: each try asks etcd twice at least */
bool ledger_try_again(const struct ledger *ledger, const struct call *call, size_t n_calls,
                      unsigned *n_tries);

/* Do several hosts have it? */
bool ledger_is_shared(const struct ledger *ledger);
/* Another handle on it, which is that of another host. INVALID: nobody shares it; NOT_FOUND: it does not know
 * that host. */
dibs_status ledger_beside(struct ledger *ledger, const char *node, struct ledger **out, dibs_err *err);
bool ledger_is_of_this_host(const struct ledger *ledger, const struct ledger *beside);
/* Of *n hosts that share it this is number *rank; *n 0: nobody shares it. False: it has no number yet, and is
 * counted as the last. */
bool ledger_place(const struct ledger *ledger, uint32_t *rank, uint32_t *n);

/* Where hosts share a ledger one of them has the store forget old versions, when they begin to fill it: those
 * that were old already at the call before. Each host's daemon calls it so often; for another ledger it does
 * nothing. */
enum { LEDGER_COMPACT_MS = 60000 };
void ledger_compact(struct ledger *ledger);
/* Asks within `timeout_ms`. INVALID: nobody shares such a ledger. */
dibs_status ledger_cluster(const char *uri, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);

/* NULL: nothing does. */
const struct ledger_traffic *ledger_traffic(const struct ledger *ledger);
bool ledger_lost_race(const struct ledger *ledger);
/* ... or because the store did not answer: nobody is to be tried again now. In this case alone it may have
 * happened after all, which the error says. */
bool ledger_was_unreachable(const struct ledger *ledger);

/* `fn` sees every change of ours as it is written, its claim as it is then. One that is not committed comes
 * to nothing, and its number is given again. NULL: nobody. */
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
    size_t n_wide; /* bindings before a host without IPv6 narrowed them: the name's claim may have these; 0:
                      was not */
    dibs_binding wide[DIBS_BINDINGS_MAX];
    const uint16_t *candidates;
    size_t n_candidates;
    uint32_t run; /* so many wants from this one on get adjacent ports; its candidates are where the run may
                     begin */
    uint16_t run_base; /* the only begin at which a run is completed of which names hold a part; 0: none */
};

/* A claim that ends before the wants are decided, in the same transaction, unless somebody holds it. */
struct ledger_drop {
    struct ledger_seen seen;
    const char *frees; /* its name, which a want has: if it does not end, it is NAME/PORT then; NULL: none */
    bool stays;        /* it is in use without a holder: not ended, and kept as before */
    /* Unless it stays: TAKEN when somebody holds a claim whose name begins with so many bytes of its own.
     * That may be since the caller has looked. 0: nobody shares it. */
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
    dibs_claim
        blocker;   /* stood in the way of `port` and is not known to be dead; a damaged one comes first */
    size_t n_busy; /* ports that the probe found busy */
    uint16_t busy[DIBS_CANDIDATES_MAX];
    size_t n_cooling; /* candidates passed over because they cool */
};

/* All or nothing (INV-4). TAKEN: a name, or the only candidate, is not to be had; EXHAUSTED: none of
 * several candidates is; both fill `refusal`. What the probe aborts with is passed on. out[i]
 * answers wants[i], with its token. */
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
/* Ends those of `seen` that still have the same generation; the others are passed over (INV-3). With
 * RELEASE, UNHOLD, UNKEEP and GONE the caller must have the right to: DENIED, and nothing is ended. `n`
 * counts.
 */
dibs_status ledger_end(struct ledger *ledger, const struct call *call, const struct ledger_ending *what,
                       size_t *n, dibs_err *err);

struct ledger_ended {
    size_t n;
    dibs_claim claim;
};
/* The same for the one claim that a token names, in one transaction: *n is 1 and *out the claim as it was, or
 * *n is 0 because the token is none, or old, or its claim has ended. */
dibs_status ledger_end_token(struct ledger *ledger, const struct call *call, const char *token,
                             enum ledger_end_how how, struct ledger_ended *out, dibs_err *err);

/* Is this claim certain to be held, as far as the lease of its host goes? Kept ones are nobody else's in any
 * case. UNAVAILABLE: this host cannot renew its lease. NOT_FOUND: that has ended, and the claim is lost. */
dibs_status ledger_certain(const dibs_claim *claim, dibs_err *err);
/* Writes into the history what others have ended of this host's claims; *n of them. */
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

/* The claim that a token names: NOT_FOUND when it has ended or has another generation, INVALID when it is no
 * token. */
dibs_status ledger_find_token(struct ledger *ledger, const struct call *call, const char *token,
                              dibs_claim *out, dibs_err *err);
/* Its token stays empty. */
dibs_status ledger_find_id(struct ledger *ledger, const struct call *call, uint64_t id, dibs_claim *out,
                           dibs_err *err);
/* The claim of the caller by this name; NOT_FOUND: none now, but *remembered (may be NULL) is its last port
 * or 0. */
dibs_status ledger_find_name(struct ledger *ledger, const struct call *call, const char *name,
                             dibs_claim *out, uint16_t *remembered, dibs_err *err);
/* Let a name of the caller without a claim remember a port, as after the end of one (INV-7). TAKEN: the name
 * has a claim. */
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

/* Count one more sighting of each of these generations as leaked; an earlier generation's count is forgotten
 * (W4). */
dibs_status ledger_sighted(struct ledger *ledger, const struct call *call, const struct ledger_seen *seen,
                           size_t n, uint32_t *counts, dibs_err *err);
/* They were observed in use: forget their sightings. */
dibs_status ledger_not_leaked(struct ledger *ledger, const struct call *call, const uint64_t *ids, size_t n,
                              dibs_err *err);

/* Write claims and pools as they are (ids, generations and tokens are new), all or nothing; an identical
 * claim is passed over; a conflicting one fails with TAKEN, one that is no claim with INVALID. With `refused`
 * (one for each claim, zeroed) such ones are reported there and the others written. */
dibs_status ledger_restore(struct ledger *ledger, const struct call *call, const dibs_snapshot *snapshot,
                           size_t *n_restored, dibs_err *refused, dibs_err *err);

/* Trim old events, remembered names and expired slots of cooling ports. *n_damaged (may be NULL) counts the
 * claims whose record is damaged now. */
dibs_status ledger_upkeep(struct ledger *ledger, const struct call *call, size_t *n_damaged, dibs_err *err);

/* As store_flaws(). */
dibs_status ledger_flaws(struct ledger *ledger, const struct call *call, store_flaw_fn fn, void *ctx,
                         dibs_err *err);

dibs_status ledger_health(struct ledger *ledger, struct ledger_health *out, dibs_err *err);

/* Mend a damaged ledger: copy what is readable into a new file, set the damaged one aside and put the new one
 * in its place. Other processes may have it open; they go on with the new one. */
dibs_status ledger_salvage(const char *uri, const struct call *call, struct ledger_salvaged *out,
                           dibs_err *err);
#endif
