/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_LEDGER_H
#define DIBS_LEDGER_LEDGER_H
/* Where claims and their history live.
 *
 * Every operation is one whole decision: atomic, durable when it returns OK (INV-2), and over
 * within its deadline (INV-9). A ledger knows nothing of processes, sockets or policy: who is
 * dead is told to it, what to try is given to it, and the bind probe is a callback. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "dibs/claim.h"

struct ledger;

struct ledger_options {
    bool is_sync_full;  /* every commit survives power loss, not only those of kept claims */
    int64_t timeout_ms; /* of each call */
    const char *node;   /* what this host is called in a cluster; NULL: as the kernel says */
};

/* "sqlite:PATH", "etcd://..." (etcd/config.h) or "memory:". INVALID: unknown scheme; UNAVAILABLE: see
 * err->trouble. */
/* Is it one? Nothing is opened. */
dibs_status ledger_check(const char *uri, dibs_err *err);
/* Can a host be called that in a cluster? */
dibs_status ledger_check_node(const char *name, dibs_err *err);
dibs_status ledger_open(const char *uri, const struct ledger_options *options, struct ledger **out,
                        dibs_err *err);
void ledger_close(struct ledger *ledger); /* NULL is fine */
/* Before the first ledger of a program that has SQLite for itself: it does not count its memory, which nobody
 * asks for and which takes a tenth of a statement's time. Later it changes nothing. */
void ledger_have_process(void);
/* For a process that lives long: what can be done beside the calls is done by a thread. */
dibs_status ledger_care_beside(struct ledger *ledger, dibs_err *err);
/* Since then: a descriptor that becomes readable when others have changed something; -1: there is none. */
int ledger_notices(const struct ledger *ledger);
/* Takes that in. The number grows with changes of which no event tells: those of other hosts. */
uint64_t ledger_heed(struct ledger *ledger);
/* What others have done up to now counts for what is decided next, also if nobody has told of it yet. */
void ledger_doubt(struct ledger *ledger);
struct portbits;
/* The ports that these changes were about, since it was asked last. False: any port may have changed. */
bool ledger_changed_elsewhere(struct ledger *ledger, struct portbits *out);

/* Where hosts share a ledger each has a lease, which its daemon renews. Holders of ports that are everybody's
 * hang on it: when it has ended they are dead for all. Does nothing for a ledger of one host. From then on
 * this handle makes such claims. TAKEN: another machine has that name. */
dibs_status ledger_join(struct ledger *ledger, int64_t ttl_ms, const char *boot_id, dibs_err *err);
struct ledger_lease {
    bool is_cluster;     /* hosts share the ledger; all that follows is of this one */
    bool is_member;      /* ledger_join() was called */
    int64_t incarnation; /* 0: the lease has ended, and there is no other yet */
    int64_t margin_ms;   /* how long it certainly lives; 0: that is not certain */
    uint64_t n_ended;    /* leases that were lost so far */
    size_t n_lost;       /* claims that ledger_note_lost() has to tell of */
    uint64_t n_gone;     /* leases of other hosts that were seen to end */
    bool is_loose;       /* ledger_hang() may have something to do */
    char trouble[256];   /* why it cannot be renewed; empty: it can */
};
/* The ledger may be NULL. */
void ledger_lease(const struct ledger *ledger, struct ledger_lease *out);

/* Hosts that share the ledger; none for a ledger of one host. */
dibs_status ledger_nodes(struct ledger *ledger, dibs_node_fn fn, void *ctx, dibs_err *err);
/* From now on there is a host of that name: one whose claims are restored; NULL: this one. INVALID: there can
 * be none. */
dibs_status ledger_node_enrol(struct ledger *ledger, const char *name, dibs_err *err);
struct ledger_actor;
/* Ends all claims of a host and forgets it: first what it has of ports that are everybody's, then all that is
 * its own. As dibs_node_remove(). */
dibs_status ledger_node_remove(struct ledger *ledger, const char *name, bool is_forced,
                               const struct ledger_actor *actor, size_t *n, dibs_err *err);

/* A call of a user begins: the timeout runs over all that it does, not over each transaction anew. */
void ledger_start_call(struct ledger *ledger);

/* Looks between these two see one state, and cost one transaction. A change ends it. */
dibs_status ledger_read_begin(struct ledger *ledger, dibs_err *err);
void ledger_read_end(struct ledger *ledger);

