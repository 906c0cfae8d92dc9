/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_LEDGER_H
#define DIBS_LEDGER_LEDGER_H
/* Claims and their history. Every operation is one decision: atomic, durable when it returns OK (INV-2), and
 * bounded by its deadline (INV-9). The caller passes in dead holders, ports to try and the bind probe. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"
#include "ledger/call.h"
#include "store/record.h"
#include "store/report.h"

struct ledger;

/* Return whether the text is the URI of a ledger, without opening it. */
dibs_status ledger_check(const char *uri, dibs_err *err);
/* Return whether several hosts share the ledger of this URI. Only long-lived processes open such a ledger. */
bool ledger_is_cluster(const char *uri);
/* Check the name of a host in a cluster. */
dibs_status ledger_check_node(const char *name, dibs_err *err);
/* Open "sqlite:PATH", "etcd://..." (etcd/config.h) or "memory:". INVALID: unknown scheme. */
dibs_status ledger_open(const char *uri, const struct ledger_options *options, struct ledger **out,
                        dibs_err *err);
void ledger_close(struct ledger *ledger); /* NULL is fine */
/* As store_have_process(). */
void ledger_have_process(void);
/* Start the threads and watches of a long-lived process. */
dibs_status ledger_start_background(struct ledger *ledger, dibs_err *err);
/* Return a descriptor that becomes readable when other hosts have changed something; -1: none. */
int ledger_notices(const struct ledger *ledger);
/* Apply those changes and return their total number: they make no events here. */
uint64_t ledger_take_notices(struct ledger *ledger);
/* Revalidate the cached copy before the next transaction. */
void ledger_revalidate(struct ledger *ledger);
struct portbits;
/* Get the ports that other hosts changed since the last call. False: any port may have changed. */
bool ledger_changed_elsewhere(struct ledger *ledger, struct portbits *out);

/* Get a lease for this host, and renew it; claims of this handle in cluster pools are attached to it and end
 * with it. Does nothing for a ledger of one host. TAKEN: another machine has that name. */
dibs_status ledger_join(struct ledger *ledger, int64_t ttl_ms, const char *boot_id, dibs_err *err);
/* The ledger may be NULL. */
void ledger_lease(const struct ledger *ledger, struct ledger_lease *out);

/* List the hosts that share the ledger; none for a ledger of one host. */
dibs_status ledger_nodes(struct ledger *ledger, const struct call *call, dibs_node_fn fn, void *ctx,
                         dibs_err *err);
/* Give that host a number, so that its claims can be restored; name NULL: this host. INVALID: impossible. */
dibs_status ledger_node_enrol(struct ledger *ledger, const char *name, dibs_err *err);
/* As dibs_node_remove(): first end its claims in pools of the scope cluster, then its other claims. */
dibs_status ledger_node_remove(struct ledger *ledger, const struct call *call, const char *name,
                               bool is_forced, size_t *n, dibs_err *err);

/* ---- one transaction of several calls ---- */
/* Begin a write transaction that calls share through call.tx; each still succeeds or fails alone.
 * `is_synced`: the commit survives power loss. If a call needs that (INV-2: a kept claim) without it, the
 * commit fails, ledger_lacked_sync() is true, and the caller repeats all calls with it. */
struct ledger_tx *ledger_begin(struct ledger *ledger, bool is_synced);
bool ledger_lacked_sync(const struct ledger *ledger);
/* The same for calls that only read. NULL: see `err`. */
struct ledger_tx *ledger_begin_read(struct ledger *ledger, const struct call *call, dibs_err *err);
/* Begin the store's transaction before the first change. On failure every later call fails the same way. */
void ledger_tx_open(struct ledger_tx *tx, const struct call *call);
struct ledger_span {
    uint64_t before; /* newest event before it; a follower behind this has missed events of others */
    uint64_t after;
    dibs_err why; /* why the transaction could not begin; OK: it did, or was not needed */
};
/* UNAVAILABLE: nothing was committed. `out` may be NULL. */
dibs_status ledger_commit(struct ledger_tx *tx, struct ledger_span *out, dibs_err *err);
/* Commit the transactions of several hosts' handles (ledger_beside()), all or none. */
dibs_status ledger_commit_all(struct ledger_tx *const *txs, size_t n, dibs_err *err);
void ledger_rollback(struct ledger_tx *tx); /* NULL is fine */

/* The one retry rule: return whether a decision or commit failed by a conflict with another host, and time
 * and tries are left. A commit of many calls has fewer tries: its callers retry in smaller groups. */
enum { LEDGER_TRIES_MAX = 1024 }; /* of one call; the deadline comes sooner */
bool ledger_try_again(const struct ledger *ledger, const struct call *call, size_t n_calls,
                      unsigned *n_tries);

