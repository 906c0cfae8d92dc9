/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_ETCD_STORE_H
#define DIBS_STORE_ETCD_ETCD_STORE_H
/* A store in etcd: an in-memory copy of its records, and one Txn for each commit.
 *
 * Decisions are made on the copy. The Txn compares the records that they are based on, so that a stale copy
 * costs a retry, never a wrong answer. Keys below the prefix:
 *
 *     h/NODE/t          the host's newest event: every commit of the host compares and puts it
 *     h/NODE/b/BLOCK    claims on 64 host-scope ports
 *     h/NODE/e/SEQ      events of one commit; SEQ is the last one's number
 *     h/NODE/n/...      names
 *     h/NODE/k/...      answers to batches with a key
 *     h/NODE/s/...      sightings
 *     h/NODE/w          put by a commit on behalf of several nodes, to wake them
 *     h/NODE/x/ID       a claim of the host that another host ended, until the host has recorded that
 *     c/b/BLOCK         claims on 64 cluster-scope ports
 *     c/n/...           their names
 *     c/p/POOL          pools    c/p/~ ports that no host may claim while their scope changes
 *     c/p/~format-3...  stops processes of older formats: they cannot read it, and report that
 *     c/p/!             put whenever a pool is removed: a deleted key has no revision to compare
 *     c/f/SUBJECT       facts about the Kubernetes cluster; older versions ignore them
 *     c/m/NODE          hosts and their numbers    c/v format and salt
 *     c/l/NODE          exists while that host has a lease (node_lease.c)
 *
 * So nodes conflict only on shared ports in the same block. */
#include "base/clock.h"
#include "net/portbits.h"
#include "store/etcd/block.h"
#include "store/etcd/client/etcd.h"
#include "store/etcd/client/watch.h"

enum {
    /* Format 1 lacks keeper, run and variables of claims: a dibs of that format drops them on a write.
     * A dibs of format 2 takes claims that share the fields of the block's first one for damaged. */
    STORE_MAJOR = 3,
    STORE_KEY_BYTES = 768, /* prefix, host, principal and name */
    STORE_NODES_MAX = 65536,
    STORE_BUCKET_EVENTS = 1024, /* events whose answers are trimmed together */
    STORE_BUCKET_DIGITS = 14,
    STORE_ID_SHIFT = 40, /* ids of a host start at its number shifted by this: 2^40 claims each */
};

/* Used in place of a host name: holds the lowest number for the next new host. */
#define STORE_NEXT_NODE "@"
/* Stored among the pools, whose changes every commit compares; no pool can have these names. That of a format
 * must be a name that older formats do not know: its value is no pool, so they stop. */
#define STORE_FENCE "~"
#define STORE_REMOVAL "!"
#define STORE_FORMAT "~format-3-needs-a-newer-dibs-on-this-host"

enum etcdstore_space { SPACE_HOST, SPACE_CLUSTER, SPACES };

/* The watched ranges: other nodes' messages to this node, and the cluster's records. */
enum etcdstore_watch { WATCH_HOST, WATCH_CLUSTER, WATCHES };

struct etcdstore_key {
    char at[STORE_KEY_BYTES];
    size_t n;
};

struct etcdstore_node {
    char name[DIBS_NODE_MAX + 1]; /* "": no host has this number */
    int64_t incarnation;          /* 0: the host has no lease */
};

struct etcd_store {
    struct memory_store copy; /* must be the first member */
    struct cluster_state state;
    struct etcd_config config;
    struct etcd *etcd;
    char node[DIBS_NODE_MAX + 1];
    int64_t timeout_ms;
    int64_t deadline_ms; /* deadline of the current call */

