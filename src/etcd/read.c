/* SPDX-License-Identifier: MIT */
/* The gateway's answers. They come from outside: whatever is in them, reading ends, and nothing is believed
 * that is not what was asked for. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "etcd/inside.h"

#include "base/banned.h"

enum { NESTING_MAX = 4 /* of Txns in Txns; we use two */ };

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
    void *at = blocks_take(&r->memory, want);
    if (at)
        memset(at, 0, want);
    else
        r->wrong = "out of memory";
    return at;
}

/* ---- fields ---- */

/* What is not there and what is null are the same. */
static const json_value *field(const json_value *object, const char *key)
{
    const json_value *v = json_get(object, key);

    return json_is_null(v) ? NULL : v;
}

int64_t read_int(struct reading *r, const json_value *object, const char *key)
{
    const json_value *v = field(object, key);
    const char *text = NULL;
    int64_t value = 0;
    uint64_t size = 0;

    if (!v || r->wrong || json_as_int(v, &value))
        return value;
    bool is_text = json_as_string(v, &text);
    bool is_negative = is_text && *text == '-';

    if (!is_text || !text_number(text + is_negative, strlen(text + is_negative),
                                 (uint64_t) INT64_MAX + is_negative, &size)) {
        r->wrong = "a number is none";
        return 0;
    }
    return is_negative ? (int64_t) (0 - size) : (int64_t) size;
}

uint64_t read_uint(struct reading *r, const json_value *object, const char *key)
{
    const json_value *v = field(object, key);
    const char *text = NULL;
    int64_t number = 0;
    uint64_t value = 0;

    if (!v || r->wrong)
        return 0;
    if (json_as_int(v, &number) && number >= 0)
        return (uint64_t) number;
    if (!json_as_string(v, &text) || !text_number(text, strlen(text), UINT64_MAX, &value))
        r->wrong = "a number is none";
    return value;
}

bool read_bool(struct reading *r, const json_value *object, const char *key)
{
    const json_value *v = field(object, key);
    bool value = false;

    if (v && !r->wrong && !json_as_bool(v, &value))
        r->wrong = "a flag is none";
    return value;
}

const char *read_string(struct reading *r, const json_value *object, const char *key)
{
    const json_value *v = field(object, key);
    const char *value = "";

    if (v && !r->wrong && !json_as_string(v, &value))
        r->wrong = "a text is none";
    return value;
}

size_t read_size(struct reading *r, const json_value *object, const char *key, const json_value **list)
{
    *list = field(object, key);
    if (*list && !r->wrong && !json_is_array(*list))
        r->wrong = "a list is none";
    return r->wrong ? 0 : json_array_size(*list);
}

static struct etcd_bytes read_bytes(struct reading *r, const json_value *object, const char *key)
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
    if (!json_base64_decode(text, at, room, &bytes.n))
        r->wrong = "bytes are no base64";
    bytes.at = at;
    return bytes;
}

struct etcd_kv read_kv(struct reading *r, const json_value *object)
{
    if (!json_is_object(object) && !r->wrong)
        r->wrong = "a key with its value is none";
    return (struct etcd_kv){
        .key = read_bytes(r, object, "key"),
        .value = read_bytes(r, object, "value"),
        .create_revision = read_int(r, object, "create_revision"),
        .mod_revision = read_int(r, object, "mod_revision"),
        .version = read_int(r, object, "version"),
        .lease = read_int(r, object, "lease"),
    };
}

/* ---- results ---- */

static void read_kvs(struct reading *r, const json_value *object, const char *key, struct etcd_result *out)
{
    const json_value *list = NULL;
    size_t n = read_size(r, object, key, &list);

    out->kvs = n > 0 ? read_room(r, n, sizeof *out->kvs) : NULL;
    for (size_t i = 0; i < n && !r->wrong; i++)
        out->kvs[i] = read_kv(r, json_array_at(list, i));
    out->n_kvs = r->wrong ? 0 : n;
}

