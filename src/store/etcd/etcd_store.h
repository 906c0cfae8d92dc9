/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_ETCD_STORE_H
#define DIBS_STORE_ETCD_ETCD_STORE_H
/* A store in etcd: an in-memory copy of its records, and one Txn for each commit.
 *
 * Decisions are made on the copy. The Txn compares what they are based on, so that a stale copy costs another
 * attempt, never a wrong answer. Below the prefix stand
 *
 *     h/NODE/t          how far the host's history has come: every commit of the host compares and puts it
 *     h/NODE/b/BLOCK    claims on 64 ports that are the host's own
 *     h/NODE/e/SEQ      events of one commit, by the number of the last
 *     h/NODE/n/...      names
 *     h/NODE/k/...      answers to keys
 *     h/NODE/s/...      sightings
 *     h/NODE/w          put by a commit on behalf of several nodes, to wake the others of them
 *     h/NODE/x/ID       a claim of the host that another one has ended, until the host has noted it
 *     c/b/BLOCK         claims on 64 ports of pools with the scope `cluster`
 *     c/n/...           their names
 *     c/p/POOL          pools    c/p/~ ports that no host claims while their scope changes
 *     c/p/!format-2...  keeps processes of format 1 from going on: they cannot read it, and say so
 *     c/p/!             put whenever a pool is removed: what is gone has no revision to compare
 *     c/m/NODE          hosts and their numbers    c/v format and salt
 *     c/l/NODE          is there while that host has a lease (node_lease.c)
 *
 * So nodes conflict only where they share ports, and there only on the same block. */
#include "base/clock.h"
#include "net/portbits.h"
#include "store/etcd/block.h"
#include "store/etcd/client/etcd.h"
#include "store/etcd/client/watch.h"

enum {
    /* 1: claims without keeper, run and variables, which a dibs of that format drops when it writes a block.
     */
    STORE_MAJOR = 2,
    STORE_KEY_BYTES = 768, /* prefix, host, principal, name */
    STORE_NODES_MAX = 65536,
    STORE_BUCKET_EVENTS = 1024, /* whose answers are forgotten together */
    STORE_BUCKET_DIGITS = 14,
    STORE_ID_SHIFT = 40, /* ids of a host begin behind its number times this: a million million claims */
};

/* In the place of a host: the number that the next one gets, at least. */
#define STORE_NEXT_NODE "@"
/* Among the pools, whose changes every commit compares; no pool can have these names. */
#define STORE_FENCE "~"
#define STORE_REMOVAL "!"
#define STORE_FORMAT "!format-2-needs-a-newer-dibs-on-this-host"

enum etcdstore_space { SPACE_HOST, SPACE_CLUSTER, SPACES };

/* The watched ranges: messages of other nodes to this one, and the cluster's records. */
enum etcdstore_watch { WATCH_HOST, WATCH_CLUSTER, WATCHES };

struct etcdstore_key {
    char at[STORE_KEY_BYTES];
    size_t n;
};

struct etcdstore_node {
    char name[DIBS_NODE_MAX + 1]; /* empty: no host has this number */
    int64_t incarnation;          /* 0: it has no lease */
};

struct etcd_store {
    struct memory_store near; /* first */
    struct cluster_state state;
    struct etcd_config config;
    struct etcd *etcd;
    char node[DIBS_NODE_MAX + 1];
    int64_t timeout_ms;
    int64_t deadline_ms; /* of the call under way */

