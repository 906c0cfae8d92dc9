/* SPDX-License-Identifier: MIT */
/* Routes for claims. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/api/internal.h"
#include "lib/settings.h"

#include "base/banned.h"

enum {
    PAGE_MAX = 1000,  /* claims in one answer: half a megabyte */
    LIGHT_BATCH = 100 /* requests of a batch whose answer stays below HTTP_LARGE_BYTES */
};

/* Apply the caller's own settings over the daemon's. */
static dibs_status override(struct api_request *request, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    if (!request->body.has_settings)
        return DIBS_OK;
    request->settings = malloc(sizeof *request->settings);
    if (!request->settings)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    *request->settings = *request->api->options.settings;
    for (int i = 0; i < DIBS_SETTING_COUNT && s == DIBS_OK; i++)
        if (request->body.settings[i])
            s = settings_set(request->settings, (dibs_setting) i, request->body.settings[i], DIBS_FROM_FLAG,
                             err);
    return s;
}

dibs_status api_read_settings(struct api_request *request, dibs_err *err)
{
    const char *text = http_query(request->r, "settings", 0);
    dibs_status s = text ? wire_settings_read(text, &request->body, err) : DIBS_OK;

    return s == DIBS_OK ? override(request, err) : s;
}

void api_charge(const struct api_request *request, size_t n)
{
    if (request->caller->listener != CALLER_ADMIN && n > 1) /* the request itself was charged already */
        quota_charge(request->api->options.quota, request->caller->call.uid, (uint32_t) (n - 1),
                     clock_monotonic_ms());
}

static dibs_status prepare(struct api_request *request, dibs_err *err)
{
    dibs_batch *batch = &request->body.batch;
    const char *key = http_header(request->r, "Idempotency-Key");
    dibs_status s = override(request, err);

    api_charge(request, batch->n + batch->n_drops);
    for (size_t i = 0; i < batch->n && s == DIBS_OK; i++)
        s = caller_translate(&request->api->view, request->caller, request->body.requests[i].holder,
                             &request->body.requests[i].pid, err);
    if (s != DIBS_OK)
        return s;
    if (key && (!key[0] || !text_copy(request->key, DIBS_KEY_MAX + 1, key)))
        return err_set(err, DIBS_INVALID, "an Idempotency-Key has between 1 and %d bytes", DIBS_KEY_MAX);
    batch->key = key ? request->key : NULL;
    return DIBS_OK;
}

dibs_status api_read_claim(struct api_request *request, dibs_err *err)
{
    size_t n = 0;
    const char *text = api_body(request, &n);
    dibs_status s = wire_request_read(text, n, request->api->options.settings->ttl_ms, &request->body, err);

    return s == DIBS_OK ? prepare(request, err) : s;
}

dibs_status api_read_batch(struct api_request *request, dibs_err *err)
{
    size_t n = 0;
    const char *text = http_body(request->r, &n);
    dibs_status s = wire_batch_read(text, n, request->api->options.settings->ttl_ms, &request->body, err);

    if (s == DIBS_OK && request->body.batch.n > LIGHT_BATCH && !http_take_large(request->r)) {
        request->status = 429;
        request->retry_s = 1;
        s = err_set(err, DIBS_UNAVAILABLE, "uid %u has too many large batches under way; ask again then",
                    request->caller->call.uid);
    }
    return s == DIBS_OK ? prepare(request, err) : s;
}

static dibs_status write_claim(struct api_request *request, dibs_status s, const dibs_claim *claim)
{
    if (s == DIBS_OK)
        wire_claim(&request->w, claim, true);
    return s;
}

/* Give commands of `dibs run` cgroups of their own. Before the commit: the kernel is given the claims after
 * it. */
static void isolate(const struct api_request *request, const dibs_claim *claims, size_t n)
{
    struct engine *engine = request->api->options.engine;

    for (size_t i = 0; engine->enforce && !request->body.batch.is_dry_run && i < n; i++)
        engine_isolate(engine, request->caller->peer.pid, &claims[i]);
}

dibs_status api_claim(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_claim claim;
    dibs_status s = dibs_claim_ports(handle, &request->body.batch, &claim, err);

    if (s == DIBS_OK)
        request->status = claim.was_there || request->body.batch.is_dry_run ? 200 : 201;
    if (s == DIBS_OK)
        isolate(request, &claim, 1);
    return write_claim(request, s, &claim);
}

void api_write_claims(struct api_request *request, const dibs_claim *claims, size_t n)
{
    api_begin_list(request, "claims");
    for (size_t i = 0; i < n; i++)
        wire_claim(&request->w, &claims[i], true);
    api_end_list(request);
}