    bool is_loaded;
    bool is_overtaken;    /* etcd compacted the revision that was being read */
    unsigned n_conflicts; /* conflicts in a row */
    uint64_t conflict_at; /* n_elsewhere at the last conflict */
    int64_t revision;     /* the copy has all cluster-scope records up to it */
    int64_t read_at;      /* revision of the last full read: older notices are ignored */
    uint64_t cluster_id;  /* etcd's, at the last full read */
    bool is_check;        /* as in the options */
    uint32_t format;      /* of the ledger's header at the last full read; 0: it has none */
    struct node_tail tail;
    int64_t tail_revision;                  /* 0: the key does not exist */
    int64_t block_revision[SPACES][BLOCKS]; /* 0: the key does not exist */
    int64_t pools_revision;                 /* of the pool changed last */
    int64_t nodes_revision;                 /* of the node changed last */
    struct portbits shared;                 /* ports of cluster-scope pools */
    struct portbits fenced;                 /* ports whose scope another process is changing */
    struct portbits rescoped;               /* ports whose scope the current transaction changes */
    int64_t fence_lease, fence_revision;    /* the fence around these (scope.c); 0: none */
    struct etcdstore_node *nodes;           /* indexed by number: STORE_NODES_MAX */
    size_t n_nodes;
    /* Watches for changes of other nodes; a short-lived process has none. */
    bool is_watched;
    bool is_cut; /* the watches are paused: etcd compacted changes that they missed, or was replaced */
    struct etcd_watch *watch[WATCHES];
    int64_t load_ms;           /* duration of the last full read of the copy */
    int64_t confirmed_ms;      /* when the copy was last known to be current */
    int64_t silent_ms;         /* when a request last timed out; 0: etcd has answered since */
    dibs_err silence;          /* the error of that request */
    uint64_t n_gone;           /* leases of other hosts seen to end */
    uint64_t n_ended;          /* leases of this host that had ended at its last notice */
    int64_t expected_revision; /* revision of our last commit until the watch delivers it; 0: delivered */
    int64_t expected_ms;       /* when we began to wait for it */

    int64_t compact_revision; /* revision at the last etcdstore_compact(); 0: it was another host's turn */
    uint64_t trimmed_seq;     /* the current transaction drops events and answers up to it; 0: none */
    bool is_noting_lost;      /* the commit of the current transaction forgets the claims in `lost` */
    bool is_unattached;       /* some holders of this node may lack an attachment to its lease */
    struct claim_record *lost;
    size_t n_lost;
    struct ledger_slot *seen; /* cooling ports of other nodes, while their blocks are read again */
    size_t n_seen, max_seen;
    struct etcdstore_lease *lease; /* the lease of this host; NULL: another process renews it, or none does */
    int lease_notice;              /* eventfd for changes of the lease; -1: none */
};

static inline struct etcd_store *etcdstore_of(struct store *store)
{
    return (struct etcd_store *) store;
}

/* Start a call outside a transaction: set its deadline. */
static inline struct etcd_store *etcdstore_begin_call(struct store *store)
{
    struct etcd_store *self = etcdstore_of(store);

    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    return self;
}

/* keys.c */
struct etcdstore_key etcdstore_key(const struct etcd_store *self, enum etcdstore_space space, char kind);
/* The same for a named host; NULL: for the cluster. */
struct etcdstore_key etcdstore_host_key(const struct etcd_store *self, const char *node, char kind);
/* Return the key of a named cluster record: a pool, a node, a lease. */
struct etcdstore_key etcdstore_named_key(const struct etcd_store *self, char kind, const char *name);
/* Append text, or a number of `digits` hex digits. */
void etcdstore_key_add(struct etcdstore_key *key, const char *bytes, size_t n);
void etcdstore_key_add_hex(struct etcdstore_key *key, uint64_t number, int digits);
struct etcd_bytes etcdstore_key_bytes(const struct etcdstore_key *key);
/* Return the end of the range of all keys that begin with `key`. */
struct etcdstore_key etcdstore_key_end(const struct etcdstore_key *key);
/* Parts of requests: compare that a key has this revision (0: absent), compare that no key of a range is
 * newer, read a key, put a key. Key and value must live as long as the request. */
struct etcd_compare etcdstore_same(const struct etcdstore_key *key, int64_t revision);
struct etcd_compare etcdstore_not_newer(const struct etcdstore_key *first, const struct etcdstore_key *end,
                                        int64_t revision);