/* Return whether several hosts share the ledger. */
bool ledger_is_shared(const struct ledger *ledger);
/* Open the same ledger as another host. INVALID: the ledger is not shared; NOT_FOUND: unknown host. */
dibs_status ledger_beside(struct ledger *ledger, const char *node, struct ledger **out, dibs_err *err);
bool ledger_is_of_this_host(const struct ledger *ledger, const struct ledger *beside);
/* Get the number of this host, *rank of *n; *n 0: not shared. False: no number yet, it counts as the last. */
bool ledger_place(const struct ledger *ledger, uint32_t *rank, uint32_t *n);

/* Let a shared store drop old versions. The daemon of each host calls this; one of them does the work. */
enum { LEDGER_COMPACT_MS = 60000 };
void ledger_compact(struct ledger *ledger);
/* Describe the cluster of the URI within `timeout_ms`. INVALID: such a ledger is not shared. */
dibs_status ledger_cluster(const char *uri, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);

/* NULL: the store has no traffic. */
const struct ledger_traffic *ledger_traffic(const struct ledger *ledger);
bool ledger_lost_race(const struct ledger *ledger);
/* Return whether the store did not answer: do not retry now. Only then the change may have been committed. */
bool ledger_was_unreachable(const struct ledger *ledger);

/* Call `fn` (NULL: none) for every change of ours when it is written, before its commit. */
typedef void (*ledger_wrote_fn)(void *ctx, const dibs_event *event, const dibs_claim *claim);
void ledger_tell_writes(struct ledger *ledger, ledger_wrote_fn fn, void *ctx);

/* Return a random number fixed when the ledger was made, the same for all processes that share it. */
uint64_t ledger_salt(const struct ledger *ledger);

enum ledger_probe { LEDGER_PROBE_FREE, LEDGER_PROBE_BUSY, LEDGER_PROBE_ABORT };

/* One wanted claim, and the ports to try for it, in order. */
struct ledger_want {
    dibs_claim claim;          /* everything but id, generation, port, times and token */
    uint16_t required;         /* port that an existing claim of the name must have; 0: any */
    uint32_t align;            /* ... and the number it must be a multiple of; 0 and 1: any */
    const dibs_ranges *within; /* ... and the ranges it must be in; NULL: any */
    uint16_t remembered;       /* the name's last port: its own cooldown is ignored */
    bool is_lookup;            /* return an existing claim of the name unchanged */
    bool is_same;              /* ... only if it has the requested bindings */
    bool is_adopted;           /* ... and keep it from now on */
    bool skips_probe;          /* declared or adopted: the number is in use without a claim */
    bool is_choice;            /* dibs chose the candidates: skip declared and cooling ports */
    bool accepts_cooling;      /* ... but not these cooling ones: no others are left */
    int64_t cooldown_ms;
    /* Bindings before a host without IPv6 narrowed them: the name's claim may have these. 0: not narrowed. */
    size_t n_wide;
    dibs_binding wide[DIBS_BINDINGS_MAX];
    const uint16_t *candidates;
    size_t n_candidates;
    uint32_t run;      /* this want and those after it, this many together, get adjacent ports */
    uint16_t run_base; /* where a run must begin if some of its names have claims already; 0: none */
};

/* A claim to end before the wants are decided, in the same transaction, unless it has a holder. */
struct ledger_drop {
    struct ledger_seen seen;
    const char *frees; /* its name, if a want takes it: a claim that stays is renamed NAME/PORT; NULL: none */
    bool stays;        /* in use without a holder: do not end it, and keep it as before */
    /* Unless it stays: TAKEN when a held claim's name begins with this many bytes of its name. 0: none. */
    uint32_t shared_bytes;
};

/* The caller's idempotency key of a batch: a repeated request with the same key gets the same answer. */
struct ledger_key {
    const char *text;
    uint64_t digest; /* hash of the request: INVALID when a repeated one differs */
};

struct ledger_batch {
    const struct ledger_key *key; /* NULL: none */
    const struct ledger_want *wants;
    size_t n;
    const struct ledger_drop *drops;
    size_t n_drops;
    bool is_dry_run; /* decide and answer, but commit nothing */
    /* Claims of dead holders, ascending by id; the ledger may end those that have not changed since. */
    const struct ledger_seen *dead;
    size_t n_dead;
    enum ledger_probe (*probe)(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err);
    void *probe_ctx;
};