dibs_status api_batch(struct api_request *request, dibs *handle, dibs_err *err)
{
    const dibs_batch *batch = &request->body.batch;
    AUTO(free_auto) dibs_claim *claims = calloc(batch->n + 1, sizeof *claims);

    if (!claims)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    dibs_status s = dibs_claim_ports(handle, batch, claims, err);
    if (s == DIBS_OK) {
        isolate(request, claims, batch->n);
        api_write_claims(request, claims, batch->n);
    }
    return s;
}

struct claims_page {
    struct jsonw *w;
    size_t n, limit;
    uint64_t last;
};

static bool write_one(void *ctx, const dibs_claim *claim)
{
    struct claims_page *page = ctx;

    wire_claim(page->w, claim, false);
    page->last = claim->id;
    return ++page->n < page->limit;
}

dibs_status api_list(struct api_request *request, dibs *handle, dibs_err *err)
{
    struct jsonw *w = &request->w;
    dibs_filter filter = { 0 };
    struct claims_page page = { .w = w };
    dibs_status s = wire_filter_read(&request->params, &filter, err);

    if (s != DIBS_OK)
        return s;
    request->is_marked = true;
    request->seq = request->api->options.engine->seq;
    if (api_is_known(request)) {
        request->status = 304;
        return DIBS_OK;
    }
    if (filter.limit > PAGE_MAX)
        return err_set(err, DIBS_INVALID, "a page has at most %d claims; the next begins after=ID", PAGE_MAX);
    page.limit = filter.limit ? filter.limit : PAGE_MAX;
    filter.limit = page.limit;
    api_begin_list(request, "claims");
    s = dibs_claim_list(handle, &filter, write_one, &page, err);
    jsonw_end_array(w);
    jsonw_key(w, "next");
    if (page.n == page.limit)
        jsonw_uint(w, page.last);
    else
        jsonw_null(w);
    jsonw_key_uint(w, "seq", request->seq);
    jsonw_end_object(w);
    return s;
}

dibs_status api_read_which(struct api_request *request, dibs_err *err)
{
    return wire_which_read(request->match.part[0], &request->params, &request->which, err);
}

dibs_status api_read_change(struct api_request *request, dibs_err *err)
{
    dibs_status s = api_read_which(request, err);

    return s == DIBS_OK ? api_read_json(request, err) : s;
}

dibs_status api_find(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_claim claim;
    dibs_status s = dibs_claim_find(handle, &request->which, &claim, err);

    return write_claim(request, s, &claim);
}

dibs_status api_release(struct api_request *request, dibs *handle, dibs_err *err)
{
    unsigned flags = 0;
    size_t n = 0;
    dibs_status s = wire_release_read(&request->params, &flags, err);

    if (s == DIBS_OK)
        s = dibs_claim_release(handle, &request->which, flags, &n, err);
    return api_write_count(request, s, "released", n);
}

dibs_status api_renew(struct api_request *request, dibs *handle, dibs_err *err)
{
    int64_t ttl_ms = request->api->options.settings->ttl_ms;
    dibs_claim claim;
    size_t n = 0;
    dibs_status s = DIBS_OK;

    (void) http_body(request->r, &n);
    if (n > 0)
        s = wire_ttl_read(jsonr_root(request->body.doc), &ttl_ms, err);
    if (s == DIBS_OK)
        s = dibs_claim_renew(handle, &request->which, ttl_ms, &claim, err);
    return write_claim(request, s, &claim);
}

dibs_status api_transfer(struct api_request *request, dibs *handle, dibs_err *err)
{
    int64_t ttl_ms = request->api->options.settings->ttl_ms;
    dibs_heir heir = { 0 };
    dibs_claim claim;
    dibs_status s = wire_heir_read(jsonr_root(request->body.doc), ttl_ms, &heir, err);

    if (s == DIBS_OK)
        s = caller_translate(&request->api->view, request->caller, heir.holder, &heir.pid, err);
    if (s == DIBS_OK)
        s = dibs_claim_transfer(handle, &request->which, &heir, &claim, err);
    return write_claim(request, s, &claim);
}

dibs_status api_assert(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_socket socket;
    dibs_status s = dibs_claim_assert(handle, &request->which, &socket, err);

    if (s == DIBS_OK)
        wire_socket(&request->w, &socket);
    return s;
}

dibs_status api_locate(struct api_request *request, dibs *handle, dibs_err *err)
{
    const char *name = http_query(request->r, "name", 0);
    char found[DIBS_NAME_MAX + 1];

    if (!name)
        return err_set(err, DIBS_INVALID, "parameter 'name' is missing");
    dibs_status s = dibs_name_locate(handle, name, http_query(request->r, "project", 0), found, err);
    if (s != DIBS_OK)
        return s;
    jsonw_object(&request->w);
    jsonw_key_string(&request->w, "name", found);
    jsonw_end_object(&request->w);
    return DIBS_OK;
}
