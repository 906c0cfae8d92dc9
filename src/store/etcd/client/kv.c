/* SPDX-License-Identifier: MIT */
/* Operations on keys, and leases. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/etcd/client/internal.h"

#include "base/banned.h"

enum { BODY_MAX = 64 }; /* bytes of a request with one number */

struct doing {
    struct etcd *etcd;
    struct etcd_call *call;
    const struct etcd_op *op;
    struct etcd_answer *answer;
};

static bool has_changed(const struct etcd_result *result)
{
    switch (result->kind) {
    case ETCD_RANGE: return false;
    case ETCD_PUT: return true;
    case ETCD_DELETE: return result->count > 0;
    case ETCD_TXN: break;
    }
    for (size_t i = 0; i < result->n_results; i++)
        if (has_changed(&result->results[i]))
            return true;
    return false;
}

static int order_of(struct etcd_bytes a, struct etcd_bytes b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.at, b.at, n) : 0;

    return order != 0 ? order : a.n < b.n ? -1 : a.n > b.n;
}

/* Check the keys of a result: other keys than the requested ones belong to the answer of another request. */
static bool has_keys_of(const struct etcd_result *result, const struct etcd_op *op)
{
    bool has_no_end = op->end.n == 1 && *(const char *) op->end.at == '\0';

    for (size_t i = 0; i < result->n_kvs; i++) {
        struct etcd_bytes key = result->kvs[i].key;

        if (op->end.n == 0 ? order_of(key, op->key) != 0
                           : order_of(key, op->key) < 0 || (!has_no_end && order_of(key, op->end) >= 0))
            return false;
    }
    return true;
}

/* Check that a Txn's results match one of its branches. */
static bool has_shape_of(const struct etcd_result *result, const struct etcd_op *op)
{
    if (result->kind != op->kind)
        return false;
    if (op->kind != ETCD_TXN)
        return has_keys_of(result, op);
    const struct etcd_op *branch = result->succeeded ? op->txn->then : op->txn->otherwise;
    size_t n = result->succeeded ? op->txn->n_then : op->txn->n_otherwise;

    if (result->n_results != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!has_shape_of(&result->results[i], &branch[i]))
            return false;
    return true;
}

/* Check the revision, because HTTP/1.1 matches answers to requests only by their order. A change has a
 * revision higher than all before, and no answer is older than the one before it. Otherwise the answer
 * belongs to another request, or etcd's data was replaced: it is refused once, and accepted from then on. */
static const char *check_revision(struct etcd *etcd, const struct etcd_answer *answer)
{
    int64_t seen = etcd->seen_revision;

    etcd->seen_revision = answer->revision;
    etcd->cluster = answer->cluster;
    if (answer->revision < seen)
        return "its revision is older than one seen before";
    if (answer->revision == seen && has_changed(&answer->result))
        return "it tells of a change, but has a revision that was seen before";
    return NULL;
}

static const char *understand(void *ctx, const jsonr_value *root)
{
    struct doing *d = ctx;
    struct etcd_answer answer = { 0 };
    const char *wrong = read_answer(root, d->op->kind, &answer);

    if (wrong)
        return wrong;
    if (!has_shape_of(&answer.result, d->op))
        wrong = "it is not the answer to this request";
    if (!wrong) {
        d->call->is_news = answer.revision > d->etcd->seen_revision;
        wrong = check_revision(d->etcd, &answer);
    }
    if (wrong)
        etcd_answer_done(&answer);
    else
        *d->answer = answer;
    return wrong;
}

static dibs_status do_once(struct etcd *etcd, struct etcd_call *call, const struct etcd_op *op,
                           struct etcd_answer *out, dibs_err *err)
{
    AUTO(bytes_done) struct bytes body = { 0 };
    struct doing doing = { .etcd = etcd, .call = call, .op = op, .answer = out };
    struct post post = { .path = write_op(&body, op),
                         .is_read = !op_changes(op),
                         .endpoint = -1,
                         .understand = understand,
                         .ctx = &doing };