/* From here on every change of every call waits for ledger_group_commit(), in one transaction: a call that is
 * OK may be told of only after that. Each call still succeeds or fails alone. */
void ledger_group_begin(struct ledger *ledger);
/* Its transaction begins with the first change; with this at once, so that what is read before that is what
 * the commit is built on. */
void ledger_group_open(struct ledger *ledger);
/* Of the ports that claims of the group will want on these bindings, leaves those that no claim has, whoever
 * has made it: nobody else can claim them until the commit. Returns how many; 0 too when the transaction has
 * not begun. */
size_t ledger_group_clear(struct ledger *ledger, const dibs_binding *bindings, size_t n_bindings,
                          uint16_t *ports, size_t n);
struct ledger_span {
    uint64_t before; /* number of the newest event before the group: what lies between this and what a
                        follower saw last came from others */
    uint64_t after;
    dibs_err why; /* its transaction could not begin, which all its calls were told; OK: it could, or nobody
                     has tried */
};
/* UNAVAILABLE: nothing of the group has happened; its calls may be tried again one by one. */
dibs_status ledger_group_commit(struct ledger *ledger, struct ledger_span *out, dibs_err *err);
/* That was because somebody else's commit came first: all may be tried again together. */
/* Do several hosts have it? */
bool ledger_is_shared(const struct ledger *ledger);
/* Another handle on it, which is that of another host. INVALID: nobody shares it; NOT_FOUND: it does not know
 * that host. */
dibs_status ledger_beside(struct ledger *ledger, const char *node, struct ledger **out, dibs_err *err);
bool ledger_is_of_this_host(const struct ledger *ledger, const struct ledger *beside);
/* What groups of such handles have decided, all or none. On failure all is as before. */
dibs_status ledger_groups_commit(struct ledger *const *ledgers, size_t n, dibs_err *err);
/* None of it is wanted. */
void ledger_group_abandon(struct ledger *ledger);
/* Of *n hosts that share it this is number *rank; *n 0: nobody shares it. False: it has no number yet, and is
 * counted as the last. */
bool ledger_place(const struct ledger *ledger, uint32_t *rank, uint32_t *n);

/* What went over the wire since it was opened. A commit that took no longer than LEDGER_TXN_US_MAX(i) counts
 * in n_within[i]; one that took longer only in n_commits. */
enum { LEDGER_TXN_BUCKETS = 12 };
#define LEDGER_TXN_US_MAX(i) (INT64_C(500) << (i))
struct ledger_traffic {
    uint64_t n_commits;     /* Txns that were answered, */
    uint64_t n_beaten;      /* ... and those of them that came to nothing, because others were first */
    uint64_t n_retries;     /* requests that had to be sent again, to another member or later */
    uint64_t n_loads;       /* times that all was read anew */
    uint64_t n_compactions; /* times that this host had old versions forgotten */
    uint64_t n_within[LEDGER_TXN_BUCKETS];
    int64_t total_us;
    int64_t lag_ms; /* how long the last change of ours took to be told by the watch; -1: not yet */
};
/* Where hosts share a ledger one of them has the store forget old versions, when they begin to fill it: those
 * that were old already at the call before. Each host's daemon calls it so often; for another ledger it does
 * nothing. */
enum { LEDGER_TEND_MS = 60000 };
void ledger_tend(struct ledger *ledger);
/* How the store of a shared ledger is, asked of each of its members. */
enum { LEDGER_MEMBERS_MAX = 32 };
struct ledger_member {
    char name[64];
    char url[272];   /* "": it has not started */
    bool is_named;   /* in the ledger's URI */
    bool answers;    /* what follows is known only then; of those that are not named it is not asked */
    char why[200];   /* ... why it does not, */
    bool is_refused; /* ... and it would answer others: user, password or certificates are wrong */
    int64_t took_us; /* to answer */
    char version[32];
    bool is_leader, has_leader, is_learner;
    int64_t revision, bytes, used_bytes;
    int64_t quota_bytes;      /* 0: it does not say */
    bool is_full, is_corrupt; /* alarms */
};
struct ledger_cluster {
    struct ledger_member member[LEDGER_MEMBERS_MAX];
    size_t n;
    bool is_quorate;   /* a read that needs a majority was answered, */
    int64_t quorum_us; /* ... after so long */
    bool has_other_alarm;
    char why[200];   /* why it was not, */
    bool is_refused; /* ... and others would be: as above, or rights are missing */
};
/* Asks within `timeout_ms`. INVALID: nobody shares such a ledger. */
dibs_status ledger_cluster(const char *uri, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);

