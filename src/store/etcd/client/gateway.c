/* SPDX-License-Identifier: MIT */
/* The gateway's JSON. Answers are untrusted: the reader is bounded, and checks that they fit the request. */
#include <string.h>

#include "base/text.h"
#include "store/etcd/client/internal.h"

#include "base/banned.h"

/* The names of an operation: as a separate request, and in a Txn. */
static const struct {
    const char *path, *request, *response;
} kinds[] = {
    [ETCD_RANGE] = { "/v3/kv/range", "request_range", "response_range" },
    [ETCD_PUT] = { "/v3/kv/put", "request_put", "response_put" },
    [ETCD_DELETE] = { "/v3/kv/deleterange", "request_delete_range", "response_delete_range" },
    [ETCD_TXN] = { "/v3/kv/txn", "request_txn", "response_txn" },
};

/* ---- requests: zero fields are left out, as in protobuf's JSON ---- */

static void put_bytes(struct jsonw *w, const char *key, struct etcd_bytes bytes)
{
    if (bytes.n == 0)
        return;
    jsonw_key(w, key);
    jsonw_base64(w, bytes.at, bytes.n);
}

static void put_int(struct jsonw *w, const char *key, int64_t value)
{
    if (value != 0)
        jsonw_key_int(w, key, value);
}

static void put_compare(struct jsonw *w, const struct etcd_compare *c)
{
    bool is_create = c->target == ETCD_CREATE_REVISION;

    jsonw_object(w);
    jsonw_key_string(w, "target", is_create ? "CREATE" : "MOD");
    jsonw_key_string(w, "result", c->relation == ETCD_LESS ? "LESS" : "EQUAL");
    put_bytes(w, "key", c->key);
    put_bytes(w, "range_end", c->end);
    /* Written even when 0: its name selects the compared revision. */
    jsonw_key_int(w, is_create ? "create_revision" : "mod_revision", c->number);
    jsonw_end_object(w);
}

static void put_txn(struct jsonw *w, const struct etcd_txn *txn);

static void put_op(struct jsonw *w, const struct etcd_op *op)
{
    if (op->kind == ETCD_TXN) {
        put_txn(w, op->txn);
        return;
    }
    jsonw_object(w);
    put_bytes(w, "key", op->key);
    put_bytes(w, "range_end", op->end);
    put_bytes(w, "value", op->value);
    put_int(w, "lease", op->lease);
    put_int(w, "limit", op->limit);
    put_int(w, "revision", op->revision);
    if (op->is_count_only)
        jsonw_key_bool(w, "count_only", true);
    jsonw_end_object(w);
}