    if (body.is_lost) {
        call->fate = ETCD_NOT_DONE;
        call->fault = ETCD_FAULT_TOO_MANY;
        return err_set(err, DIBS_FAILURE, "etcd: the request is too large, or there is no memory for it");
    }
    post.body = body.at;
    post.n_body = body.n;
    return client_post(etcd, call, &post, err);
}

/* Give each request another number of results than the one before. Empty ranges have equal answers, so a
 * duplicate could be taken for the answer of the next request. */
static dibs_status do_numbered(struct etcd *etcd, struct etcd_call *call, const struct etcd_op *op,
                               struct etcd_answer *out, dibs_err *err)
{
    enum { NUMBERS = 4 };
    struct etcd_op ops[NUMBERS] = { *op };
    const struct etcd_op never = { .kind = ETCD_RANGE, .key = op->key, .is_count_only = true };
    struct etcd_answer answer = { 0 };
    const struct etcd_txn txn = {
        .then = ops, .n_then = 1 + etcd->n_reads++ % NUMBERS, .otherwise = &never, .n_otherwise = 1
    };
    const struct etcd_op all = { .kind = ETCD_TXN, .txn = &txn };

    for (size_t i = 1; i < txn.n_then; i++)
        ops[i] = never;
    dibs_status s = do_once(etcd, call, &all, &answer, err);
    if (s != DIBS_OK)
        return s;
    if (!answer.result.succeeded) { /* a Txn without a condition always succeeds */
        etcd_answer_done(&answer);
        return err_set(err, DIBS_UNAVAILABLE, "etcd: an answer is not valid");
    }
    *out = answer;
    out->result = answer.result.results[0];
    return DIBS_OK;
}

dibs_status etcd_do(struct etcd *etcd, struct etcd_call *call, const struct etcd_op *op,
                    struct etcd_answer *out, dibs_err *err)
{
    return op->kind == ETCD_RANGE ? do_numbered(etcd, call, op, out, err) : do_once(etcd, call, op, out, err);
}

/* Set the key to the successor of the page's last key: that key and a zero byte. */
static bool step_behind(const struct etcd_result *page, struct bytes *key)
{
    const struct etcd_bytes *last = &page->kvs[page->n_kvs - 1].key;

    key->n = 0;
    bytes_add(key, last->at, last->n);
    bytes_add(key, "", 1);
    return !key->is_lost;
}

dibs_status etcd_read_pages(struct etcd *etcd, struct etcd_call *call, struct etcd_op *range,
                            bool (*take)(void *ctx, const struct etcd_kv *kvs, size_t n), void *ctx,
                            dibs_err *err)
{
    AUTO(bytes_done) struct bytes key = { 0 };
    struct etcd_op op = *range;
    bool has_more = true;

    while (has_more) { /* ends: each page has at least one key, and the call has a deadline */
        AUTO(etcd_answer_done) struct etcd_answer page = { 0 };
        dibs_status s = etcd_do(etcd, call, &op, &page, err);

        if (s != DIBS_OK)
            return s;
        if (op.revision == 0)
            op.revision = page.revision;
        has_more = page.result.has_more && page.result.n_kvs > 0;
        if (page.result.n_kvs > 0 && !take(ctx, page.result.kvs, page.result.n_kvs))
            has_more = false;
        if (has_more && !step_behind(&page.result, &key))
            return err_set(err, DIBS_FAILURE, "etcd: out of memory");
        op.key = (struct etcd_bytes){ key.at, key.n };
    }
    range->revision = op.revision;
    return DIBS_OK;
}

static const char *understand_nothing(void *ctx, const jsonr_value *root)
{
    (void) ctx;
    return jsonr_is_object(root) ? NULL : "it is no object";
}

