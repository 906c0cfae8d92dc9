/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_STORE_H
#define DIBS_STORE_STORE_H
/* What the ledger needs from a store: transactions on the records of record.h. A store that several hosts
 * share has a second interface. */
#include "net/portbits.h"
#include "store/record.h"
#include "store/report.h"

struct store {
    const struct store_ops *ops; /* first member of every store's struct */
    uint64_t salt;               /* a random number fixed when the store was made */
    uint64_t id_base; /* ids of new claims are above it: each node of a cluster has its own range */
    struct cluster_state *cluster; /* NULL: one host has the store alone */
};

/* The state of a store that several hosts share; the store keeps it current. */
struct cluster_state {
    struct ledger_traffic traffic;
    bool has_number;         /* this node is among those that the ledger knows, */
    uint32_t rank, n_hosts;  /* ... which one of how many: behind them all while it has no number */
    int notices;             /* readable when other nodes have changed something; -1: not watched */
    uint64_t n_elsewhere;    /* changes of other nodes so far */
    struct portbits changed; /* their ports, since the ledger looked last, */
    bool is_all_changed;     /* ... or any port */
    bool needs_revalidation; /* set by the ledger: confirm the copy before the next transaction */
    bool had_conflict;       /* the last commit failed: another node's commit came first, a retry sees it */
    bool was_cut;            /* ... the store did not answer */
};

/* The kinds of records. The key of each is marked. */
enum record_kind {
    CLAIMS,    /* struct claim_record: id */
    SLOTS,     /* struct ledger_slot: proto, port, address, claim_id */
    NAMES,     /* struct name_record: principal, name */
    EVENTS,    /* struct event_record: seq */
    POOLS,     /* dibs_pool: name */
    SIGHTINGS, /* struct sighting_record: id */
    ANSWERS,   /* struct answer_record: principal, key, part */
    RECORD_KINDS,
};

struct store_bounds {
    uint64_t oldest_seq;         /* events and answers up to it go */
    size_t names_kept;           /* names that are only remembered, the newest ones */
    int64_t cooled_ms, until_ms; /* free slots stay that were released between these */
};

typedef bool (*claim_record_fn)(void *ctx, const struct claim_record *row);
typedef bool (*claim_fn)(void *ctx, const dibs_claim *claim);

/* Every member is mandatory. Unless said otherwise a member is called inside of a transaction and returns OK
 * or UNAVAILABLE; the ones that get a record also NOT_FOUND. */
struct store_ops {
    const char *scheme;                /* URI part before ':' */
    const struct cluster_ops *cluster; /* NULL: one host has the store alone */

    /* Check the whole URI without opening anything, before open(). INVALID: it is none. */
    dibs_status (*check)(const char *uri, dibs_err *err);
    /* `rest` is the URI after the colon. */
    dibs_status (*open)(const char *rest, const struct ledger_options *options, struct store **out,
                        dibs_err *err);
    void (*close)(struct store *self); /* NULL is fine */
    /* As ledger_salvage(); `event` says who does it, and is recorded with a number. INVALID: the store has no
     * file that could be damaged. */
    dibs_status (*salvage)(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                           dibs_err *err);
    /* Outside of a transaction. */
    dibs_status (*health)(struct store *self, struct ledger_health *out, dibs_err *err);
    /* Start the threads and watches of a long-lived process. Outside of a transaction. */
    dibs_status (*start_background)(struct store *self, dibs_err *err);

    /* `is_full`: the commit survives power loss. `deadline_ms` (CLOCK_MONOTONIC) is that of the call, which
     * may make several transactions; 0: this transaction has the timeout of the options. */
    dibs_status (*begin)(struct store *self, bool is_write, bool is_full, int64_t deadline_ms, dibs_err *err);
    dibs_status (*commit)(struct store *self, dibs_err *err);
    void (*rollback)(struct store *self);
    /* A savepoint inside of a write transaction, one at a time: undo() drops the changes since save(),
     * forget() keeps them. */
    dibs_status (*save)(struct store *self, dibs_err *err);
    dibs_status (*undo)(struct store *self, dibs_err *err);
    dibs_status (*forget)(struct store *self, dibs_err *err);
    /* Grows with every change of a record. */
    uint64_t (*changes)(struct store *self);