static void put_branch(struct jsonw *w, const char *key, const struct etcd_op *ops, size_t n)
{
    if (n == 0)
        return;
    jsonw_key_array(w, key);
    for (size_t i = 0; i < n; i++) {
        jsonw_object(w);
        jsonw_key(w, kinds[ops[i].kind].request);
        put_op(w, &ops[i]);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void put_txn(struct jsonw *w, const struct etcd_txn *txn)
{
    jsonw_object(w);
    if (txn->n_compares > 0) {
        jsonw_key_array(w, "compare");
        for (size_t i = 0; i < txn->n_compares; i++)
            put_compare(w, &txn->compares[i]);
        jsonw_end_array(w);
    }
    put_branch(w, "success", txn->then, txn->n_then);
    put_branch(w, "failure", txn->otherwise, txn->n_otherwise);
    jsonw_end_object(w);
}

const char *write_op(struct bytes *out, const struct etcd_op *op)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    put_op(&w, op);
    return kinds[op->kind].path;
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
    return ETCD_NO_END; /* only 0xff bytes: no key follows */
}

enum { NESTING_MAX = 4 /* of nested Txns; we use two */ };

void *read_room(struct reading *r, size_t n, size_t size)
{
    size_t want = 0;

    if (r->wrong)
        return NULL;
    if (__builtin_mul_overflow(n, size, &want) || want > ETCD_MEMORY_MAX_BYTES - r->n_bytes) {
        r->wrong = "it is too large";
        return NULL;
    }
    r->n_bytes += want;
    void *at = arena_take(&r->memory, want);
    if (!at)
        r->wrong = "out of memory";
    return at;
}

/* Return a member; NULL if it is missing or null. */
static const jsonr_value *field(const jsonr_value *object, const char *key)
{
    const jsonr_value *v = jsonr_get(object, key);

    return jsonr_is_null(v) ? NULL : v;
}

int64_t read_int(struct reading *r, const jsonr_value *object, const char *key)
{
    const jsonr_value *v = field(object, key);
    const char *text = NULL;
    int64_t value = 0;
    uint64_t size = 0;

    if (!v || r->wrong || jsonr_as_int(v, &value))
        return value;
    bool is_text = jsonr_as_string(v, &text);
    bool is_negative = is_text && *text == '-';

    if (!is_text || !text_number(text + is_negative, strlen(text + is_negative),
                                 (uint64_t) INT64_MAX + is_negative, &size)) {
        r->wrong = "a number is none";
        return 0;
    }
    return is_negative ? (int64_t) (0 - size) : (int64_t) size;
}

uint64_t read_uint(struct reading *r, const jsonr_value *object, const char *key)
{
    const jsonr_value *v = field(object, key);
    const char *text = NULL;
    int64_t number = 0;
    uint64_t value = 0;

    if (!v || r->wrong)
        return 0;
    if (jsonr_as_int(v, &number) && number >= 0)
        return (uint64_t) number;
    if (!jsonr_as_string(v, &text) || !text_number(text, strlen(text), UINT64_MAX, &value))
        r->wrong = "a number is none";
    return value;
}

bool read_bool(struct reading *r, const jsonr_value *object, const char *key)
{
    const jsonr_value *v = field(object, key);
    bool value = false;

    if (v && !r->wrong && !jsonr_as_bool(v, &value))
        r->wrong = "a flag is none";
    return value;
}

const char *read_string(struct reading *r, const jsonr_value *object, const char *key)
{
    const jsonr_value *v = field(object, key);
    const char *value = "";

    if (v && !r->wrong && !jsonr_as_string(v, &value))
        r->wrong = "a text is none";
    return value;
}

size_t read_size(struct reading *r, const jsonr_value *object, const char *key, const jsonr_value **list)
{
    *list = field(object, key);
    if (*list && !r->wrong && !jsonr_is_array(*list))
        r->wrong = "a list is none";
    return r->wrong ? 0 : jsonr_array_size(*list);
}

static struct etcd_bytes read_bytes(struct reading *r, const jsonr_value *object, const char *key)
{
    const char *text = read_string(r, object, key);
    size_t room = strlen(text) / 4 * 3;
    struct etcd_bytes bytes = { "", 0 };

    if (room == 0 && *text && !r->wrong)
        r->wrong = "bytes are no base64";
    if (room == 0 || r->wrong)
        return bytes;
    uint8_t *at = read_room(r, room, 1);
    if (!at)
        return bytes;
    if (!base64_decode(text, at, room, &bytes.n))
        r->wrong = "bytes are no base64";
    bytes.at = at;
    return bytes;
}

struct etcd_kv read_kv(struct reading *r, const jsonr_value *object)
{
    if (!jsonr_is_object(object) && !r->wrong)
        r->wrong = "a key with its value is none";
    return (struct etcd_kv){
        .key = read_bytes(r, object, "key"),
        .value = read_bytes(r, object, "value"),
        .create_revision = read_int(r, object, "create_revision"),
        .mod_revision = read_int(r, object, "mod_revision"),
        .lease = read_int(r, object, "lease"),
    };
}

static void read_kvs(struct reading *r, const jsonr_value *object, struct etcd_result *out)
{
    const jsonr_value *list = NULL;
    size_t n = read_size(r, object, "kvs", &list);

    out->kvs = n > 0 ? read_room(r, n, sizeof *out->kvs) : NULL;
    for (size_t i = 0; i < n && !r->wrong; i++)
        out->kvs[i] = read_kv(r, jsonr_array_at(list, i));
    out->n_kvs = r->wrong ? 0 : n;
}

static void read_result(struct reading *r, const jsonr_value *object, unsigned depth,
                        struct etcd_result *out);

static void read_results(struct reading *r, const jsonr_value *object, unsigned depth,
                         struct etcd_result *out)
{
    const jsonr_value *list = NULL;
    size_t n = read_size(r, object, "responses", &list);

    out->results = n > 0 ? read_room(r, n, sizeof *out->results) : NULL;
    for (size_t i = 0; i < n && !r->wrong; i++) {
        const jsonr_value *one = NULL;
        enum etcd_kind kind = ETCD_RANGE;

        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0] && !one; k++) {
            one = field(jsonr_array_at(list, i), kinds[k].response);
            kind = (enum etcd_kind) k;
        }
        out->results[i].kind = kind;
        if (!one)
            r->wrong = "an operation has no result";
        else
            read_result(r, one, depth, &out->results[i]);
    }
    out->n_results = r->wrong ? 0 : n;
}

static void read_result(struct reading *r, const jsonr_value *object, unsigned depth, struct etcd_result *out)
{
    if (!jsonr_is_object(object) && !r->wrong)
        r->wrong = "a result is none";
    switch (out->kind) {
    case ETCD_RANGE:
        read_kvs(r, object, out);
        out->count = read_int(r, object, "count");
        out->has_more = read_bool(r, object, "more");
        break;
    case ETCD_PUT: break;
    case ETCD_DELETE: out->count = read_int(r, object, "deleted"); break;
    case ETCD_TXN:
        out->succeeded = read_bool(r, object, "succeeded");
        if (depth == NESTING_MAX && !r->wrong)
            r->wrong = "it is nested too deeply";
        if (!r->wrong)
            read_results(r, object, depth + 1, out);
        break;
    }
}

/* Check the kind: the gateway leaves out zero fields, so the answer to another request could look empty. */
static bool is_of_kind(const jsonr_value *root, enum etcd_kind kind)
{
    static const struct {
        enum etcd_kind kind;
        const char *name;
    } fields[] = {
        { ETCD_RANGE, "kvs" },      { ETCD_RANGE, "count" },   { ETCD_RANGE, "more" },
        { ETCD_DELETE, "deleted" }, { ETCD_TXN, "succeeded" }, { ETCD_TXN, "responses" },
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].kind != kind && jsonr_get(root, fields[i].name))
            return false;
    return true;
}

const char *read_answer(const jsonr_value *root, enum etcd_kind kind, struct etcd_answer *out)
{
    struct reading r = { 0 };
    struct etcd_answer answer = { .result.kind = kind };

    if (!jsonr_is_object(field(root, "header")))
        return "it has no header"; /* every answer of the store has one */
    answer.revision = read_int(&r, field(root, "header"), "revision");
    answer.cluster = read_uint(&r, field(root, "header"), "cluster_id");
    if (answer.revision <= 0 && !r.wrong)
        r.wrong = "it has no revision";
    if (!is_of_kind(root, kind) && !r.wrong)
        r.wrong = "it is the answer to something else";
    read_result(&r, root, 0, &answer.result);
    answer.memory = r.memory;
    if (r.wrong)
        arena_free(r.memory);
    else
        *out = answer;
    return r.wrong;
}

void etcd_answer_done(struct etcd_answer *answer)
{
    arena_free(answer->memory);
    *answer = (struct etcd_answer){ 0 };
}
