/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ETCD_STORE_H
#define DIBS_LEDGER_ETCD_STORE_H
/* A ledger in etcd: rows in memory that are a near copy of what is there, and one Txn for each commit.
 *
 * Decisions are made on the copy. The Txn compares what they are built on, so that a copy that was not up to
 * date costs another attempt, never a wrong answer. Below the prefix stand
 *
 *     h/NODE/t          how far the host's history has come: every commit of the host compares and puts it
 *     h/NODE/b/BLOCK    claims on 64 ports that are the host's own
 *     h/NODE/e/SEQ      events of one commit, by the number of the last
 *     h/NODE/n/...      names
 *     h/NODE/k/...      answers to keys
 *     h/NODE/s/...      sightings
 *     h/NODE/w          put by who does not follow, so that those who do hear of it
 *     h/NODE/x/ID       a claim of the host that another one has ended, until the host has noted it
 *     c/b/BLOCK         claims on 64 ports that are everybody's: those of pools with the scope `cluster`
 *     c/n/...           their names
 *     c/p/POOL          pools    c/p/~ ports that nobody claims while they become everybody's
 *     c/p/!             put whenever a pool is removed: what is gone has no revision to compare
 *     c/m/NODE          hosts and their numbers    c/v format and salt
 *     c/l/NODE          is there while that host has a lease (etcd_lease.h)
 *
 * So hosts meet only where they share ports, and there only on the same block. */
#include "etcd/etcd.h"
#include "etcd/watch.h"
#include "ledger/etcd_lease.h"
#include "ledger/etcd_pack.h"
#include "net/portbits.h"

enum {
    STORE_MAJOR = 1,
    STORE_KEY_BYTES = 768, /* prefix, host, principal, name */
    STORE_NODES_MAX = 65536,
    STORE_ANSWERS_KEPT = 8192, /* events for which a batch's key is remembered: all of them are in the copy */
    STORE_BUCKET_EVENTS = 1024, /* ... and are forgotten in groups */
    STORE_BUCKET_DIGITS = 14,
    STORE_ID_SHIFT = 40, /* ids of a host begin behind its number times this: a million million claims */
};

/* In the place of a host: the number that the next one gets, at least. */
#define STORE_NEXT_NODE "@"

enum store_space { SPACE_HOST, SPACE_CLUSTER, SPACES };

/* What is everybody's; what others leave for this host; and all else of the host, from when another process
 * of it was noticed that follows, too: such do not put the key that wakes the others. */
enum store_watch { WATCH_HOST, WATCH_CLUSTER, WATCH_TWIN, WATCHES };

struct store_key {
    char at[STORE_KEY_BYTES];
    size_t n;
};

struct store_node {
    char name[DIBS_NODE_MAX + 1]; /* empty: no host has this number */
    int64_t incarnation;          /* 0: it has no lease */
};

struct etcd_rows {
    struct memory_rows near; /* first */
    struct etcd_config config;
    struct etcd *etcd;
    char node[DIBS_NODE_MAX + 1];
    int64_t timeout_ms;
    int64_t deadline_ms; /* of the call under way */
    bool is_in_call;     /* ... since start_call() */
    bool is_fresh;       /* ... and looked since */

    bool is_loaded;
    bool is_overtaken; /* what was being read was compacted meanwhile */
    bool was_beaten;
    bool is_fenced;     /* ... by ports that change hands */
    bool was_cut;       /* ... or etcd did not answer */
    unsigned n_beaten;  /* ... so many times one after another, the last time */
    uint64_t beaten_at; /* ... when so many changes had been told */
    int64_t
        twin_revision; /* of the host's tail, by a process that is not this one; behind ours: it is known */
    int64_t revision;  /* all that was everybody's up to it is in the copy */
    int64_t read_at;   /* ... when it was last read as a whole: what is told of before that is in it */
    struct node_tail tail;
    int64_t tail_revision;                  /* 0: it is not there */
    int64_t block_revision[SPACES][BLOCKS]; /* likewise */
    int64_t pools_revision;                 /* of the pool that changed last */
    int64_t nodes_revision;                 /* ... and of the host */
    struct portbits shared;                 /* ports of cluster pools */
    struct portbits fenced;                 /* ports that are becoming such */
    struct store_hands *hands; /* ports that change hands in the transaction under way; NULL: none */
    struct store_node *nodes;  /* by their numbers */
    size_t n_nodes, max_nodes;
    bool has_number;        /* this host is among them; its number is in near.base.id_base */
    uint32_t rank, n_hosts; /* this one among them; behind them all while it has no number */
    /* Following what others change; a short-lived process does not. */
    bool is_watched;
    bool is_cut; /* the watches stand still: what they missed is gone */
    struct etcd_watch *watch[WATCHES];
    int64_t load_ms;      /* how long it took to read the copy as a whole, the last time */
    int64_t confirmed_ms; /* when the copy was last seen to be up to date */
    bool is_doubted;      /* it is to be confirmed, whenever that was */
    int64_t silent_ms;    /* when somebody waited in vain for an answer of etcd; 0: it has answered since */
    dibs_err silence;     /* ... what he was told */
    int notices;          /* readable when they have something; -1: they are not there */
    uint64_t n_told;      /* changes so far that were news, */
    uint64_t n_elsewhere; /* ... and those of others that no event tells of; ledger_changed_elsewhere(): */
    struct portbits changed;
    bool is_all_changed;
    uint64_t n_gone; /* leases of other hosts that have ended since */
    struct ledger_traffic traffic;
    int64_t expected_revision; /* of our last commit, which the watch has not told of yet; 0: it has */
    int64_t expected_ms;       /* since when */

