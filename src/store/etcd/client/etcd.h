/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_CLIENT_ETCD_H
#define DIBS_STORE_ETCD_CLIENT_ETCD_H
/* A client of etcd's v3 JSON gateway, for one thread. It asks the endpoint that answered last, and then
 * the others, within the call's deadline.
 *
 * etcd may have done a request although no answer came: the call fails with fate ETCD_UNKNOWN, and the
 * caller must read to find out. A request still under way may be done even after that. So a Txn must
 * compare a key that it changes itself, and that a caller changes to cancel it: then it is done
 * at most once, and not after it was cancelled. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"
#include "store/etcd/client/config.h"

struct etcd;

enum etcd_fate {
    ETCD_NOT_DONE, /* certainly not done */
    ETCD_DONE,
    ETCD_UNKNOWN, /* it may have been done, or may be done later */
};

/* The reason of a failure, where a caller would act on it. */
enum etcd_fault {
    ETCD_FAULT_NONE,
    ETCD_FAULT_OTHER,
    ETCD_FAULT_UNREACHABLE, /* no endpoint answered in time, or none has a leader */
    ETCD_FAULT_COMPACTED,   /* the requested revision was compacted */
    ETCD_FAULT_FUTURE,      /* the requested revision does not exist yet */
    ETCD_FAULT_NO_LEASE,
    ETCD_FAULT_NO_SPACE, /* the quota is used up (an alarm) */
    ETCD_FAULT_TOO_MANY, /* too many operations in one Txn, or too many bytes in one request */
    ETCD_FAULT_BUSY,     /* too many requests */
    ETCD_FAULT_DENIED,   /* wrong user or password, or missing rights */
};

/* Inputs and outcome of one call. */
struct etcd_call {
    int64_t deadline_ms; /* clock_monotonic_ms() */
    bool may_repeat;     /* retry even if the fate is unknown; a repeated Txn may conflict with itself */
    enum etcd_fate fate;
    enum etcd_fault fault;
    bool is_news; /* the answer has a new revision, so it is not a duplicate of an earlier one */
    unsigned n_tries;
    int64_t asked_boot_ms; /* CLOCK_BOOTTIME before the last try: a lease lives for its TTL from then on */
};

struct etcd_bytes {
    const void *at;
    size_t n;
};
#define ETCD_BYTES(text) ((struct etcd_bytes){ (text), strlen(text) })
/* The end of a range that has no end. */
#define ETCD_NO_END ((struct etcd_bytes){ "", 1 })
/* Return the end of the range of keys that begin with `prefix`, in `out`, which is as long as the prefix. */
struct etcd_bytes etcd_prefix_end(struct etcd_bytes prefix, void *out);

/* ---- requests ---- */

enum etcd_target { ETCD_CREATE_REVISION, ETCD_MOD_REVISION };
enum etcd_relation { ETCD_EQUAL, ETCD_LESS };

/* Compare each key in a range; an empty range passes, while a single absent key has revision 0. */
struct etcd_compare {
    enum etcd_target target;
    enum etcd_relation relation;
    struct etcd_bytes key, end; /* no end: only that key */
    int64_t number;
};

enum etcd_kind { ETCD_RANGE, ETCD_PUT, ETCD_DELETE, ETCD_TXN };

struct etcd_op {
    enum etcd_kind kind;
    struct etcd_bytes key, end; /* no end: only that key */
    struct etcd_bytes value;    /* of a put */
    int64_t lease;              /* of a put; 0: none */
    int64_t limit, revision;    /* of a range; 0: no limit, the current revision */
    bool is_count_only;
    const struct etcd_txn *txn;
};

/* etcd allows 128 compares, as many operations in each branch, and one put of each key. */
struct etcd_txn {
    const struct etcd_compare *compares;
    size_t n_compares;
    const struct etcd_op *then;
    size_t n_then;
    const struct etcd_op *otherwise;
    size_t n_otherwise;
};

/* ---- answers ---- */