/* Why a batch was not claimed. */
struct ledger_refusal {
    size_t want;     /* index of the refused want */
    bool is_shared;  /* `blocker` uses a claim that was to be dropped */
    bool by_name;    /* the name's own claim is the blocker */
    bool differs;    /* ... because it differs from the request */
    bool breaks_run; /* ... because no run fits around it */
    uint16_t port;   /* the last port that was blocked or busy; 0: none */
    bool is_busy;    /* the probe found that port busy */
    bool is_beyond;  /* the call's allowance is used up: EXHAUSTED, even if ports are free */
    bool has_blocker;
    dibs_claim blocker; /* of `port`, not known to be dead; a damaged one comes first */
    size_t n_busy;      /* ports that the probe found busy, and one whose dead claim could not be ended */
    bool is_stuck;      /* that is the last of them, and the reason of the failure */
    uint16_t busy[DIBS_CANDIDATES_MAX];
    size_t n_cooling; /* candidates skipped because they cool */
};

/* Claim all or nothing (INV-4). TAKEN: the name or the only candidate is taken; EXHAUSTED: all candidates
 * are; both fill `refusal`. A probe that aborts returns its own error. out[i] answers wants[i]. */
dibs_status ledger_claim(struct ledger *ledger, const struct call *call, const struct ledger_batch *batch,
                         dibs_claim *out, struct ledger_refusal *refusal, dibs_err *err);

/* DENIED unless the caller may end and change the claim. */
dibs_status ledger_check_right(const struct call *call, const dibs_claim *claim, dibs_err *err);

enum ledger_end_how {
    LEDGER_END_RELEASE, /* by its principal or an admin */
    LEDGER_END_UNHOLD,  /* same, but it stays if kept, or for a lease that its process borrowed from */
    LEDGER_END_UNKEEP,  /* same, but it stays only for such a lease */
    LEDGER_END_REAP,    /* its holder is dead: as UNHOLD, for any caller */
    LEDGER_END_STALE,   /* kept, and its project is gone: ends */
    LEDGER_END_LEAK,    /* kept, and not observed three times: ends */
    LEDGER_END_GONE,    /* an administrator knows that its user is gone: ends, unless its lease was renewed */
    LEDGER_END_VACATE,  /* same, but the claim stays without a keeper: its name is in use */
};
struct ledger_ending {
    const struct ledger_seen *seen;
    size_t n;
    enum ledger_end_how how;
};
/* Return whether the claim would still exist after it was ended like this at that time (CLOCK_BOOTTIME). */
bool ledger_stays(const dibs_claim *claim, enum ledger_end_how how, int64_t boot_ms);
/* End the claims of `seen` that still have the same generation (INV-3); `n` counts them. RELEASE, UNHOLD,
 * UNKEEP, GONE and VACATE need the caller's right to each: otherwise DENIED, and nothing ends. */
dibs_status ledger_end(struct ledger *ledger, const struct call *call, const struct ledger_ending *what,
                       size_t *n, dibs_err *err);

struct ledger_ended {
    size_t n;
    dibs_claim claim;
};
/* The same for the claim of a token, which *out gets as it was. n 0: the token is unknown or old. */
dibs_status ledger_end_token(struct ledger *ledger, const struct call *call, const char *token,
                             enum ledger_end_how how, struct ledger_ended *out, dibs_err *err);

/* Check that a claim is certainly held. UNAVAILABLE: its lease cannot be renewed. NOT_FOUND: it expired. */
dibs_status ledger_certain(const dibs_claim *claim, dibs_err *err);
/* Record as events the claims of this host that other hosts have ended; *n counts them. */
dibs_status ledger_note_lost(struct ledger *ledger, const struct call *call, size_t *n, dibs_err *err);

/* Attach claims in pools of the scope cluster that have no lease yet to this host's; *n counts them. */
dibs_status ledger_attach(struct ledger *ledger, const struct call *call, size_t *n, dibs_err *err);

/* Extend a lease. NOT_FOUND: no such claim or another generation; INVALID: not held by a lease. */
dibs_status ledger_renew(struct ledger *ledger, const struct call *call, struct ledger_seen seen,
                         int64_t ttl_ms, dibs_claim *out, dibs_err *err);

/* Give the claim the holder, process, lease, is_kept, uid and command of `heir`, and a new generation. */
dibs_status ledger_transfer(struct ledger *ledger, const struct call *call, struct ledger_seen seen,
                            const dibs_claim *heir, dibs_claim *out, dibs_err *err);

/* NOT_FOUND: the claim has ended or has another generation; INVALID: malformed token. */
dibs_status ledger_find_token(struct ledger *ledger, const struct call *call, const char *token,
                              dibs_claim *out, dibs_err *err);
/* The token in *out is empty. */
dibs_status ledger_find_id(struct ledger *ledger, const struct call *call, uint64_t id, dibs_claim *out,
                           dibs_err *err);
/* Find the caller's claim of that name. NOT_FOUND: *remembered (may be NULL) is the name's last port or 0. */
dibs_status ledger_find_name(struct ledger *ledger, const struct call *call, const char *name,
                             dibs_claim *out, uint16_t *remembered, dibs_err *err);