struct etcd_op etcdstore_read_op(const struct etcdstore_key *key);
struct etcd_op etcdstore_put_op(const struct etcdstore_key *key, const struct bytes *value);
enum etcdstore_space etcdstore_space(const struct etcd_store *self, uint16_t port);
uint32_t etcdstore_number(const struct etcd_store *self);
bool etcdstore_is_own(const struct etcd_store *self, uint32_t node);
/* Find the number of a host; false: it has none. */
bool etcdstore_find_node(const struct etcd_store *self, const char *name, size_t n, size_t *out);
/* Set the claim's node name; "": this node. */
void etcdstore_set_node(const struct etcd_store *self, struct claim_record *row);

/* Note when this node first saw a port that another host released: its cooldown counts from then. The time is
 * noted in slot order before a block is cleared, and looked up when the block is read again. */
void etcdstore_cooling_out(struct etcd_store *self, const struct ledger_slot *slot);

/* node_lease.c */
void etcdstore_lease_state(const struct etcd_store *self, struct ledger_lease *out);
/* Get and renew the lease of the store's node. Every change of the incarnation writes to the store's
 * lease_notice. TAKEN: a host of another boot has that name, and renews its lease. */
dibs_status etcdstore_lease_open(const struct etcd_store *store, int64_t ttl_ms, const char *boot_id,
                                 struct etcdstore_lease **out, dibs_err *err);
/* Stop renewing: the lease lives until its TTL ends. NULL is fine. */
void etcdstore_lease_close(struct etcdstore_lease *lease);

/* Check at once whether the lease has ended. */
void etcdstore_lease_recheck(struct etcdstore_lease *lease);
/* The same, and wait for the result: etcd's data was replaced, and the lease may be missing there.
 * UNAVAILABLE: this node has no lease in it. */
dibs_status etcdstore_lease_rejoin(struct etcdstore_lease *lease, int64_t deadline_ms, dibs_err *err);

/* nodes.c */
/* As ledger_compact(); does nothing while at most `plenty_bytes` are in use. */
void etcdstore_compact(struct etcd_store *self, int64_t plenty_bytes);
void etcdstore_nodes(const struct store *store, dibs_node_fn fn, void *ctx);
dibs_status etcdstore_count_node(struct store *store, const char *name, size_t *n, int64_t *since,
                                 dibs_err *err);
dibs_status etcdstore_forget_node(struct store *store, const char *name, int64_t since, dibs_err *err);

/* copy.c: apply one record to the copy. */
dibs_status etcdstore_apply(struct etcd_store *self, enum etcdstore_space space, const struct etcd_kv *kv,
                            dibs_err *err);
/* Return the key without prefix and space: "b/01d4", its first letter is the kind; empty: another space. */
struct etcd_bytes etcdstore_rest(const struct etcd_store *self, enum etcdstore_space space,
                                 const struct etcd_kv *kv);
/* Decode the block or the name of such a key. False: it has none. */
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
/* Read the whole copy at one revision. */
dibs_status etcdstore_load(struct etcd_store *self, dibs_err *err);
struct etcd_call etcdstore_call(const struct etcd_store *self);

/* follow.c: start to watch the changes of other nodes. */
dibs_status etcdstore_watch(struct etcd_store *self, dibs_err *err);
void etcdstore_unwatch(struct etcd_store *self);
/* Apply the notices that have arrived, without waiting. */
void etcdstore_take_notices(struct etcd_store *self);
/* Wait for a random time after a conflict, so that the nodes do not retry at the same moment. */
void etcdstore_back_off(const struct etcd_store *self);
/* Revalidate the copy before a transaction; read it again if necessary. */
dibs_status etcdstore_catch_up(struct etcd_store *self, dibs_err *err);
/* Note that etcd did not answer: the next requests of a server fail at once instead of waiting for it. */
void etcdstore_note_silence(struct etcd_store *self, const dibs_err *why);
dibs_status etcdstore_fail_if_silent(struct etcd_store *self, dibs_err *err);

/* scope.c: change or remove a pool. TAKEN: a port would change its scope while a host has a claim on it. */
dibs_status etcdstore_change_pool(struct store *store, const dibs_pool *pool, bool is_removed, dibs_err *err);
/* Recompute the scopes after a rollback restored the pools of the copy. */
void etcdstore_scope_undone(struct etcd_store *self);
/* Remove the fence at the end of a transaction. */
void etcdstore_scope_end(struct etcd_store *self);

/* Compare the node's tail after a failed commit; mark the copy stale if another process wrote it. */
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