    bool is_loaded;
    bool is_overtaken;    /* what was being read was compacted meanwhile */
    unsigned n_conflicts; /* one after another, the last time */
    uint64_t conflict_at; /* n_elsewhere at the last one */
    int64_t revision;     /* the copy has all cluster-scope records up to it */
    int64_t read_at;      /* ... when it was last read as a whole: older notices are in it */
    struct node_tail tail;
    int64_t tail_revision;                  /* 0: it is not there */
    int64_t block_revision[SPACES][BLOCKS]; /* likewise */
    int64_t pools_revision;                 /* of the pool that changed last */
    int64_t nodes_revision;                 /* ... and of the host */
    struct portbits shared;                 /* ports of cluster pools */
    struct portbits fenced;                 /* ports whose scope another process changes */
    struct portbits rescoped;               /* ports whose scope the transaction under way changes, */
    int64_t fence_lease, fence_revision;    /* ... and the fence around them (scope.c); 0: there is none */
    struct etcdstore_node *nodes;           /* by their numbers: STORE_NODES_MAX */
    size_t n_nodes;
    /* Following what others change; a short-lived process does not. */
    bool is_watched;
    bool is_cut; /* the watches stand still: what they missed is gone */
    struct etcd_watch *watch[WATCHES];
    int64_t load_ms;      /* how long it took to read the copy as a whole, the last time */
    int64_t confirmed_ms; /* when the copy was last seen to be up to date */
    int64_t silent_ms;    /* when somebody waited in vain for an answer of etcd; 0: it has answered since */
    dibs_err silence;     /* ... its error */
    uint64_t n_gone;      /* leases of other hosts that have ended since */
    int64_t expected_revision; /* of our last commit, which the watch has not delivered yet; 0: it has */
    int64_t expected_ms;       /* since when */

    int64_t compact_revision; /* when etcdstore_compact() looked last; 0: it was not this host's turn */
    uint64_t trimmed_seq;     /* in the transaction under way: events and answers up to it go; 0: none */
    bool is_noting_lost;      /* ... and its commit forgets the claims below */
    bool is_unattached;       /* holders of this node may not be attached to its lease */
    struct claim_record *lost;
    size_t n_lost;
    struct ledger_slot *seen; /* ports that others have released, while their records are read again */
    size_t n_seen, max_seen;
    struct etcdstore_lease *lease; /* that of this host; NULL: somebody else renews it, or nobody */
    int lease_notice;              /* an eventfd, among the notices; -1: there is none */
};

static inline struct etcd_store *etcdstore_of(struct store *store)
{
    return (struct etcd_store *) store;
}

/* For a call outside of a transaction. */
static inline struct etcd_store *etcdstore_begin_call(struct store *store)
{
    struct etcd_store *self = etcdstore_of(store);

    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    return self;
}

/* keys.c */
struct etcdstore_key etcdstore_key(const struct etcd_store *self, enum etcdstore_space space, char kind);
/* The same of a host that is named; NULL: of the cluster. */
struct etcdstore_key etcdstore_host_key(const struct etcd_store *self, const char *node, char kind);
/* A record of the cluster that has a name: a pool, a node, a lease. */
struct etcdstore_key etcdstore_named_key(const struct etcd_store *self, char kind, const char *name);
/* Behind that: text, or a number of so many digits. */
void etcdstore_key_add(struct etcdstore_key *key, const char *bytes, size_t n);
void etcdstore_key_add_hex(struct etcdstore_key *key, uint64_t number, int digits);
struct etcd_bytes etcdstore_key_bytes(const struct etcdstore_key *key);
/* The end of the range of all keys that begin with `key`. */
struct etcdstore_key etcdstore_key_end(const struct etcdstore_key *key);
/* Parts of requests: a key is as we know it (0: not there), none of a range is newer; read a key, put it. Key
 * and value live as long as the request. */
struct etcd_compare etcdstore_same(const struct etcdstore_key *key, int64_t revision);
struct etcd_compare etcdstore_not_newer(const struct etcdstore_key *first, const struct etcdstore_key *end,
                                        int64_t revision);
struct etcd_op etcdstore_look(const struct etcdstore_key *key);
struct etcd_op etcdstore_put(const struct etcdstore_key *key, const struct bytes *value);
enum etcdstore_space etcdstore_space(const struct etcd_store *self, uint16_t port);
uint32_t etcdstore_number(const struct etcd_store *self);
bool etcdstore_is_own(const struct etcd_store *self, uint32_t node);
/* Find the number of a host; false: it has none. */
bool etcdstore_find_node(const struct etcd_store *self, const char *name, size_t n, size_t *out);
/* Set the name of the node whose claim it is; empty: this one. */
void etcdstore_set_node(const struct etcd_store *self, struct claim_record *row);

/* The cooldown of a port that another host released counts from when this node first saw it. That time is
 * noted, in the order of slots, before a block is cleared, and looked up when the block is read again. */
void etcdstore_cooling_out(struct etcd_store *self, const struct ledger_slot *slot);

