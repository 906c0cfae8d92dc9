/* SPDX-License-Identifier: MIT */
/* Routes of claims. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/api_parts.h"
#include "lib/settings_file.h"

#include "base/banned.h"

enum {
    PAGE_MAX = 1000,  /* claims of one answer: half a megabyte */
    LIGHT_BATCH = 100 /* requests whose answers are not large yet (HTTP_LARGE_BYTES) */
};

DEFINE_AUTO(json_doc, json_free)

/* ---- claiming ---- */

/* What the caller's own settings say goes before the daemon's. */
static dibs_status override(struct ask *ask, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    if (!ask->asked.has_settings)
        return DIBS_OK;
    ask->settings = malloc(sizeof *ask->settings);
    if (!ask->settings)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    *ask->settings = *ask->api->options.settings;
    for (int i = 0; i < DIBS_SETTING_COUNT && s == DIBS_OK; i++)
        if (ask->asked.settings[i])
            s = settings_set(ask->settings, (dibs_setting) i, ask->asked.settings[i], DIBS_FROM_FLAG, err);
    return s;
}

dibs_status api_read_settings(struct ask *ask, dibs_err *err)
{
    const char *text = http_query(ask->r, "settings", 0);
    dibs_status s = text ? wire_settings_read(text, &ask->asked, err) : DIBS_OK;

    return s == DIBS_OK ? override(ask, err) : s;
}

void api_charge(const struct ask *ask, size_t n)
{
    if (ask->caller->door != CALLER_ADMIN && n > 1) /* one is paid already */
        quota_charge(ask->api->options.quota, ask->caller->who.uid, (uint32_t) (n - 1), clock_monotonic_ms());
}

static dibs_status prepare(struct ask *ask, dibs_err *err)
{
    dibs_batch *batch = &ask->asked.batch;
    const char *key = http_header(ask->r, "Idempotency-Key");
    dibs_status s = override(ask, err);

    api_charge(ask, batch->n + batch->n_drops);
    for (size_t i = 0; i < batch->n && s == DIBS_OK; i++)
        s = caller_translate(&ask->api->view, ask->caller, ask->asked.requests[i].holder,
                             &ask->asked.requests[i].pid, err);
    if (s != DIBS_OK)
        return s;
    if (key && (!key[0] || !text_copy(ask->key, LEDGER_KEY_MAX + 1, key)))
        return err_set(err, DIBS_INVALID, "an Idempotency-Key has between 1 and %d bytes", LEDGER_KEY_MAX);
    batch->key = key ? ask->key : NULL;
    return DIBS_OK;
}

dibs_status api_read_claim(struct ask *ask, dibs_err *err)
{
    size_t n = 0;
    const char *text = http_body(ask->r, &n);
    dibs_status s =
        wire_request_read(n ? text : "{}", n ? n : 2, ask->api->options.settings->ttl_ms, &ask->asked, err);

    return s == DIBS_OK ? prepare(ask, err) : s;
}

dibs_status api_read_batch(struct ask *ask, dibs_err *err)
{
    size_t n = 0;
    const char *text = http_body(ask->r, &n);
    dibs_status s = wire_batch_read(text, n, ask->api->options.settings->ttl_ms, &ask->asked, err);

    if (s == DIBS_OK && ask->asked.batch.n > LIGHT_BATCH && !http_take_large(ask->r)) {
        ask->status = 429;
        ask->retry_s = 1;
        s = err_set(err, DIBS_UNAVAILABLE, "uid %u has too many large batches under way; ask again then",
                    ask->caller->who.uid);
    }
    return s == DIBS_OK ? prepare(ask, err) : s;
}

dibs_status api_claim(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct json_writer w;
    dibs_claim claim;
    dibs_status s = dibs_claim_ports(handle, &ask->asked.batch, &claim, err);

    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    wire_claim(&w, &claim, true);
    ask->status = claim.was_there || ask->asked.batch.is_dry_run ? 200 : 201;
    return DIBS_OK;
}

void api_write_claims(struct ask *ask, const dibs_claim *claims, size_t n)
{
    struct json_writer w;

    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key(&w, "claims");
    json_array(&w);
    for (size_t i = 0; i < n; i++)
        wire_claim(&w, &claims[i], true);
    json_end_array(&w);
    json_end_object(&w);
}

dibs_status api_batch(struct ask *ask, dibs *handle, dibs_err *err)
{
    const dibs_batch *batch = &ask->asked.batch;
    AUTO(free_auto) dibs_claim *claims = calloc(batch->n + 1, sizeof *claims);

    if (!claims)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    dibs_status s = dibs_claim_ports(handle, batch, claims, err);
    if (s == DIBS_OK)
        api_write_claims(ask, claims, batch->n);
    return s;
}

/* ---- lists ---- */

struct page {
    struct json_writer w;
    size_t n, limit;
    uint64_t last;
};