static void read_previous(struct reading *r, const json_value *object, struct etcd_result *out)
{
    const json_value *kv = field(object, "prev_kv");

    out->kvs = kv ? read_room(r, 1, sizeof *out->kvs) : NULL;
    if (!out->kvs)
        return;
    out->kvs[0] = read_kv(r, kv);
    out->n_kvs = 1;
}

static void read_result(struct reading *r, const json_value *object, unsigned depth, struct etcd_result *out);

static void read_results(struct reading *r, const json_value *object, unsigned depth, struct etcd_result *out)
{
    static const char *const names[] = { [ETCD_RANGE] = "response_range",
                                         [ETCD_PUT] = "response_put",
                                         [ETCD_DELETE] = "response_delete_range",
                                         [ETCD_TXN] = "response_txn" };
    const json_value *list = NULL;
    size_t n = read_size(r, object, "responses", &list);

    out->results = n > 0 ? read_room(r, n, sizeof *out->results) : NULL;
    for (size_t i = 0; i < n && !r->wrong; i++) {
        const json_value *one = NULL;
        enum etcd_kind kind = ETCD_RANGE;

        for (size_t k = 0; k < sizeof names / sizeof names[0] && !one; k++) {
            one = field(json_array_at(list, i), names[k]);
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

static void read_result(struct reading *r, const json_value *object, unsigned depth, struct etcd_result *out)
{
    if (!json_is_object(object) && !r->wrong)
        r->wrong = "a result is none";
    switch (out->kind) {
    case ETCD_RANGE:
        read_kvs(r, object, "kvs", out);
        out->count = read_int(r, object, "count");
        out->has_more = read_bool(r, object, "more");
        break;
    case ETCD_PUT: read_previous(r, object, out); break;
    case ETCD_DELETE:
        read_kvs(r, object, "prev_kvs", out);
        out->count = read_int(r, object, "deleted");
        break;
    case ETCD_TXN:
        out->succeeded = read_bool(r, object, "succeeded");
        if (depth == NESTING_MAX && !r->wrong)
            r->wrong = "it is nested too deeply";
        if (!r->wrong)
            read_results(r, object, depth + 1, out);
        break;
    }
}

/* Fields are left out when they say nothing, so that another's answer would read as an empty one of ours. */
static bool is_of_kind(const json_value *root, enum etcd_kind kind)
{
    static const struct {
        enum etcd_kind kind;
        const char *name;
    } fields[] = {
        { ETCD_RANGE, "kvs" },     { ETCD_RANGE, "count" },    { ETCD_RANGE, "more" },
        { ETCD_PUT, "prev_kv" },   { ETCD_DELETE, "deleted" }, { ETCD_DELETE, "prev_kvs" },
        { ETCD_TXN, "succeeded" }, { ETCD_TXN, "responses" },
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].kind != kind && json_get(root, fields[i].name))
            return false;
    return true;
}

const char *read_answer(const json_value *root, enum etcd_kind kind, struct etcd_answer *out)
{
    struct reading r = { 0 };
    struct etcd_answer answer = { .result.kind = kind };

    if (!json_is_object(field(root, "header")))
        return "it has no header"; /* every answer of a store has one */
    answer.revision = read_int(&r, field(root, "header"), "revision");
    if (answer.revision <= 0 && !r.wrong)
        r.wrong = "it has no revision";
    if (!is_of_kind(root, kind) && !r.wrong)
        r.wrong = "it is the answer to something else";
    read_result(&r, root, 0, &answer.result);
    answer.memory = r.memory;
    if (r.wrong)
        blocks_free(r.memory);
    else
        *out = answer;
    return r.wrong;
}

void etcd_answer_done(struct etcd_answer *answer)
{
    blocks_free(answer->memory);
    *answer = (struct etcd_answer){ 0 };
}
