/* SPDX-License-Identifier: MIT */
#ifndef DIBS_ETCD_ETCD_H
#define DIBS_ETCD_ETCD_H
/* A client of etcd's v3 JSON gateway: one answer at a time, from whichever endpoint gives one.
 *
 * A client keeps its connections and the endpoint that answered last; when that one fails, others are asked,
 * in a bounded and spread manner, within the call's deadline. One thread at a time; open one per thread.
 *
 * What was asked for may have been done although no answer came. Then a call fails with fate ETCD_UNKNOWN,
 * and only who asked can decide, by reading. A request that is still under way somewhere (in a member that
 * was stopped, say) may even be done after that read. So a Txn must compare something that its own
 * repetition, or whatever is decided instead, changes: then it is done at most once, and not after the
 * decision. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"
#include "etcd/config.h"

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
    ETCD_FAULT_LEASE_EXISTS,
    ETCD_FAULT_NO_SPACE, /* the quota is used up: an alarm */
    ETCD_FAULT_TOO_MANY, /* operations in one Txn, or bytes in one request */
    ETCD_FAULT_BUSY,     /* too many requests */
    ETCD_FAULT_DENIED,   /* user, password or rights */
};

/* The circumstances of one call: what is wanted, and how it went. */
struct etcd_call {
    int64_t deadline_ms; /* clock_monotonic_ms() */
    /* Harmless when done twice: asked again when its fate is unknown. Reads always are. Not for a Txn whose
     * compares its own success spoils: the second time it would tell that they did not hold. */
    bool may_repeat;
    enum etcd_fate fate;
    enum etcd_fault fault;
    /* The answer has a revision that was not seen before: it is none that came a second time. Only of
     * answers that tell of no change is that to be doubted. */
    bool is_news;
    unsigned n_tries;
    int64_t asked_boot_ms; /* clock_now(0).boot_ms just before the last try was sent: a lease lives that long
                              and its TTL, at least */
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

enum etcd_target { ETCD_VERSION, ETCD_CREATE_REVISION, ETCD_MOD_REVISION, ETCD_VALUE, ETCD_LEASE };
enum etcd_relation { ETCD_EQUAL, ETCD_NOT_EQUAL, ETCD_GREATER, ETCD_LESS };

/* Of each key in a range; holds for a range without keys, where a single key that is not there has 0. */
struct etcd_compare {
    enum etcd_target target;
    enum etcd_relation relation;
    struct etcd_bytes key, end; /* no end: that key alone */
    int64_t number;
    struct etcd_bytes value; /* ETCD_VALUE */
};

enum etcd_kind { ETCD_RANGE, ETCD_PUT, ETCD_DELETE, ETCD_TXN };

struct etcd_op {
    enum etcd_kind kind;
    struct etcd_bytes key, end; /* no end: that key alone */
    struct etcd_bytes value;    /* put */
    int64_t lease;              /* put; 0: none */
    bool wants_previous;        /* put, delete: kvs are what was there */
    int64_t limit, revision;    /* range; 0: all, now */
    bool is_keys_only, is_count_only;
    bool is_local; /* range: from the member that is asked, perhaps old; a Txn may not be inside */
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
    int64_t create_revision, mod_revision, version, lease;
};

/* Of one operation. */
struct etcd_result {
    enum etcd_kind kind;
    struct etcd_kv *kvs; /* range: found; put and delete: what was there, if that was wanted */
    size_t n_kvs;
    int64_t count;               /* range: keys in it, whatever the limit; delete: deleted */
    bool has_more;               /* range: beyond the limit */
    bool succeeded;              /* txn: its compares held */
    struct etcd_result *results; /* txn: of the branch that was taken, in order */
    size_t n_results;
};

struct block;
struct etcd_answer {
    int64_t revision; /* of the store when it answered; of a change, its own: the fencing token */
    struct etcd_result result;
    struct block *memory; /* that everything points into */
};
void etcd_answer_done(struct etcd_answer *answer); /* an empty one is fine */

/* ---- calls ----
 * All of them: INVALID (refused as malformed), DENIED, NOT_FOUND (a lease), UNAVAILABLE, FAILURE (no memory,
 * no library), with call->fate and call->fault. Outputs are written only on success. */

/* The configuration is copied. Nobody is asked yet. */
dibs_status etcd_open(const struct etcd_config *config, struct etcd **out, dibs_err *err);
void etcd_close(struct etcd *etcd); /* NULL is fine */

/* One operation of any kind. The caller ends the answer with etcd_answer_done(). */
dibs_status etcd_do(struct etcd *etcd, struct etcd_call *call, const struct etcd_op *op,
                    struct etcd_answer *out, dibs_err *err);

/* A whole range, `page` keys at a time, all of one revision, which is returned. `take` says false when it has
 * enough. COMPACTED: it took too long; begin anew. */
struct etcd_pages {
    struct etcd_bytes key, end;
    int64_t page;     /* keys in one answer */
    int64_t revision; /* 0: now */
    bool is_keys_only;
    bool (*take)(void *ctx, const struct etcd_kv *kvs, size_t n);
    void *ctx;
};
dibs_status etcd_read_pages(struct etcd *etcd, struct etcd_call *call, const struct etcd_pages *pages,
                            int64_t *revision, dibs_err *err);

/* Forgets what was before that revision. Fine when that is done already. */
dibs_status etcd_compact(struct etcd *etcd, struct etcd_call *call, int64_t revision, dibs_err *err);

/* `id` 0: etcd chooses. The TTL may be longer than what was asked. Fate unknown: a lease may be there; one
 * whose id was chosen can be looked up, another ends by its TTL. */
dibs_status etcd_lease_grant(struct etcd *etcd, struct etcd_call *call, int64_t ttl_s, int64_t *id,
                             int64_t *granted_s, dibs_err *err);
/* NOT_FOUND: it has ended. Else it lives for `ttl_s` from call->asked_boot_ms. */
dibs_status etcd_lease_renew(struct etcd *etcd, struct etcd_call *call, int64_t id, int64_t *ttl_s,
                             dibs_err *err);
/* Fine when it has ended already. Its keys go with it. */
dibs_status etcd_lease_revoke(struct etcd *etcd, struct etcd_call *call, int64_t id, dibs_err *err);
struct etcd_lease {
    int64_t ttl_s, granted_s;
    size_t n_keys;
};
/* NOT_FOUND: it has ended. */
dibs_status etcd_lease_look(struct etcd *etcd, struct etcd_call *call, int64_t id, struct etcd_lease *out,
                            dibs_err *err);

/* ---- the cluster, for people and for metrics ---- */

struct etcd_status {
    char version[32];
    uint64_t cluster, member, leader; /* leader 0: it knows none */
    uint64_t term, index;
    int64_t revision, db_bytes, db_used_bytes;
    bool is_learner;
};
/* Of that endpoint of the configuration, and no other. */
dibs_status etcd_status(struct etcd *etcd, struct etcd_call *call, size_t endpoint, struct etcd_status *out,
                        dibs_err *err);

/* How large the database of that endpoint may become, by its metrics; the gateway does not tell. */
dibs_status etcd_quota(struct etcd *etcd, struct etcd_call *call, size_t endpoint, int64_t *bytes,
                       dibs_err *err);

enum { ETCD_MEMBERS_MAX = 32 };
struct etcd_member {
    uint64_t id;
    char name[64];
    char url[ETCD_ORIGIN_MAX + 1]; /* the first for clients; "": it has not started */
    bool is_learner;
};
/* Of both lists `out` may be written to on failure, too; `n` is not. */
dibs_status etcd_members(struct etcd *etcd, struct etcd_call *call, struct etcd_member out[ETCD_MEMBERS_MAX],
                         size_t *n, dibs_err *err);

enum etcd_alarm_kind { ETCD_ALARM_NO_SPACE = 1, ETCD_ALARM_CORRUPT = 2, ETCD_ALARM_OTHER = 3 };
struct etcd_alarm {
    uint64_t member;
    enum etcd_alarm_kind kind;
};
dibs_status etcd_alarms(struct etcd *etcd, struct etcd_call *call, struct etcd_alarm out[ETCD_MEMBERS_MAX],
                        size_t *n, dibs_err *err);

/* The endpoint that is asked first now, for messages. */
const char *etcd_endpoint(const struct etcd *etcd);
#endif
