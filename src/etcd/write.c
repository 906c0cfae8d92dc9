/* SPDX-License-Identifier: MIT */
/* Requests as the gateway's JSON. What is zero is left out, as protobuf's JSON has it. */
#include <string.h>

#include "etcd/inside.h"

#include "base/banned.h"

static void put_bytes(struct json_writer *w, const char *key, struct etcd_bytes bytes)
{
    if (bytes.n == 0)
        return;
    json_key(w, key);
    json_base64(w, bytes.at, bytes.n);
}

static void put_int(struct json_writer *w, const char *key, int64_t value)
{
    if (value != 0)
        json_key_int(w, key, value);
}

static void put_flag(struct json_writer *w, const char *key, bool value)
{
    if (value)
        json_key_bool(w, key, true);
}

static void put_compare(struct json_writer *w, const struct etcd_compare *c)
{
    static const char *const targets[] = { [ETCD_VERSION] = "VERSION",
                                           [ETCD_CREATE_REVISION] = "CREATE",
                                           [ETCD_MOD_REVISION] = "MOD",
                                           [ETCD_VALUE] = "VALUE",
                                           [ETCD_LEASE] = "LEASE" };
    static const char *const numbers[] = { [ETCD_VERSION] = "version",
                                           [ETCD_CREATE_REVISION] = "create_revision",
                                           [ETCD_MOD_REVISION] = "mod_revision",
                                           [ETCD_VALUE] = NULL,
                                           [ETCD_LEASE] = "lease" };
    static const char *const relations[] = { [ETCD_EQUAL] = "EQUAL",
                                             [ETCD_NOT_EQUAL] = "NOT_EQUAL",
                                             [ETCD_GREATER] = "GREATER",
                                             [ETCD_LESS] = "LESS" };

    json_object(w);
    json_key_string(w, "target", targets[c->target]);
    json_key_string(w, "result", relations[c->relation]);
    put_bytes(w, "key", c->key);
    put_bytes(w, "range_end", c->end);
    if (numbers[c->target]) { /* also when it is 0: which of them there is says what is compared */
        json_key_int(w, numbers[c->target], c->number);
    } else {
        json_key(w, "value");
        json_base64(w, c->value.at, c->value.n);
    }
    json_end_object(w);
}

static void put_txn(struct json_writer *w, const struct etcd_txn *txn);

static void put_op(struct json_writer *w, const struct etcd_op *op)
{
    if (op->kind == ETCD_TXN) {
        put_txn(w, op->txn);
        return;
    }
    json_object(w);
    put_bytes(w, "key", op->key);
    switch (op->kind) {
    case ETCD_RANGE:
        put_bytes(w, "range_end", op->end);
        put_int(w, "limit", op->limit);
        put_int(w, "revision", op->revision);
        put_flag(w, "keys_only", op->is_keys_only);
        put_flag(w, "count_only", op->is_count_only);
        put_flag(w, "serializable", op->is_local);
        break;
    case ETCD_PUT:
        put_bytes(w, "value", op->value);
        put_int(w, "lease", op->lease);
        put_flag(w, "prev_kv", op->wants_previous);
        break;
    case ETCD_DELETE:
        put_bytes(w, "range_end", op->end);
        put_flag(w, "prev_kv", op->wants_previous);
        break;
    case ETCD_TXN: break;
    }
    json_end_object(w);
}

static void put_branch(struct json_writer *w, const char *key, const struct etcd_op *ops, size_t n)
{
    static const char *const names[] = { [ETCD_RANGE] = "request_range",
                                         [ETCD_PUT] = "request_put",
                                         [ETCD_DELETE] = "request_delete_range",
                                         [ETCD_TXN] = "request_txn" };

    if (n == 0)
        return;
    json_key(w, key);
    json_array(w);
    for (size_t i = 0; i < n; i++) {
        json_object(w);
        json_key(w, names[ops[i].kind]);
        put_op(w, &ops[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_txn(struct json_writer *w, const struct etcd_txn *txn)
{
    json_object(w);
    if (txn->n_compares > 0) {
        json_key(w, "compare");
        json_array(w);
        for (size_t i = 0; i < txn->n_compares; i++)
            put_compare(w, &txn->compares[i]);
        json_end_array(w);
    }
    put_branch(w, "success", txn->then, txn->n_then);
    put_branch(w, "failure", txn->otherwise, txn->n_otherwise);
    json_end_object(w);
}

const char *write_op(struct bytes *out, const struct etcd_op *op)
{
    static const char *const paths[] = { [ETCD_RANGE] = "/v3/kv/range",
                                         [ETCD_PUT] = "/v3/kv/put",
                                         [ETCD_DELETE] = "/v3/kv/deleterange",
                                         [ETCD_TXN] = "/v3/kv/txn" };
    struct json_writer w;

    json_begin_bytes(&w, out);
    put_op(&w, op);
    return paths[op->kind];
}

static bool branch_changes(const struct etcd_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (op_changes(&ops[i]))
            return true;
    return false;
}

bool op_changes(const struct etcd_op *op)
{
    switch (op->kind) {
    case ETCD_RANGE: return false;
    case ETCD_PUT:
    case ETCD_DELETE: return true;
    case ETCD_TXN:
        return branch_changes(op->txn->then, op->txn->n_then) ||
               branch_changes(op->txn->otherwise, op->txn->n_otherwise);
    }
    return true;
}

struct etcd_bytes etcd_prefix_end(struct etcd_bytes prefix, void *out)
{
    unsigned char *end = out;

    if (prefix.n > 0)
        memcpy(end, prefix.at, prefix.n);
    for (size_t n = prefix.n; n > 0; n--) {
        if (end[n - 1] < 0xff) {
            end[n - 1]++;
            return (struct etcd_bytes){ out, n };
        }
    }
    return ETCD_NO_END; /* nothing but 0xff: no key is behind those */
}