static bool write_one(void *ctx, const dibs_claim *claim)
{
    struct page *page = ctx;

    wire_claim(&page->w, claim, false);
    page->last = claim->id;
    return ++page->n < page->limit;
}

dibs_status api_list(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct wire_params params = api_params(ask);
    dibs_filter filter = { 0 };
    struct page page = { 0 };
    dibs_status s = wire_filter_read(&params, &filter, err);

    if (s != DIBS_OK)
        return s;
    ask->is_marked = true;
    ask->seq = engine_seq(ask->api->options.engine);
    if (api_is_known(ask)) {
        ask->status = 304;
        return DIBS_OK;
    }
    if (filter.limit > PAGE_MAX)
        return err_set(err, DIBS_INVALID, "a page has at most %d claims; the next begins after=ID", PAGE_MAX);
    page.limit = filter.limit ? filter.limit : PAGE_MAX;
    filter.limit = page.limit;
    json_begin_bytes(&page.w, &ask->out);
    json_object(&page.w);
    json_key(&page.w, "claims");
    json_array(&page.w);
    s = dibs_claim_list(handle, &filter, write_one, &page, err);
    json_end_array(&page.w);
    json_key(&page.w, "next");
    if (page.n == page.limit)
        json_uint(&page.w, page.last);
    else
        json_null(&page.w);
    json_key_uint(&page.w, "seq", ask->seq);
    json_end_object(&page.w);
    return s;
}

/* ---- one claim ---- */

static dibs_status which(struct ask *ask, dibs_which *out, dibs_err *err)
{
    struct wire_params params = api_params(ask);

    return wire_which_read(ask->part[0], &params, out, err);
}

static dibs_status write_claim(struct ask *ask, dibs_status s, const dibs_claim *claim)
{
    struct json_writer w;

    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    wire_claim(&w, claim, true);
    return DIBS_OK;
}

dibs_status api_find(struct ask *ask, dibs *handle, dibs_err *err)
{
    dibs_which it = { 0 };
    dibs_claim claim;
    dibs_status s = which(ask, &it, err);

    if (s == DIBS_OK)
        s = dibs_claim_find(handle, &it, &claim, err);
    return write_claim(ask, s, &claim);
}

dibs_status api_release(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct wire_params params = api_params(ask);
    struct json_writer w;
    dibs_which it = { 0 };
    unsigned flags = 0;
    size_t n = 0;
    dibs_status s = which(ask, &it, err);

    if (s == DIBS_OK)
        s = wire_release_read(&params, &flags, err);
    if (s == DIBS_OK)
        s = dibs_claim_release(handle, &it, flags, &n, err);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key_uint(&w, "released", n);
    json_end_object(&w);
    return DIBS_OK;
}

dibs_status api_renew(struct ask *ask, dibs *handle, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    int64_t ttl_ms = ask->api->options.settings->ttl_ms;
    dibs_which it = { 0 };
    dibs_claim claim;
    size_t n = 0;
    dibs_status s = which(ask, &it, err);

    (void) http_body(ask->r, &n);
    if (s == DIBS_OK && n > 0) {
        s = api_json(ask, &doc, err);
        if (s == DIBS_OK)
            s = wire_ttl_read(json_root(doc), &ttl_ms, err);
    }
    if (s == DIBS_OK)
        s = dibs_claim_renew(handle, &it, ttl_ms, &claim, err);
    return write_claim(ask, s, &claim);
}

dibs_status api_transfer(struct ask *ask, dibs *handle, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    dibs_which it = { 0 };
    dibs_heir heir = { 0 };
    dibs_claim claim;
    dibs_status s = which(ask, &it, err);

    if (s == DIBS_OK)
        s = api_json(ask, &doc, err);
    if (s == DIBS_OK)
        s = wire_heir_read(json_root(doc), ask->api->options.settings->ttl_ms, &heir, err);
    if (s == DIBS_OK)
        s = caller_translate(&ask->api->view, ask->caller, heir.holder, &heir.pid, err);
    if (s == DIBS_OK)
        s = dibs_claim_transfer(handle, &it, &heir, &claim, err);
    return write_claim(ask, s, &claim);
}

dibs_status api_assert(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct json_writer w;
    dibs_which it = { 0 };
    dibs_socket socket;
    dibs_status s = which(ask, &it, err);

    if (s == DIBS_OK)
        s = dibs_claim_assert(handle, &it, &socket, err);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    wire_socket(&w, &socket);
    return DIBS_OK;
}

dibs_status api_locate(struct ask *ask, dibs *handle, dibs_err *err)
{
    const char *name = http_query(ask->r, "name", 0);
    struct json_writer w;
    char found[DIBS_NAME_MAX + 1];

    if (!name)
        return err_set(err, DIBS_INVALID, "parameter 'name' is missing");
    dibs_status s = dibs_name_locate(handle, name, http_query(ask->r, "project", 0), found, err);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key_string(&w, "name", found);
    json_end_object(&w);
    return DIBS_OK;
}