/* NULL: nothing does. */
const struct ledger_traffic *ledger_traffic(const struct ledger *ledger);
bool ledger_was_beaten(const struct ledger *ledger);
/* ... or because the store did not answer: nobody is to be tried again now. In this case alone it may have
 * happened after all, which the error says. */
bool ledger_was_cut(const struct ledger *ledger);

/* `fn` sees every change of ours as it is written, its claim as it is then. One that is not committed comes
 * to nothing, and its number is given again. NULL: nobody. */
typedef void (*ledger_wrote_fn)(void *ctx, const dibs_event *event, const dibs_claim *claim);
void ledger_tell_writes(struct ledger *ledger, ledger_wrote_fn fn, void *ctx);

/* A random number fixed when the ledger was made: all who share it choose alike. */
uint64_t ledger_salt(const struct ledger *ledger);

/* How many claims a user has, and may have. Kept up with what he makes and ends himself. */
struct ledger_allowance {
    uint32_t n, max;
};

/* Who acts, and when: recorded with every event. */
struct ledger_actor {
    struct instant now;
    uint32_t uid;
    int32_t pid;
    const char *principal;              /* whose rights are used */
    bool is_admin;                      /* may end what belongs to others */
    struct ledger_allowance *allowance; /* EXHAUSTED, with nothing changed, beyond it; NULL: any number */
};

/* A claim as it was when somebody judged its holder. */
struct ledger_seen {
    uint64_t id;
    uint64_t generation;
    /* Of a lease, when it was judged. Renewing leaves generation and token as they are, so that who acts on a
     * judgement of death (reaping, taking over) must compare this too. */
    int64_t lease_until_ms;
};

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
    bool skips_probe;          /* declared: the user takes the number himself */
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

/* A caller's own mark of a batch: asked for again with the same mark, the answer is the same. */
struct ledger_key {
    const char *text;
    uint64_t digest; /* of what is asked for: INVALID when it is something else than the first time */
};
#define LEDGER_KEY_MAX 128 /* bytes: a UUID, or what a build system calls a job */

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

#define LEDGER_BLOCKERS_MAX 8

/* Why a batch was not claimed. */
struct ledger_refusal {
    size_t want;       /* index of the one that failed */
    bool is_shared;    /* what was to be dropped is used by who holds blockers[0] */
    bool by_name;      /* the name's claim stands in the way: blockers[0] */
    bool differs;      /* ... because something else was asked for than it has */
    bool breaks_run;   /* ... because no run can be made around it */
    uint16_t port;     /* the last port that was blocked or busy; 0: none */
    bool is_busy;      /* the probe found that port busy */
    bool is_beyond;    /* the actor's allowance: EXHAUSTED, whatever ports are free */
    size_t n_blockers; /* claims that stood in the way of `port` and are not known to be dead */
    dibs_claim blockers[LEDGER_BLOCKERS_MAX];
    size_t n_busy; /* ports that the probe found busy */
    uint16_t busy[DIBS_CANDIDATES_MAX];
    size_t n_cooling; /* candidates passed over because they cool */
};

/* All or nothing (INV-4). TAKEN: a name, or the only candidate, is not to be had; EXHAUSTED: none of
 * several candidates is; both fill `refusal`. What the probe aborts with is passed on. out[i]
 * answers wants[i], with its token. */
dibs_status ledger_claim(struct ledger *ledger, const struct ledger_batch *batch,
                         const struct ledger_actor *actor, dibs_claim *out, struct ledger_refusal *refusal,
                         dibs_err *err);

