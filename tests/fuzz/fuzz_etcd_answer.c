/* SPDX-License-Identifier: MIT */
/* Any bytes as an answer of etcd's gateway: the first byte says to what. What is taken keeps its promises,
 * and a watch's messages are the same whole or byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "store/etcd/client/internal.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AS_REFUSAL = 4, AS_TOKEN = 5, AS_STREAM = 6, AS_METRICS = 7, WAYS = 8 };

static size_t weigh_bytes(struct etcd_bytes bytes)
{
    size_t sum = 0;

    for (size_t i = 0; i < bytes.n; i++) /* a sanitizer sees what is not ours */
        sum += ((const uint8_t *) bytes.at)[i];
    return sum + bytes.n;
}

static size_t weigh(const struct etcd_result *result)
{
    size_t sum = result->n_kvs + result->n_results;

    for (size_t i = 0; i < result->n_kvs; i++)
        sum += weigh_bytes(result->kvs[i].key) + weigh_bytes(result->kvs[i].value);
    for (size_t i = 0; i < result->n_results; i++)
        sum += weigh(&result->results[i]);
    return sum;
}

static void as_answer(const char *text, size_t n, enum etcd_kind kind)
{
    struct etcd_answer answer = { 0 };
    jsonr_doc *doc = NULL;

    if (jsonr_parse(text, n, &doc, NULL) != DIBS_OK)
        return;
    if (!read_answer(jsonr_root(doc), kind, &answer)) {
        CHECK(answer.revision > 0 && answer.result.kind == kind);
        CHECK(weigh(&answer.result) < SIZE_MAX);
    }
    etcd_answer_done(&answer);
    jsonr_free(doc);
}

struct heard {
    size_t n_messages, n_events, weight;
};

static const char *hear(void *ctx, const char *line, size_t n)
{
    struct heard *heard = ctx;
    struct message m = { 0 };
    const char *wrong = message_read(line, n, &m);

    if (wrong)
        return wrong;
    heard->n_messages++;
    heard->n_events += m.n_events;
    for (size_t i = 0; i < m.n_events; i++) {
        CHECK(m.events[i].kv.mod_revision > 0 && m.events[i].kv.key.n > 0);
        heard->weight += weigh_bytes(m.events[i].kv.key) + weigh_bytes(m.events[i].kv.value);
    }
    message_done(&m);
    return NULL;
}

static void as_stream(const char *text, size_t n)
{
    struct heard whole = { 0 };
    struct heard drops = { 0 };
    struct bytes rest[2] = { 0 };
    const char *wrong = lines_take(&rest[0], text, n, hear, &whole);
    const char *other = NULL;

    for (size_t i = 0; i < n && !other; i++)
        other = lines_take(&rest[1], text + i, 1, hear, &drops);
    CHECK((wrong == NULL) == (other == NULL));
    CHECK(whole.n_messages == drops.n_messages && whole.n_events == drops.n_events);
    CHECK(whole.weight == drops.weight);
    bytes_done(&rest[0]);
    bytes_done(&rest[1]);
}

static void as_refusal(const char *text, size_t n)
{
    struct refusal refusal;

    refusal_read(503, text, n, &refusal);
    CHECK(refusal.status != DIBS_OK && refusal.fault != ETCD_FAULT_NONE);
    CHECK(memchr(refusal.text, '\0', sizeof refusal.text));
    CHECK(!refusal.is_final || refusal.is_not_done);
}

static void as_metrics(const char *text, size_t n)
{
    int64_t bytes = 0;

    if (quota_read(text, n, &bytes))
        CHECK(bytes > 0);
}

static void as_token(const char *text, size_t n)
{
    char token[ETCD_TOKEN_MAX + 1] = "";

    if (login_read(text, n, token, NULL) == DIBS_OK)
        CHECK(*token && !strpbrk(token, "\r\n "));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *) data + 1;
    unsigned way = data[0] % WAYS;

    if (way == AS_STREAM)
        as_stream(text, size - 1);
    else if (way == AS_METRICS)
        as_metrics(text, size - 1);
    else if (way == AS_REFUSAL)
        as_refusal(text, size - 1);
    else if (way == AS_TOKEN)
        as_token(text, size - 1);
    else
        as_answer(text, size - 1, (enum etcd_kind) way);
    return 0;
}