dibs_status etcd_compact(struct etcd *etcd, struct etcd_call *call, int64_t revision, dibs_err *err)
{
    char body[BODY_MAX];
    int n = snprintf(body, sizeof body, "{\"revision\":%lld}", (long long) revision);
    const struct post post = { .path = "/v3/kv/compaction",
                               .body = body,
                               .n_body = (size_t) n,
                               .is_read = true, /* harmless when repeated, like a read */
                               .endpoint = -1,
                               .understand = understand_nothing };
    dibs_status s = client_post(etcd, call, &post, err);

    if (s == DIBS_OK || call->fault != ETCD_FAULT_COMPACTED)
        return s;
    call->fate = ETCD_DONE;
    call->fault = ETCD_FAULT_NONE;
    return DIBS_OK;
}

struct lease {
    int64_t id, ttl_s;
    bool is_end; /* the answer has only a header */
};

static const char *understand_lease(void *ctx, const jsonr_value *root)
{
    struct lease *out = ctx;
    struct reading r = { 0 };
    const jsonr_value *result = jsonr_get(root, "result"); /* of a keepalive, a stream of one message */
    const jsonr_value *lease = result ? result : root;
    struct lease answer = { .id = read_int(&r, lease, "ID"), .ttl_s = read_int(&r, lease, "TTL") };

    if (!r.wrong && !jsonr_is_object(jsonr_get(lease, "header")))
        r.wrong = "it has no header";
    if (!r.wrong && out->id != 0 && answer.id != out->id && !out->is_end)
        r.wrong = "it is about another lease";
    if (!r.wrong)
        *out = answer;
    return r.wrong;
}

/* Send a request of *lease's arguments; *lease gets the answer. A request with an id may be repeated. */
static dibs_status ask_lease(struct etcd *etcd, struct etcd_call *call, const char *path, struct lease *lease,
                             dibs_err *err)
{
    char body[BODY_MAX];
    int n = lease->id != 0 ? snprintf(body, sizeof body, "{\"ID\":%lld}", (long long) lease->id)
                           : snprintf(body, sizeof body, "{\"TTL\":%lld}", (long long) lease->ttl_s);
    const struct post post = { .path = path,
                               .body = body,
                               .n_body = (size_t) n,
                               .is_read = lease->id != 0,
                               .endpoint = -1,
                               .understand = understand_lease,
                               .ctx = lease };

    return client_post(etcd, call, &post, err);
}

dibs_status etcd_lease_grant(struct etcd *etcd, struct etcd_call *call, int64_t ttl_s, int64_t *id,
                             int64_t *granted_s, dibs_err *err)
{
    struct lease lease = { .ttl_s = ttl_s };
    dibs_status s = ask_lease(etcd, call, "/v3/lease/grant", &lease, err);

    if (s != DIBS_OK)
        return s;
    *id = lease.id;
    *granted_s = lease.ttl_s;
    return DIBS_OK;
}

dibs_status etcd_lease_renew(struct etcd *etcd, struct etcd_call *call, int64_t id, int64_t *ttl_s,
                             dibs_err *err)
{
    struct lease lease = { .id = id };
    dibs_status s = ask_lease(etcd, call, "/v3/lease/keepalive", &lease, err);

    if (s != DIBS_OK)
        return s;
    if (lease.ttl_s > 0) {
        *ttl_s = lease.ttl_s;
        return DIBS_OK;
    }
    call->fate = ETCD_NOT_DONE;
    call->fault = ETCD_FAULT_NO_LEASE;
    return err_set(err, DIBS_NOT_FOUND, "etcd: lease %016llx has ended", (unsigned long long) id);
}

dibs_status etcd_lease_revoke(struct etcd *etcd, struct etcd_call *call, int64_t id, dibs_err *err)
{
    struct lease lease = { .id = id, .is_end = true };
    dibs_status s = ask_lease(etcd, call, "/v3/lease/revoke", &lease, err);

    if (s != DIBS_NOT_FOUND)
        return s;
    call->fate = ETCD_DONE;
    call->fault = ETCD_FAULT_NONE;
    return DIBS_OK;
}