    int64_t tended_revision;  /* when store_tend() looked last; 0: it was not this host's turn */
    uint64_t trimmed_answers; /* likewise of answers */
    uint64_t trimmed_seq;     /* in the transaction under way: events up to it go; 0: none */
    bool is_mourning;         /* ... and the claims below are told of */
    bool is_loose;            /* holders of this host may hang on nothing, though it has a lease */
    struct row_claim *lost;
    size_t n_lost;
    struct ledger_slot *seen; /* ports that others have released, while their records are read anew */
    size_t n_seen, max_seen;
    struct store_lease *lease; /* that of this host; NULL: somebody else renews it, or nobody */
    int lease_notice;          /* an eventfd, among the notices; -1: there is none */
};

static inline struct etcd_rows *store_of(struct rows *rows)
{
    return (struct etcd_rows *) rows;
}

/* rows_etcd.c: what is behind "etcd:", with user and password from where they are. */
dibs_status store_configure(const char *rest, struct etcd_config *out, dibs_err *err);
/* etcd_cluster.c */
dibs_status store_cluster(const char *rest, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);

/* etcd_keys.c */
struct store_key store_key(const struct etcd_rows *self, enum store_space space, char kind);
/* The same of a host that is named. */
struct store_key store_host_key(const struct etcd_rows *self, const char *node, char kind);
struct store_key store_fence_key(const struct etcd_rows *self);
struct store_key store_removal_key(const struct etcd_rows *self);
/* Behind that: text, or a number of so many digits. */
void store_key_add(struct store_key *key, const char *bytes, size_t n);
void store_key_add_hex(struct store_key *key, uint64_t number, int digits);
struct etcd_bytes store_key_bytes(const struct store_key *key);
/* What all keys that begin with it end before. */
struct store_key store_key_end(const struct store_key *key);
bool store_is_users_name(const struct name_record *name); /* ... of this host */
/* A name as it stands in etcd, and back. */
void store_name_out(const struct etcd_rows *self, enum store_space space, const struct name_record *name,
                    struct name_record *out);
void store_name_in(const struct etcd_rows *self, struct name_record *name);
struct store_key store_name_key(const struct etcd_rows *self, enum store_space space,
                                const struct name_record *name);
uint64_t store_answer_bucket(uint64_t seq);
struct store_key store_answer_key(const struct etcd_rows *self, const struct row_answer *answer);
enum store_space store_space(const struct etcd_rows *self, uint16_t port);
uint32_t store_number(const struct etcd_rows *self);
/* A user of another host is another one: "uid:1000@NODE". Namespaces are everybody's. */
void store_principal_out(const struct etcd_rows *self, uint32_t node, char principal[DIBS_PRINCIPAL_MAX + 1]);
void store_principal_in(const struct etcd_rows *self, uint32_t node, char principal[DIBS_PRINCIPAL_MAX + 1]);

/* etcd_owners.c: who holds what, seen from here. */
dibs_status store_join(struct etcd_rows *self, int64_t ttl_ms, const char *boot_id, dibs_err *err);
void store_lease_state(const struct etcd_rows *self, struct ledger_lease *out);
/* All was read anew: is our lease there? */
void store_compare_lease(const struct etcd_rows *self);
/* Whose claim it is, by its number; what is everybody's has the host's name. */
void store_dress(const struct etcd_rows *self, struct row_claim *row);
/* What the lease of its host says of it now. */
dibs_life store_node_life(const struct etcd_rows *self, const struct row_claim *row);
/* Those of this host whose claims should hang on its lease and do not: so they do from now on. As
 * ledger_hang(), inside of a transaction. */
