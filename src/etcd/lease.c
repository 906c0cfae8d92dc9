/* SPDX-License-Identifier: MIT */
/* Leases: what hangs on one ends with it. */
#include "base/auto.h"
#include "base/err.h"
#include "etcd/inside.h"

#include "base/banned.h"

struct lease_answer {
    int64_t id, ttl_s, granted_s;
    size_t n_keys;
};

static const char *understand(void *ctx, const json_value *root)
{
    struct lease_answer *out = ctx;
    struct reading r = { 0 };
    const json_value *result = json_get(root, "result"); /* of a keepalive, which is a stream of one */
    const json_value *lease = result ? result : root;
    const json_value *keys = NULL;
    struct lease_answer answer = { .id = read_int(&r, lease, "ID"),
                                   .ttl_s = read_int(&r, lease, "TTL"),
                                   .granted_s = read_int(&r, lease, "grantedTTL"),
                                   .n_keys = read_size(&r, lease, "keys", &keys) };

    if (!r.wrong && !json_is_object(json_get(lease, "header")))
        r.wrong = "it has no header";
    if (!r.wrong && out->id != 0 && answer.id != out->id)
        r.wrong = "it is about another lease";
    if (!r.wrong)
        *out = answer;
    return r.wrong;
}

static const char *understand_end(void *ctx, const json_value *root)
{
    (void) ctx;
    return json_is_object(json_get(root, "header")) ? NULL : "it has no header";
}

struct lease_request {
    const char *path;
    int64_t id, ttl_s;
    bool is_read, wants_keys, is_end;
};

static dibs_status ask(struct etcd *etcd, struct etcd_call *call, const struct lease_request *request,
                       struct lease_answer *answer, dibs_err *err)
{
    AUTO(bytes_done) struct bytes body = { 0 };
    struct json_writer w;
    struct post post = { .path = request->path,
                         .is_read = request->is_read,
                         .endpoint = -1,
                         .understand = request->is_end ? understand_end : understand,
                         .ctx = answer };

    json_begin_bytes(&w, &body);
    json_object(&w);
    if (request->id != 0)
        json_key_int(&w, "ID", request->id);
    if (request->ttl_s != 0)
        json_key_int(&w, "TTL", request->ttl_s);
    if (request->wants_keys)
        json_key_bool(&w, "keys", true);
    json_end_object(&w);
    answer->id = request->id;
    return client_post_bytes(etcd, call, &post, &body, err);
}

static dibs_status not_found(struct etcd_call *call, int64_t id, dibs_err *err)
{
    call->fate = ETCD_NOT_DONE;
    call->fault = ETCD_FAULT_NO_LEASE;
    return err_set(err, DIBS_NOT_FOUND, "etcd: lease %016llx has ended", (unsigned long long) id);
}

dibs_status etcd_lease_grant(struct etcd *etcd, struct etcd_call *call, int64_t ttl_s, int64_t *id,
                             int64_t *granted_s, dibs_err *err)
{
    const struct lease_request request = { .path = "/v3/lease/grant", .id = *id, .ttl_s = ttl_s };
    struct lease_answer answer = { 0 };
    dibs_status s = ask(etcd, call, &request, &answer, err);

    if (s != DIBS_OK)
        return s;
    *id = answer.id;
    *granted_s = answer.ttl_s;
    return DIBS_OK;
}

dibs_status etcd_lease_renew(struct etcd *etcd, struct etcd_call *call, int64_t id, int64_t *ttl_s,
                             dibs_err *err)
{
    const struct lease_request request = { .path = "/v3/lease/keepalive", .id = id, .is_read = true };
    struct lease_answer answer = { 0 };
    dibs_status s = ask(etcd, call, &request, &answer, err);

    if (s != DIBS_OK)
        return s;
    if (answer.ttl_s <= 0)
        return not_found(call, id, err);
    *ttl_s = answer.ttl_s;
    return DIBS_OK;
}

dibs_status etcd_lease_revoke(struct etcd *etcd, struct etcd_call *call, int64_t id, dibs_err *err)
{
    const struct lease_request request = {
        .path = "/v3/lease/revoke", .id = id, .is_read = true, .is_end = true
    };
    struct lease_answer answer = { 0 };
    dibs_status s = ask(etcd, call, &request, &answer, err);

    if (s != DIBS_NOT_FOUND)
        return s;
    call->fate = ETCD_DONE;
    call->fault = ETCD_FAULT_NONE;
    return DIBS_OK;
}

dibs_status etcd_lease_look(struct etcd *etcd, struct etcd_call *call, int64_t id, struct etcd_lease *out,
                            dibs_err *err)
{
    const struct lease_request request = {
        .path = "/v3/lease/timetolive", .id = id, .is_read = true, .wants_keys = true
    };
    struct lease_answer answer = { 0 };
    dibs_status s = ask(etcd, call, &request, &answer, err);

    if (s != DIBS_OK)
        return s;
    if (answer.ttl_s < 0)
        return not_found(call, id, err);
    *out =
        (struct etcd_lease){ .ttl_s = answer.ttl_s, .granted_s = answer.granted_s, .n_keys = answer.n_keys };
    return DIBS_OK;
}