/* node_lease.c */
void etcdstore_lease_state(const struct etcd_store *self, struct ledger_lease *out);
/* Get and renew the lease of that store's node, which outlives it. Every change of the incarnation writes to
 * the store's lease_notice. TAKEN: a host of another boot has that name, and renews its lease. */
dibs_status etcdstore_lease_open(const struct etcd_store *store, int64_t ttl_ms, const char *boot_id,
                                 struct etcdstore_lease **out, dibs_err *err);
void etcdstore_lease_close(struct etcdstore_lease *lease); /* it runs on until its TTL ends; NULL is fine */

/* It may have ended: look at once. */
void etcdstore_lease_recheck(struct etcdstore_lease *lease);

/* nodes.c */
/* As ledger_compact(); with no more in use than that nothing is done. */
void etcdstore_compact(struct etcd_store *self, int64_t plenty_bytes);
void etcdstore_nodes(const struct store *store, dibs_node_fn fn, void *ctx);
dibs_status etcdstore_count_node(struct store *store, const char *name, size_t *n, int64_t *since,
                                 dibs_err *err);
dibs_status etcdstore_forget_node(struct store *store, const char *name, int64_t since, dibs_err *err);

/* copy.c: takes one record into the copy. */
dibs_status etcdstore_apply(struct etcd_store *self, enum etcdstore_space space, const struct etcd_kv *kv,
                            dibs_err *err);
/* What is behind prefix and space in its key: "b/01d4", the first letter is its kind; empty: nothing. */
struct etcd_bytes etcdstore_rest(const struct etcd_store *self, enum etcdstore_space space,
                                 const struct etcd_kv *kv);
/* The block, or the name, that such a key has. False: it is none. */
bool etcdstore_read_block(struct etcd_bytes rest, uint16_t *out);
bool etcdstore_read_name(const struct etcd_store *self, struct etcd_bytes rest, struct name_record *out);
/* Read blocks that are not in the copy. */
struct blocks_read {
    const struct block_reader *to;
    bool is_whole; /* all of them could be decoded */
    int64_t revision;
};
dibs_status etcdstore_read_blocks(struct etcd_store *self, const struct etcdstore_key *first,
                                  const struct etcdstore_key *end, struct blocks_read *read, dibs_err *err);
/* Reads all that the copy holds, at one revision. */
dibs_status etcdstore_load(struct etcd_store *self, dibs_err *err);
struct etcd_call etcdstore_call(const struct etcd_store *self);

/* follow.c: begins to follow what others change. */
dibs_status etcdstore_watch(struct etcd_store *self, dibs_err *err);
void etcdstore_unwatch(struct etcd_store *self);
/* Take in the notices that have arrived, without waiting. */
void etcdstore_take_notices(struct etcd_store *self);
/* Revalidate the copy before a transaction; read it again if necessary. */
dibs_status etcdstore_catch_up(struct etcd_store *self, dibs_err *err);
/* etcd did not answer: a server fails its next requests at once instead of waiting for each. */
void etcdstore_note_silence(struct etcd_store *self, const dibs_err *why);
dibs_status etcdstore_listen(struct etcd_store *self, dibs_err *err);

/* scope.c: a pool changes. TAKEN: a port would change its scope while a host has a claim on it. */
dibs_status etcdstore_change_pool(struct store *store, const dibs_pool *pool, bool is_removed, dibs_err *err);
/* A rollback restored the pools of the copy. */
void etcdstore_scope_undone(struct etcd_store *self);
/* The transaction is over. */
void etcdstore_scope_end(struct etcd_store *self);

/* The node's tail in etcd after a commit failed: read the copy again if another process wrote it. */
void etcdstore_compare_tail(struct etcd_store *self, const struct etcd_result *tail);
/* Report a conflict: another commit came first. */
dibs_status etcdstore_conflict(struct etcd_store *self, dibs_err *err);

/* commit.c: commit the changes of these stores' transactions as one Txn. */
dibs_status etcdstore_commit(struct store *const *all, size_t n, dibs_err *err);
/* nodes.c: give a node a number, if it has none. */
dibs_status etcdstore_enrol(struct etcd_store *self, const char *node, dibs_err *err);
/* Read the ledger's header, or write the first one; refuse a format that this version does not know. */
dibs_status etcdstore_check_header(struct etcd_store *self, dibs_err *err);
#endif
