/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_CLIENT_ETCD_H
#define DIBS_STORE_ETCD_CLIENT_ETCD_H
/* A client of etcd's v3 JSON gateway, for one thread. It asks the endpoint that answered last, and then the
 * others, within the call's deadline.
 *
 * etcd may have done a request although no answer came: the call fails with fate ETCD_UNKNOWN, and the caller
 * must read to find out. A request that is still under way may be done even after that. So a Txn must compare
 * something that its own repetition, or whatever is decided instead, changes: then it is done at most once,
 * and not after the decision. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"
#include "store/etcd/client/config.h"

struct etcd;

enum etcd_fate {
    ETCD_NOT_DONE, /* certainly */
    ETCD_DONE,
    ETCD_UNKNOWN, /* it may have been done, or may still be */
};

/* Why a call failed, where a caller would act on it. */
enum etcd_fault {
    ETCD_FAULT_NONE,
    ETCD_FAULT_OTHER,
    ETCD_FAULT_UNREACHABLE, /* no endpoint answered in time, or none has a leader */
    ETCD_FAULT_COMPACTED,   /* the revision asked for is gone */
    ETCD_FAULT_FUTURE,      /* the revision asked for is not there yet */
    ETCD_FAULT_NO_LEASE,
    ETCD_FAULT_NO_SPACE, /* the quota is used up: an alarm */
    ETCD_FAULT_TOO_MANY, /* operations in one Txn, or bytes in one request */
    ETCD_FAULT_BUSY,     /* too many requests */
    ETCD_FAULT_DENIED,   /* user, password or rights */
};

/* The circumstances of one call: what is wanted, and how it went. */
struct etcd_call {
    int64_t deadline_ms; /* clock_monotonic_ms() */
    bool may_repeat; /* also when its fate is unknown, as reads; then a Txn may report a conflict with itself
                      */
    enum etcd_fate fate;
    enum etcd_fault fault;
    bool is_news; /* the answer has a new revision, so it is no duplicate of an earlier one */
    unsigned n_tries;
    int64_t
        asked_boot_ms; /* before the last try was sent: a lease lives for its TTL from then on, at least */
};

struct etcd_bytes {
    const void *at;
    size_t n;
};
#define ETCD_BYTES(text) ((struct etcd_bytes){ (text), strlen(text) })
/* The end of a range that begins at a key and has no end. */
#define ETCD_NO_END ((struct etcd_bytes){ "", 1 })
/* The end of the range of all keys that begin with `prefix`; into `out`, which is as long as the prefix. */
struct etcd_bytes etcd_prefix_end(struct etcd_bytes prefix, void *out);

/* ---- what is asked ---- */

enum etcd_target { ETCD_CREATE_REVISION, ETCD_MOD_REVISION };
enum etcd_relation { ETCD_EQUAL, ETCD_LESS };

/* Of each key in a range; holds for a range without keys, where a single key that is not there has 0. */
struct etcd_compare {
    enum etcd_target target;
    enum etcd_relation relation;
    struct etcd_bytes key, end; /* no end: that key alone */
    int64_t number;
};

enum etcd_kind { ETCD_RANGE, ETCD_PUT, ETCD_DELETE, ETCD_TXN };

struct etcd_op {
    enum etcd_kind kind;
    struct etcd_bytes key, end; /* no end: that key alone */
    struct etcd_bytes value;    /* put */
    int64_t lease;              /* put; 0: none */
    int64_t limit, revision;    /* range; 0: all, now */
    bool is_count_only;
    const struct etcd_txn *txn;
};

/* etcd allows 128 compares, as many operations in each branch, and no key to be put twice. */
struct etcd_txn {
    const struct etcd_compare *compares;
    size_t n_compares;
    const struct etcd_op *then;
    size_t n_then;
    const struct etcd_op *otherwise;
    size_t n_otherwise;
};

/* ---- what is answered ---- */

struct etcd_kv {
    struct etcd_bytes key, value;
    int64_t create_revision, mod_revision, lease;
};

/* Of one operation. */
struct etcd_result {
    enum etcd_kind kind;
    struct etcd_kv *kvs; /* range: found */
    size_t n_kvs;
    int64_t count;               /* range: keys in it, whatever the limit; delete: deleted */
    bool has_more;               /* range: beyond the limit */
    bool succeeded;              /* txn: its compares held */
    struct etcd_result *results; /* txn: of the branch that was taken, in order */
    size_t n_results;
};

struct arena;
struct etcd_answer {
    int64_t revision; /* of the store when it answered; of a change, its own: the fencing token */
    struct etcd_result result;
    struct arena *memory; /* that everything points into */
};
void etcd_answer_done(struct etcd_answer *answer); /* an empty one is fine */

/* ---- calls ----
 * All of them: INVALID (refused as malformed), DENIED, NOT_FOUND (a lease), UNAVAILABLE, FAILURE (no memory,
 * no library), with call->fate and call->fault. Outputs are written only on success. */

/* Copy the configuration. No request is sent yet. */
dibs_status etcd_open(const struct etcd_config *config, struct etcd **out, dibs_err *err);
void etcd_close(struct etcd *etcd); /* NULL is fine */

/* One operation of any kind. The caller ends the answer with etcd_answer_done(). */
dibs_status etcd_do(struct etcd *etcd, struct etcd_call *call, const struct etcd_op *op,
                    struct etcd_answer *out, dibs_err *err);

/* Read a whole range at one revision (0: now, and the range gets the one that it was), `limit` keys at a
 * time. `take` returns false to stop. COMPACTED: it took too long; begin again. */
dibs_status etcd_read_pages(struct etcd *etcd, struct etcd_call *call, struct etcd_op *range,
                            bool (*take)(void *ctx, const struct etcd_kv *kvs, size_t n), void *ctx,
                            dibs_err *err);

/* Compact the history before that revision. OK when that is done already. */
dibs_status etcd_compact(struct etcd *etcd, struct etcd_call *call, int64_t revision, dibs_err *err);

/* etcd chooses *id, and may choose a longer TTL. Fate unknown: a lease may exist until its TTL ends. */
dibs_status etcd_lease_grant(struct etcd *etcd, struct etcd_call *call, int64_t ttl_s, int64_t *id,
                             int64_t *granted_s, dibs_err *err);
/* NOT_FOUND: it has ended. Else it lives for `ttl_s` from call->asked_boot_ms. */
dibs_status etcd_lease_renew(struct etcd *etcd, struct etcd_call *call, int64_t id, int64_t *ttl_s,
                             dibs_err *err);
/* Fine when it has ended already. Its keys go with it. */
dibs_status etcd_lease_revoke(struct etcd *etcd, struct etcd_call *call, int64_t id, dibs_err *err);
/* ---- the cluster, for people and for metrics ---- */

struct etcd_status {
    char version[32];
    uint64_t member, leader; /* leader 0: it knows none */
    int64_t revision, db_bytes, db_used_bytes;
    bool is_learner;
};
/* Ask that endpoint of the configuration, and no other. */
dibs_status etcd_status(struct etcd *etcd, struct etcd_call *call, size_t endpoint, struct etcd_status *out,
                        dibs_err *err);

/* Report the state of each member, as ledger_cluster(). `config` needs no open client. */
struct ledger_cluster;
dibs_status etcd_cluster(const struct etcd_config *config, int64_t timeout_ms, struct ledger_cluster *out,
                         dibs_err *err);

/* The endpoint that is asked first now, for messages. */
const char *etcd_endpoint(const struct etcd *etcd);
#endif