/* Let a name of the caller remember a port, as after the end of a claim (INV-7). TAKEN: it has a claim. */
dibs_status ledger_remember_name(struct ledger *ledger, const struct call *call, const char *name,
                                 uint16_t port, dibs_err *err);
/* Find the first matching name. NOT_FOUND: none. */
dibs_status ledger_first_name(struct ledger *ledger, const struct call *call,
                              const struct ledger_names *among, char out[DIBS_NAME_MAX + 1], dibs_err *err);

/* List claims, ascending by id, with empty tokens. `fn` must not call the ledger. */
dibs_status ledger_list(struct ledger *ledger, const struct call *call, const struct ledger_filter *filter,
                        bool (*fn)(void *, const dibs_claim *), void *ctx, dibs_err *err);

/* List the slots of all protocols on these ports (NULL: all), grouped by protocol and port. */
dibs_status ledger_slots(struct ledger *ledger, const struct call *call, const struct portbits *ports,
                         ledger_slot_fn fn, void *ctx, dibs_err *err);

/* Get the newest event's number, and the cursor of candidate orders. */
dibs_status ledger_tail(struct ledger *ledger, const struct call *call, uint64_t *seq, uint64_t *cursor,
                        dibs_err *err);
struct ledger_feed {
    dibs_event_query query;
    uint64_t *oldest; /* gets the oldest event number still stored, or 0; may be NULL */
};
dibs_status ledger_events(struct ledger *ledger, const struct call *call, const struct ledger_feed *feed,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err);

dibs_status ledger_pool_get(struct ledger *ledger, const struct call *call, const char *name, dibs_pool *out,
                            dibs_err *err);
dibs_status ledger_pool_put(struct ledger *ledger, const struct call *call, const dibs_pool *pool,
                            dibs_err *err);
/* TAKEN while the pool has claims. */
dibs_status ledger_pool_remove(struct ledger *ledger, const struct call *call, const char *name,
                               dibs_err *err);
dibs_status ledger_pools(struct ledger *ledger, const struct call *call, dibs_pool_fn fn, void *ctx,
                         dibs_err *err);

/* Get the fact about fact->subject. NOT_FOUND: there is none. */
dibs_status ledger_fact(struct ledger *ledger, const struct call *call, struct fact_record *fact,
                        dibs_err *err);
/* Record that the ledger serves this cluster and this installation of dibs; an empty member is not known.
 * TAKEN: it serves another one. */
dibs_status ledger_serve(struct ledger *ledger, const struct call *call, const struct fact_record *cluster,
                         dibs_err *err);
/* Replace the facts about namespaces by these, which it sorts. */
dibs_status ledger_set_quotas(struct ledger *ledger, const struct call *call, struct fact_record *quotas,
                              size_t n, dibs_err *err);
/* Count the caller's claims that have a name. */
dibs_status ledger_count(struct ledger *ledger, const struct call *call, uint32_t *n, dibs_err *err);

/* Record one more sighting of each `seen` as unused; sets its count, and since when, for its generation (W4).
 */
dibs_status ledger_sighted(struct ledger *ledger, const struct call *call, struct sighting_record *rows,
                           size_t n, dibs_err *err);
/* Forget the sightings of these claims: they were observed in use. */
dibs_status ledger_not_leaked(struct ledger *ledger, const struct call *call, const uint64_t *ids, size_t n,
                              dibs_err *err);

/* The outcome for one claim of a snapshot. */
struct ledger_restored {
    bool is_written; /* false: refused, or an identical claim was there */
    dibs_err refused;
};
/* Write claims and pools with new ids and tokens, all or nothing. An identical claim is skipped; TAKEN: a
 * conflict. With `each` (one for each claim) errors go there, and the other claims are written. */
dibs_status ledger_restore(struct ledger *ledger, const struct call *call, const dibs_snapshot *snapshot,
                           size_t *n_restored, struct ledger_restored *each, dibs_err *err);

/* Drop old records. *n_damaged (may be NULL) counts the claims with damaged records. */
dibs_status ledger_upkeep(struct ledger *ledger, const struct call *call, size_t *n_damaged, dibs_err *err);

/* As store_flaws(). */
dibs_status ledger_flaws(struct ledger *ledger, const struct call *call, store_flaw_fn fn, void *ctx,
                         dibs_err *err);

/* Check that a change could be written now, without waiting for a lock. UNAVAILABLE: why not. */
dibs_status ledger_writable(struct ledger *ledger, dibs_err *err);
dibs_status ledger_health(struct ledger *ledger, struct ledger_health *out, dibs_err *err);

/* Copy the readable part of a damaged ledger into a new file and swap them. Others may have it open. */
dibs_status ledger_salvage(const char *uri, const struct call *call, struct ledger_salvaged *out,
                           dibs_err *err);
#endif