enum ledger_end_how {
    LEDGER_END_RELEASE, /* by its principal or an admin */
    LEDGER_END_UNHOLD,  /* same, but a kept claim stays, and one that a lease held before its process */
    LEDGER_END_UNKEEP,  /* same, but only for that lease */
    LEDGER_END_REAP,    /* its holder is dead: as UNHOLD, whoever asks */
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
 * RELEASE, UNHOLD, UNKEEP and GONE the actor must have the right to: DENIED, and nothing is ended. `n`
 * counts.
 */
dibs_status ledger_end(struct ledger *ledger, const struct ledger_ending *what,
                       const struct ledger_actor *actor, size_t *n, dibs_err *err);

struct ledger_ended {
    size_t n;
    dibs_claim claim;
};
/* The same for the one claim that a token names, in one transaction: *n is 1 and *out the claim as it was, or
 * *n is 0 because the token is none, or old, or its claim has ended. */
dibs_status ledger_end_token(struct ledger *ledger, const char *token, enum ledger_end_how how,
                             const struct ledger_actor *actor, struct ledger_ended *out, dibs_err *err);

/* May it be told that this claim is held, as far as its host's lease goes? Kept ones are nobody else's in any
 * case. UNAVAILABLE: this host cannot renew its lease. NOT_FOUND: that has ended, and the claim is lost. */
dibs_status ledger_certain(const dibs_claim *claim, dibs_err *err);
/* Writes into the history what others have ended of this host's claims; *n of them. */
dibs_status ledger_note_lost(struct ledger *ledger, const struct ledger_actor *actor, size_t *n,
                             dibs_err *err);

/* Whoever holds a port that is everybody's hangs on the lease of his host, also when the port was not
 * everybody's as he got it, or the host had no lease then; *n of them do from now on. What was claimed stays
 * as it is. */
dibs_status ledger_hang(struct ledger *ledger, const struct ledger_actor *actor, size_t *n, dibs_err *err);

/* A new lease end. NOT_FOUND: no such claim or another generation; INVALID: not held by a lease. */
dibs_status ledger_renew(struct ledger *ledger, struct ledger_seen seen, int64_t ttl_ms,
                         const struct ledger_actor *actor, dibs_claim *out, dibs_err *err);

/* `heir` carries holder, process, lease, is_kept, uid and command; a new generation and token. */
dibs_status ledger_transfer(struct ledger *ledger, struct ledger_seen seen, const dibs_claim *heir,
                            const struct ledger_actor *actor, dibs_claim *out, dibs_err *err);

/* The claim that a token names: NOT_FOUND when it has ended or has another generation, INVALID when it is no
 * token. */
dibs_status ledger_find_token(struct ledger *ledger, const char *token, dibs_claim *out, dibs_err *err);
/* Its token stays empty. */
dibs_status ledger_find_id(struct ledger *ledger, uint64_t id, dibs_claim *out, dibs_err *err);
/* The claim of a name; NOT_FOUND: none now, but *remembered (may be NULL) is its last port or 0. */
dibs_status ledger_find_name(struct ledger *ledger, const char *principal, const char *name, dibs_claim *out,
                             uint16_t *remembered, dibs_err *err);
/* Names from `from` up to (not with) `to`, byte by byte: of claims, and remembered ones. */
struct ledger_names {
    const char *principal;
    const char *from, *to;
    const char *project; /* only those that are or were of this one; NULL: of all */
};
/* The first of them; NOT_FOUND: there is none. */
dibs_status ledger_first_name(struct ledger *ledger, const struct ledger_names *among,
                              char out[DIBS_NAME_MAX + 1], dibs_err *err);

struct ledger_filter {       /* zero: everything */
    const char *name_prefix; /* whole leading parts of the name */
    const char *pool;
    const char *principal;
    uint16_t port;
    dibs_proto proto; /* 0: any */
    bool held_only;   /* with a holder: what the reaper looks at */
    uint64_t after_id;
    size_t limit;        /* 0: none */
    const char *project; /* names of this directory */
};
/* Ascending by id, tokens empty. `fn` must not call the ledger. */
dibs_status ledger_list(struct ledger *ledger, const struct ledger_filter *filter,
                        bool (*fn)(void *, const dibs_claim *), void *ctx, dibs_err *err);

/* What the ledger knows of one port of one protocol. */
struct ledger_slot {
    dibs_proto proto;
    uint16_t port;
    dibs_address address;
    uint64_t claim_id; /* 0: free, released at released_ms (CLOCK_BOOTTIME) */
    bool is_exclusive;
    int64_t released_ms;
    /* Of a cluster, and the rows' own business: which host has released it, and when by its clock. Here it
     * counts from when that was seen. */
    uint32_t node;
    int64_t there_ms;
};
typedef bool (*ledger_slot_fn)(void *ctx, const struct ledger_slot *slot);
/* Slots of `proto` on `port`; 0 and 0: all, grouped by protocol and port. */
dibs_status ledger_slots(struct ledger *ledger, dibs_proto proto, uint16_t port, ledger_slot_fn fn, void *ctx,
                         dibs_err *err);

/* The same of all protocols on these ports. */
dibs_status ledger_slots_among(struct ledger *ledger, const struct portbits *ports, ledger_slot_fn fn,
                               void *ctx, dibs_err *err);

/* The newest event's number, and the cursor of candidate orders. */
dibs_status ledger_tail(struct ledger *ledger, uint64_t *seq, uint64_t *cursor, dibs_err *err);
/* `oldest` (may be NULL) gets
 * the number of the oldest event still kept, or 0. */
dibs_status ledger_events(struct ledger *ledger, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err);

dibs_status ledger_pool_get(struct ledger *ledger, const char *name, dibs_pool *out, dibs_err *err);
dibs_status ledger_pool_put(struct ledger *ledger, const dibs_pool *pool, const struct ledger_actor *actor,
                            dibs_err *err);
/* TAKEN while claims are in it. */
dibs_status ledger_pool_remove(struct ledger *ledger, const char *name, const struct ledger_actor *actor,
                               dibs_err *err);
dibs_status ledger_pools(struct ledger *ledger, bool (*fn)(void *, const dibs_pool *), void *ctx,
                         dibs_err *err);

/* Count one more sighting of each of these generations as leaked; an earlier generation's count is forgotten
 * (W4). */
dibs_status ledger_sighted(struct ledger *ledger, const struct ledger_seen *seen, size_t n, uint32_t *counts,
                           dibs_err *err);
/* They were observed in use: forget their sightings. */
dibs_status ledger_not_leaked(struct ledger *ledger, const uint64_t *ids, size_t n, dibs_err *err);

/* Write claims and pools as they are (ids, generations and tokens are new), all or nothing; an identical
 * claim is passed over; a conflicting one fails with TAKEN, one that is no claim with INVALID. With `refused`
 * (one for each claim, zeroed) such ones are told there and the others written. */
dibs_status ledger_restore(struct ledger *ledger, const dibs_snapshot *snapshot,
                           const struct ledger_actor *actor, size_t *n_restored, dibs_err *refused,
                           dibs_err *err);

/* Bounded upkeep: old events, forgotten names, expired cooling marks; quarantines damaged records.
 * `n_damaged` counts the records set aside. */
dibs_status ledger_upkeep(struct ledger *ledger, const struct ledger_actor *actor, size_t *n_damaged,
                          dibs_err *err);

/* What can be wrong with single records; upkeep mends what does not need a decision. */
enum ledger_flaw {
    LEDGER_DAMAGED,   /* its record is not valid; port 0: not even that is known */
    LEDGER_LOST,      /* its port is blocked, its record is gone */
    LEDGER_UNGUARDED, /* it is there, but its port is not blocked, or not for all that it has */
    LEDGER_MISNAMED,  /* its name does not lead to it; `other`: where else, 0 nowhere */
    LEDGER_NAMESAKE,  /* its name leads to `other`, which carries it, too; not mended */
    LEDGER_CONFLICT,  /* it conflicts with `other` (only id and port are told); not mended */
};
typedef bool (*ledger_flaw_fn)(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other);
/* `fn` must not call the ledger. */
dibs_status ledger_flaws(struct ledger *ledger, ledger_flaw_fn fn, void *ctx, dibs_err *err);

struct ledger_health {
    int major, minor;
    uint64_t n_claims, n_events, n_names, n_quarantined;
    uint64_t bytes, wal_bytes;
    bool is_read_only;
    bool is_sound;    /* the backend's own integrity check */
    char detail[256]; /* what the check said */
    char path[1024];
};
dibs_status ledger_health(struct ledger *ledger, struct ledger_health *out, dibs_err *err);

/* Set a damaged ledger aside and make a new one from what is readable. */
struct ledger_rebuilt {
    char aside[1024]; /* what the damaged one is called now */
    size_t n_saved;   /* claims */
    size_t n_lost;    /* claims whose record is lost; their ports are kept */
};
dibs_status ledger_rebuild(const char *uri, const struct ledger_actor *actor, struct ledger_rebuilt *out,
                           dibs_err *err);
#endif