    /* Complete a record that has its key. NOT_FOUND also when a record other than a claim is damaged. */
    dibs_status (*get)(struct store *self, enum record_kind kind, void *record, dibs_err *err);
    /* Insert or replace. */
    dibs_status (*put)(struct store *self, enum record_kind kind, const void *record, dibs_err *err);
    /* Only the key of the record is looked at. */
    dibs_status (*erase)(struct store *self, enum record_kind kind, const void *record, dibs_err *err);

    /* Ascending by id, above after_id; with a principal (and project) or pool only theirs; the caller filters
     * the rest. */
    dibs_status (*claims)(struct store *self, const struct ledger_filter *filter, claim_record_fn fn,
                          void *ctx, dibs_err *err);

    dibs_status (*slots)(struct store *self, dibs_proto proto, uint16_t port, ledger_slot_fn fn, void *ctx,
                         dibs_err *err);
    dibs_status (*name_first)(struct store *self, const struct ledger_names *among,
                              char out[DIBS_NAME_MAX + 1], dibs_err *err);

    dibs_status (*tail)(struct store *self, uint64_t *seq, uint64_t *cursor, dibs_err *err);
    dibs_status (*events)(struct store *self, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err);
    dibs_status (*pools)(struct store *self, bool (*fn)(void *, const dibs_pool *), void *ctx, dibs_err *err);

    /* Drop what is beyond the bounds, and sightings of claims that are gone. */
    dibs_status (*trim)(struct store *self, const struct store_bounds *bounds, dibs_err *err);
};

/* What only a store has that several hosts share. Every member is mandatory. */
struct cluster_ops {
    /* As ledger_cluster(): of a store that need not be open. */
    dibs_status (*members)(const char *rest, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);
    /* Take in what other nodes have changed, as far as it is known here. */
    void (*take_notices)(struct store *self);

    /* As ledger_join() and ledger_lease(). */
    dibs_status (*join)(struct store *self, int64_t ttl_ms, const char *boot_id, dibs_err *err);
    void (*lease)(const struct store *self, struct ledger_lease *out);
    /* As ledger_attach(), inside of a transaction. */
    dibs_status (*attach)(struct store *self, size_t *n, dibs_err *err);
    /* Claims of this node that other nodes have ended, inside of a transaction: its commit forgets them. */
    void (*lost)(struct store *self, claim_fn fn, void *ctx);
    /* As ledger_compact(). */
    void (*compact)(struct store *self);

    /* Outside of a transaction: enrol a node; count its own claims, *n as of *since; then forget it with its
     * own records. TAKEN: it has changed something after `since`. */
    void (*nodes)(const struct store *self, dibs_node_fn fn, void *ctx);
    dibs_status (*node_enrol)(struct store *self, const char *name, dibs_err *err);
    dibs_status (*node_count)(struct store *self, const char *name, size_t *n, int64_t *since, dibs_err *err);
    dibs_status (*node_forget)(struct store *self, const char *name, int64_t since, dibs_err *err);

    /* As ledger_beside(), ledger_is_of_this_host() and ledger_commit_all(). */
    dibs_status (*beside)(struct store *self, const char *node, struct store **out, dibs_err *err);
    bool (*is_own_host)(const struct store *self, const struct store *beside);
    dibs_status (*commit_all)(struct store *const *store, size_t n, dibs_err *err);
};

dibs_status store_get_claim(struct store *store, uint64_t id, struct claim_record *out, dibs_err *err);
dibs_status store_get_name(struct store *store, const char *principal, const char *name,
                           struct name_record *out, dibs_err *err);
dibs_status store_get_pool(struct store *store, const char *name, dibs_pool *out, dibs_err *err);
/* Put the slots of all bindings of a claim. */
dibs_status store_put_slots(struct store *store, const dibs_claim *claim, dibs_err *err);
/* Report all flaws, those of claims first. Inside of a transaction; `fn` must not call the store. */
dibs_status store_flaws(struct store *store, store_flaw_fn fn, void *ctx, dibs_err *err);

/* Before the first store of a program that has SQLite for itself: SQLite does not count its memory, which
 * takes a tenth of a statement's time. */
void store_have_process(void);

extern const struct store_ops store_etcd_ops;
extern const struct store_ops store_sqlite_ops;
extern const struct store_ops store_memory_ops;
/* NULL-terminated. Each program links one of two tables: stores_all.c or stores_local.c. */
extern const struct store_ops *const store_backends[];
#endif