struct etcd_kv {
    struct etcd_bytes key, value;
    int64_t create_revision, mod_revision, lease;
};

/* The result of one operation. */
struct etcd_result {
    enum etcd_kind kind;
    struct etcd_kv *kvs; /* of a range: the keys found */
    size_t n_kvs;
    int64_t count;  /* of a range: all keys in it, without the limit; of a delete: deleted keys */
    bool has_more;  /* of a range: there are keys beyond the limit */
    bool succeeded; /* of a Txn: its compares passed */
    struct etcd_result *results; /* of a Txn: results of the executed branch, in order */
    size_t n_results;
};

struct arena;
struct etcd_answer {
    int64_t revision; /* of the store when it answered; after a change, the change's own: the fencing token */
    uint64_t cluster; /* id of the cluster that answered */
    struct etcd_result result;
    struct arena *memory; /* owns everything that the answer points to */
};
void etcd_answer_done(struct etcd_answer *answer); /* an empty one is fine */

/* ---- calls ----
 * Each returns INVALID (refused as malformed), DENIED, NOT_FOUND (a lease), UNAVAILABLE, FAILURE (no memory,
 * no library), with call->fate and call->fault. Outputs are written only on success. */

/* Open a client with a copy of the configuration. Sends no request. */
dibs_status etcd_open(const struct etcd_config *config, struct etcd **out, dibs_err *err);
void etcd_close(struct etcd *etcd); /* NULL is fine */

/* Execute one operation of any kind. The caller ends the answer with etcd_answer_done(). */
dibs_status etcd_do(struct etcd *etcd, struct etcd_call *call, const struct etcd_op *op,
                    struct etcd_answer *out, dibs_err *err);

/* Read a whole range at one revision (0: the current one, which is stored in *range), `limit` keys at a time.
 * `take` returns false to stop. COMPACTED: it took too long; start again. */
dibs_status etcd_read_pages(struct etcd *etcd, struct etcd_call *call, struct etcd_op *range,
                            bool (*take)(void *ctx, const struct etcd_kv *kvs, size_t n), void *ctx,
                            dibs_err *err);

/* Compact the history before that revision. OK when it is compacted already. */
dibs_status etcd_compact(struct etcd *etcd, struct etcd_call *call, int64_t revision, dibs_err *err);

/* Create a lease; etcd may choose a longer TTL. Fate unknown: a lease may exist until its TTL ends. */
dibs_status etcd_lease_grant(struct etcd *etcd, struct etcd_call *call, int64_t ttl_s, int64_t *id,
                             int64_t *granted_s, dibs_err *err);
/* Renew a lease: it lives for `ttl_s` from call->asked_boot_ms. NOT_FOUND: it has expired. */
dibs_status etcd_lease_renew(struct etcd *etcd, struct etcd_call *call, int64_t id, int64_t *ttl_s,
                             dibs_err *err);
/* End a lease and delete its keys. OK when it has ended already. */
dibs_status etcd_lease_revoke(struct etcd *etcd, struct etcd_call *call, int64_t id, dibs_err *err);
/* ---- status of the cluster ---- */

struct etcd_status {
    char version[32];
    uint64_t member, leader; /* leader 0: it knows none */
    int64_t revision, db_bytes, db_used_bytes;
    bool is_learner;
};
/* Ask that endpoint of the configuration only. */
dibs_status etcd_status(struct etcd *etcd, struct etcd_call *call, size_t endpoint, struct etcd_status *out,
                        dibs_err *err);

/* Report the state of each member, as ledger_cluster(). `config` needs no open client. */
struct ledger_cluster;
dibs_status etcd_cluster(const struct etcd_config *config, int64_t timeout_ms, struct ledger_cluster *out,
                         dibs_err *err);

/* Return the id of the cluster that gave the last answer to etcd_do(); 0: there was none. */
uint64_t etcd_cluster_id(const struct etcd *etcd);

/* Return the endpoint that the next call asks first, for messages. */
const char *etcd_endpoint(const struct etcd *etcd);
#endif
