/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_STORE_H
#define DIBS_STORE_STORE_H
/* The interface between ledger and store: transactions on the records of record.h. */
#include "net/portbits.h"
#include "store/record.h"
#include "store/report.h"

struct store {
    const struct store_ops *ops;   /* first member of every store's struct */
    uint64_t salt;                 /* a random number, chosen when the store was created */
    uint64_t id_base;              /* new claims get ids above it: each node of a cluster has its own range */
    struct cluster_state *cluster; /* NULL: the store belongs to one host */
};

/* The state of a store that several hosts share; the store keeps it current. */
struct cluster_state {
    struct ledger_traffic traffic;
    bool has_number;         /* this node has a number in the ledger */
    uint32_t rank, n_hosts;  /* position of this node among n_hosts; the last while it has no number */
    int notices;             /* descriptor, readable when other nodes have changed records; -1: no watch */
    uint64_t n_elsewhere;    /* changes of other nodes so far */
    struct portbits changed; /* ports that other nodes changed since the ledger last read this */
    bool is_all_changed;     /* any port may have changed */
    bool needs_revalidation; /* set by the ledger: revalidate the copy before the next transaction */
    bool had_conflict;       /* the last commit failed because another node's commit came first */
    bool was_cut;            /* the last commit failed because the store did not answer */
};

/* The kinds of records, each with its type and key. */
enum record_kind {
    CLAIMS,    /* struct claim_record: id */
    SLOTS,     /* struct ledger_slot: proto, port, address, claim_id */
    NAMES,     /* struct name_record: principal, name */
    EVENTS,    /* struct event_record: seq */
    POOLS,     /* dibs_pool: name */
    SIGHTINGS, /* struct sighting_record: id */
    ANSWERS,   /* struct answer_record: principal, key, part */
    FACTS,     /* struct fact_record: subject */
    RECORD_KINDS,
};

struct store_bounds {
    uint64_t oldest_seq;         /* drop events and answers up to this one */
    size_t names_kept;           /* number of newest remembered names to keep */
    int64_t cooled_ms, until_ms; /* keep free slots that were released between these times */
};

typedef bool (*claim_record_fn)(void *ctx, const struct claim_record *row);
typedef bool (*claim_fn)(void *ctx, const dibs_claim *claim);
typedef bool (*record_fn)(void *ctx, const void *record);

/* Every member is mandatory. Unless said otherwise, a member is called inside a transaction and returns OK or
 * UNAVAILABLE; members that find one record also return NOT_FOUND. */
struct store_ops {
    const char *scheme;                /* URI part before ':' */
    const struct cluster_ops *cluster; /* NULL: the store belongs to one host */

    /* Check the whole URI before open(), without opening anything. INVALID: not a valid URI. */
    dibs_status (*check)(const char *uri, dibs_err *err);
    /* Open the store; `rest` is the URI after the colon. */
    dibs_status (*open)(const char *rest, const struct ledger_options *options, struct store **out,
                        dibs_err *err);
    void (*close)(struct store *self); /* NULL is fine */
    /* As ledger_salvage(). `event` names the actor and gets a number. INVALID: the store has no file. */
    dibs_status (*salvage)(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                           dibs_err *err);
    /* Called outside a transaction. */
    dibs_status (*health)(struct store *self, struct ledger_health *out, dibs_err *err);
    /* As ledger_writable(). Called outside a transaction. */
    dibs_status (*writable)(struct store *self, dibs_err *err);
    /* Start the threads and watches of a long-lived process. Called outside a transaction. */
    dibs_status (*start_background)(struct store *self, dibs_err *err);

    /* `is_full`: the commit survives power loss. `deadline_ms` (CLOCK_MONOTONIC) is the deadline of the call,
     * which may need several transactions; 0: the timeout of the options applies. */
    dibs_status (*begin)(struct store *self, bool is_write, bool is_full, int64_t deadline_ms, dibs_err *err);
    dibs_status (*commit)(struct store *self, dibs_err *err);
    void (*rollback)(struct store *self);
    /* One savepoint at a time in a write transaction: undo() drops the changes since save(), forget()
     * keeps them. */
    dibs_status (*save)(struct store *self, dibs_err *err);
    dibs_status (*undo)(struct store *self, dibs_err *err);
    dibs_status (*forget)(struct store *self, dibs_err *err);
    /* Return a number that grows with every change of a record. */
    uint64_t (*changes)(struct store *self);

    /* Complete a record whose key is set. NOT_FOUND also when a record other than a claim is damaged. */
    dibs_status (*get)(struct store *self, enum record_kind kind, void *record, dibs_err *err);
    /* Insert or replace a record. */
    dibs_status (*put)(struct store *self, enum record_kind kind, const void *record, dibs_err *err);
    /* Remove the record with this key; other members are ignored. */
    dibs_status (*erase)(struct store *self, enum record_kind kind, const void *record, dibs_err *err);

    /* List claims above after_id, ascending. The store filters by principal, project or pool, the caller by
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
    /* List all records of a kind, POOLS or FACTS. A damaged one is skipped: it can be written again (INV-6).
     */
    dibs_status (*all)(struct store *self, enum record_kind kind, record_fn fn, void *ctx, dibs_err *err);
    /* Count the claims of a principal that have a name. */
    dibs_status (*count)(struct store *self, const char *principal, uint32_t *n, dibs_err *err);

    /* Drop records beyond the bounds, and sightings of claims that are gone. */
    dibs_status (*trim)(struct store *self, const struct store_bounds *bounds, dibs_err *err);
};

/* Tries of one change to a shared store outside of a commit: each failed because another process changed the
 * same record. A commit has its own rule, ledger_try_again(). */
enum { STORE_TRIES_MAX = 32 };

/* The additional interface of a store that several hosts share. Every member is mandatory. */
struct cluster_ops {
    /* As ledger_cluster(); the store need not be open. */
    dibs_status (*members)(const char *rest, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);
    /* Apply the changes of other nodes that the watch has delivered. */
    void (*take_notices)(struct store *self);

    /* As ledger_join() and ledger_lease(). */
    dibs_status (*join)(struct store *self, int64_t ttl_ms, const char *boot_id, dibs_err *err);
    void (*lease)(const struct store *self, struct ledger_lease *out);
    /* As ledger_attach(), inside a transaction. */
    dibs_status (*attach)(struct store *self, size_t *n, dibs_err *err);
    /* List claims of this node that other nodes have ended, inside a transaction: its commit forgets them. */
    void (*lost)(struct store *self, claim_fn fn, void *ctx);
    /* As ledger_compact(). */
    void (*compact)(struct store *self);

    /* Called outside a transaction: enrol a node; count its own claims (*n as of revision *since); then
     * forget it with its own records. TAKEN: the node has changed a record after `since`. */
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
/* Put a claim and the slots of all its bindings. */
dibs_status store_put_claim(struct store *store, const struct claim_record *row, dibs_err *err);
/* Report all flaws, those of claims first. Called inside a transaction; `fn` must not call the store. */
dibs_status store_flaws(struct store *store, store_flaw_fn fn, void *ctx, dibs_err *err);

/* Turn off SQLite's memory statistics, which take a tenth of a statement's time. Call it before the first
 * store, in a program that is SQLite's only user. */
void store_have_process(void);

extern const struct store_ops store_etcd_ops;
extern const struct store_ops store_sqlite_ops;
extern const struct store_ops store_memory_ops;
/* NULL-terminated. Each program links stores_all.c or stores_local.c. */
extern const struct store_ops *const store_backends[];
#endif