dibs_status store_hang(struct etcd_rows *self, size_t *n, dibs_err *err);
/* Before it is put: whose it is now, and what it hangs on. UNAVAILABLE: on nothing that is certain. */
dibs_status store_own(const struct etcd_rows *self, const struct row_claim *before, struct row_claim *row,
                      dibs_err *err);
bool store_is_own(const struct etcd_rows *self, uint32_t node);
/* Which number a host has; false: none. */
bool store_find_node(const struct etcd_rows *self, const char *name, size_t n, size_t *out);
struct store_key store_lease_key(const struct etcd_rows *self, const char *node);
/* A claim of that host was ended by another one. */
struct store_key store_lost_key(const struct etcd_rows *self, const char *node, uint64_t id);

/* A port that cools since another host has released it: its clock says nothing here, but when it was seen
 * first does. Told in the order of slots before they are cleared, and asked for as they are read again. */
void store_cooling_out(struct etcd_rows *self, const struct ledger_slot *slot);
void store_cooling_in(const struct etcd_rows *self, struct ledger_slot *slot);

/* etcd_tend.c: as ledger_tend(); with so much in use nothing is done. */
void store_tend(struct etcd_rows *self, int64_t plenty_bytes);

/* etcd_nodes.c */
void store_nodes(const struct etcd_rows *self, dibs_node_fn fn, void *ctx);
dibs_status store_count_node(struct etcd_rows *self, const char *name, size_t *n, int64_t *since,
                             dibs_err *err);
dibs_status store_forget_node(struct etcd_rows *self, const char *name, int64_t since, dibs_err *err);

/* etcd_copy.c: takes one record into the copy. */
dibs_status store_apply(struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv,
                        dibs_err *err);
/* What its key says; 0, false: nothing that we know. */
char store_kind(const struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv);
bool store_block_number(const char *text, size_t n, uint16_t *out);
bool store_read_block(const struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv,
                      uint16_t *out);
bool store_read_name(const struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv,
                     struct name_record *out);
/* Reads all that the copy holds, at one revision. */
dibs_status store_load(struct etcd_rows *self, dibs_err *err);
/* Loads it unless it is still what etcd has. */
dibs_status store_refresh(struct etcd_rows *self, dibs_err *err);
struct etcd_call store_call(const struct etcd_rows *self);

/* rows_etcd.c: but for so many of the newest. Who looks further back asks etcd. */
void store_forget_events(struct etcd_rows *self, size_t kept);

/* etcd_follow.c: begins to follow what others change. */
dibs_status store_watch(struct etcd_rows *self, dibs_err *err);
void store_unwatch(struct etcd_rows *self);
/* Takes in what has been told, without waiting. */
void store_heed(struct etcd_rows *self);
/* The same before a transaction, and all anew if that is needed. */
dibs_status store_catch_up(struct etcd_rows *self, dibs_err *err);
/* Hosts that want the same block, or processes of one host, must not come back together, again and again. */
void store_give_way(const struct etcd_rows *self);
/* Who serves others does not make each of them wait for an etcd that does not answer. */
void store_note_silence(struct etcd_rows *self, const dibs_err *why);
dibs_status store_listen(struct etcd_rows *self, dibs_err *err);

/* etcd_hands.c: pools, and what becomes of the claims on ports that they get or lose. */
dibs_status store_pool_put(struct rows *rows, const dibs_pool *pool, dibs_err *err);
dibs_status store_pool_delete(struct rows *rows, const char *name, dibs_err *err);
/* Pools are as they were before: so are their ports. */
void store_hands_undone(struct etcd_rows *self);
/* The transaction is over. */
void store_hands_end(struct etcd_rows *self);

/* The host's tail and the key that wakes, as they were when a commit was beaten: if another process of this
 * host follows, too, it is followed from now on. */
void store_note_twin(struct etcd_rows *self, const struct etcd_result *tail, const struct etcd_result *wake);
/* Others were first: whoever decides anew sees what they did. */
dibs_status store_beaten(struct etcd_rows *self, dibs_err *err);

/* etcd_commit.c: what the transaction has changed, as one Txn; that of several hosts as one, too. */
dibs_status store_commit(struct etcd_rows *const *all, size_t n, dibs_err *err);
/* A host gets a number, if it has none: this one, or one that is named. */
dibs_status store_enrol(struct etcd_rows *self, dibs_err *err);
dibs_status store_enrol_other(struct etcd_rows *self, const char *node, dibs_err *err);
/* The ledger's mark is there, and of a format that we know. */
dibs_status store_mark(struct etcd_rows *self, dibs_err *err);
#endif
