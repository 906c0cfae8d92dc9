/* SPDX-License-Identifier: MIT */
/* The verbs that list, look, care and save. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "core/core.h"
#include "lib/remote_call.h"

#include "base/banned.h"

enum {
    PAGE = 1000,  /* claims or events of one answer: what the daemon gives at most */
    PATIENCE = 12 /* what goes in many steps may take so many times the timeout, which is that of each */
};

static void be_patient(struct call *call, const struct remote *r)
{
    call->deadline_ms += (PATIENCE - 1) * r->settings->timeout_ms;
}

static dibs_status not_a_list(const struct remote *r, const char *key, dibs_err *err)
{
    (void) err_set(err, DIBS_INVALID, "\"%s\" must be a list, and no longer than asked for", key);
    return remote_not_understood(r, err);
}

/* ---- lists ---- */

/* One page, all of it read before anybody is told of it. */
static dibs_status claim_page(struct remote *r, const dibs_filter *filter, int64_t deadline_ms,
                              dibs_claim page[PAGE], size_t *n, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);

    call.deadline_ms = deadline_ms;
    wire_filter_path(&call.target, filter);
    dibs_status s = remote_ask(r, &call, err);
    if (s != DIBS_OK)
        return s;
    const json_value *list = json_get(call_root(&call), "claims");

    *n = json_array_size(list);
    return *n <= filter->limit ? remote_read_claims(r, list, *n, page, err) : not_a_list(r, "claims", err);
}

dibs_status remote_list(struct remote *r, const dibs_filter *filter, dibs_claim_fn fn, void *ctx,
                        dibs_err *err)
{
    AUTO(free_auto) dibs_claim *page = calloc(PAGE, sizeof *page);
    int64_t deadline_ms = clock_monotonic_ms() + r->settings->timeout_ms;
    dibs_filter next = *filter;
    size_t left = filter->limit ? filter->limit : SIZE_MAX;

    if (!page)
        return err_set(err, DIBS_FAILURE, "listing: out of memory");
    while (left > 0) { /* ends: ids rise from page to page */
        size_t n = 0;

        next.limit = left < PAGE ? left : PAGE;
        dibs_status s = claim_page(r, &next, deadline_ms, page, &n, err);
        if (s != DIBS_OK)
            return s;
        for (size_t i = 0; i < n; i++)
            if (!fn(ctx, &page[i]))
                return DIBS_OK;
        if (n < next.limit || page[n - 1].id <= next.after_id)
            return DIBS_OK;
        next.after_id = page[n - 1].id;
        left -= n;
    }
    return DIBS_OK;
}

/* The caller frees *page. */
static dibs_status event_page(struct remote *r, const dibs_event_query *query, int64_t deadline_ms,
                              dibs_event **page, size_t *n, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    AUTO(free_auto) dibs_event *events = NULL;

    call.deadline_ms = deadline_ms;
    wire_event_path(&call.target, query);
    dibs_status s = remote_ask(r, &call, err);
    if (s != DIBS_OK)
        return s;
    const json_value *list = json_get(call_root(&call), "events");
    size_t found = json_array_size(list);

    if (!json_is_array(list) || found > query->limit)
        return not_a_list(r, "events", err);
    events = calloc(found + 1, sizeof *events);
    if (!events)
        return err_set(err, DIBS_FAILURE, "reading events: out of memory");
    for (size_t i = 0; i < found; i++)
        if (wire_event_read(json_array_at(list, i), &events[i], err) != DIBS_OK)
            return remote_not_understood(r, err);
    *page = TAKE(events);
    *n = found;
    return DIBS_OK;
}

/* Of more than a page the last ones are found by their number: it has no holes but where records are damaged.
 */
static dibs_status find_newest(struct remote *r, dibs_event_query *query, int64_t deadline_ms, dibs_err *err)
{
    AUTO(free_auto) dibs_event *last = NULL;
    size_t n = 0;
    dibs_event_query one = { .since = query->since, .limit = 1, .newest = true };
    dibs_status s = event_page(r, &one, deadline_ms, &last, &n, err);

    if (s == DIBS_OK && n == 1 && last->seq > query->limit && last->seq - query->limit > query->since)
        query->since = last->seq - query->limit;
    query->newest = false;
    return s;
}

dibs_status remote_events(struct remote *r, const dibs_event_query *query, dibs_event_fn fn, void *ctx,
                          dibs_err *err)
{
    int64_t deadline_ms = clock_monotonic_ms() + r->settings->timeout_ms;
    dibs_event_query next = *query;
    size_t left = query->limit ? query->limit : SIZE_MAX;
    dibs_status s = DIBS_OK;

    next.newest = query->newest && query->limit > 0; /* the last of them all are all */
    if (next.newest && query->limit > PAGE)
        s = find_newest(r, &next, deadline_ms, err);
    if (s != DIBS_OK)
        return s;
    while (left > 0) { /* ends: numbers rise from page to page */
        AUTO(free_auto) dibs_event *page = NULL;
        size_t n = 0;

        next.limit = left < PAGE ? left : PAGE;
        s = event_page(r, &next, deadline_ms, &page, &n, err);
        if (s != DIBS_OK)
            return s;
        for (size_t i = 0; i < n; i++)
            if (!fn(ctx, &page[i]))
                return DIBS_OK;
        if (next.newest || n < next.limit || page[n - 1].seq <= next.since)
            return DIBS_OK;
        next.since = page[n - 1].seq;
        left -= n;
    }
    return DIBS_OK;
}

/* ---- hosts ---- */

dibs_status remote_node_list(struct remote *r, dibs_node_fn fn, void *ctx, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    dibs_node node;

    bytes_add_text(&call.target, "/v1/nodes");
    dibs_status s = remote_ask(r, &call, err);
    const json_value *list = s == DIBS_OK ? json_get(call_root(&call), "nodes") : NULL;

    if (s == DIBS_OK && !json_is_array(list))
        return not_a_list(r, "nodes", err);
    for (size_t i = 0; s == DIBS_OK && i < json_array_size(list); i++) {
        if (wire_node_read(json_array_at(list, i), &node, err) != DIBS_OK)
            return remote_not_understood(r, err);
        if (!fn(ctx, &node))
            break;
    }
    return s;
}

dibs_status remote_node_remove(struct remote *r, const char *name, unsigned flags, size_t *n, dibs_err *err)
{
    AUTO(call_done)
    struct call call = call_begin(r, "DELETE", REMOTE_ONCE); /* the second time it would not be found */

    wire_node_path(&call.target, name, flags);
    return remote_ask_count(r, &call, "ended", n, err);
}

/* ---- pools ---- */

static dibs_status ask_pool(struct remote *r, struct call *call, dibs_err *err)
{
    wire_settings_param(&call->target, r->settings);
    return remote_ask(r, call, err);
}

dibs_status remote_pool_get(struct remote *r, const char *name, dibs_pool *out, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    dibs_pool pool;

    wire_pool_path(&call.target, name, "");
    dibs_status s = ask_pool(r, &call, err);
    if (s == DIBS_OK && wire_pool_read(call_root(&call), WIRE_ANSWERED, &pool, err) != DIBS_OK)
        s = remote_not_understood(r, err);
    if (s == DIBS_OK)
        *out = pool;
    return s;
}

dibs_status remote_pool_put(struct remote *r, const dibs_pool *pool, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "PUT", REMOTE_TWICE);
    dibs_status s = core_pool_check(pool, err); /* a name with '/' would be another path */

    if (s != DIBS_OK)
        return s;
    wire_pool_path(&call.target, pool->name, "");
    struct json_writer w = call_body(&call);
    wire_pool(&w, pool, NULL);
    return remote_ask(r, &call, err);
}

dibs_status remote_pool_remove(struct remote *r, const char *name, dibs_err *err)
{
    AUTO(call_done)
    struct call call = call_begin(r, "DELETE", REMOTE_ONCE); /* the second time it would not be found */

    wire_pool_path(&call.target, name, "");
    return remote_ask(r, &call, err);
}

dibs_status remote_pool_list(struct remote *r, dibs_pool_fn fn, void *ctx, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    AUTO(free_auto) dibs_pool *pools = NULL;

    bytes_add_text(&call.target, "/v1/pools");
    dibs_status s = ask_pool(r, &call, err);
    if (s != DIBS_OK)
        return s;
    const json_value *list = json_get(call_root(&call), "pools");
    size_t n = json_array_size(list);

    if (!json_is_array(list))
        return not_a_list(r, "pools", err);
    pools = calloc(n + 1, sizeof *pools);
    if (!pools)
        return err_set(err, DIBS_FAILURE, "listing pools: out of memory");
    for (size_t i = 0; i < n; i++)
        if (wire_pool_read(json_array_at(list, i), WIRE_ANSWERED, &pools[i], err) != DIBS_OK)
            return remote_not_understood(r, err);
    for (size_t i = 0; i < n && fn(ctx, &pools[i]); i++)
        ;
    return DIBS_OK;
}

dibs_status remote_pool_usage(struct remote *r, const char *name, dibs_pool_usage *out, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    dibs_pool_usage usage;

    wire_pool_path(&call.target, name, "/usage");
    dibs_status s = ask_pool(r, &call, err);
    if (s == DIBS_OK && wire_usage_read(call_root(&call), &usage, err) != DIBS_OK)
        s = remote_not_understood(r, err);
    if (s == DIBS_OK)
        *out = usage;
    return s;
}

/* ---- ports ---- */

dibs_status remote_explain(struct remote *r, const dibs_port_question *question, dibs_port_report *out,
                           dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);

    wire_question_path(&call.target, question);
    wire_settings_param(&call.target, r->settings);
    dibs_status s = remote_ask(r, &call, err);
    if (s == DIBS_OK && wire_report_read(call_root(&call), out, err) != DIBS_OK)
        s = remote_not_understood(r, err);
    return s;
}

dibs_status remote_assert(struct remote *r, const dibs_which *which, dibs_socket *out, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    dibs_socket socket;

    wire_which_path(&call.target, which, "/assert");
    dibs_status s = remote_ask(r, &call, err);
    if (s == DIBS_OK && wire_socket_read(call_root(&call), &socket, err) != DIBS_OK)
        s = remote_not_understood(r, err);
    if (s == DIBS_OK)
        *out = socket;
    return s;
}

/* ---- care ---- */

dibs_status remote_reap(struct remote *r, unsigned flags, dibs_claim_fn fn, void *ctx, size_t *n,
                        dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "POST", REMOTE_ONCE);
    AUTO(free_auto) dibs_claim *claims = NULL;

    be_patient(&call, r);
    bytes_add_text(&call.target, "/v1/reap");
    struct json_writer w = call_body(&call);
    json_object(&w);
    json_key_bool(&w, "stale", flags & DIBS_REAP_STALE);
    json_key_bool(&w, "dry_run", flags & DIBS_REAP_DRY_RUN);
    json_end_object(&w);
    dibs_status s = remote_ask(r, &call, err);
    if (s != DIBS_OK)
        return s;
    const json_value *list = json_get(call_root(&call), "claims");
    size_t found = json_array_size(list);

    claims = calloc(found + 1, sizeof *claims);
    if (!claims)
        return err_set(err, DIBS_FAILURE, "reaping: out of memory");
    s = remote_read_claims(r, list, found, claims, err);
    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < found && fn && fn(ctx, &claims[i]); i++)
        ;
    if (n)
        *n = found;
    return DIBS_OK;
}

dibs_status remote_repair(struct remote *r, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                          dibs_err *err)
{
    AUTO(call_done)
    struct call call = call_begin(r, "POST", REMOTE_ONCE); /* it counts how often something was seen */
    dibs_repair_plan sent = *plan;

    be_patient(&call, r);
    bytes_add_text(&call.target, "/v1/repair");
    if (!sent.pool && r->settings->source[DIBS_SET_POOL] != DIBS_FROM_DEFAULT)
        sent.pool = r->settings->pool;
    struct json_writer w = call_body(&call);
    wire_repair_plan(&w, &sent);
    dibs_status s = remote_ask(r, &call, err);
    if (s != DIBS_OK)
        return s;
    const json_value *list = json_get(call_root(&call), "findings");
    dibs_repair_item item;

    if (!json_is_array(list))
        return not_a_list(r, "findings", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (wire_repair_item_read(json_array_at(list, i), &item, err) != DIBS_OK)
            return remote_not_understood(r, err);
        if (!fn(ctx, &item))
            break;
    }
    return DIBS_OK;
}

dibs_status remote_doctor(struct remote *r, bool fix, dibs_finding_fn fn, void *ctx, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, fix ? "POST" : "GET", fix ? REMOTE_ONCE : REMOTE_TWICE);

    be_patient(&call, r);
    bytes_add_text(&call.target, "/v1/doctor");
    dibs_status s = remote_ask(r, &call, err);
    if (s != DIBS_OK)
        return s;
    const json_value *list = json_get(call_root(&call), "findings");
    dibs_finding finding;

    if (!json_is_array(list))
        return not_a_list(r, "findings", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (wire_finding_read(json_array_at(list, i), &finding, err) != DIBS_OK)
            return remote_not_understood(r, err);
        if (!fn(ctx, &finding))
            break;
    }
    return DIBS_OK;
}

/* ---- snapshots ---- */

static const char *pool_of(const struct remote *r, const char *pool)
{
    return pool ? pool : r->settings->pool;
}

dibs_status remote_export(struct remote *r, const char *pool, char range[DIBS_RANGES_TEXT_MAX + 1],
                          uint8_t *bytes, size_t *n, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    AUTO(free_auto) uint8_t *found = malloc(WIRE_RANGE_BYTES_MAX);
    dibs_range_snapshot snapshot = { 0 };

    if (!found)
        return err_set(err, DIBS_FAILURE, "exporting: out of memory");
    wire_pool_path(&call.target, pool_of(r, pool), "/snapshot");
    dibs_status s = ask_pool(r, &call, err);
    if (s != DIBS_OK)
        return s;
    if (wire_range_read(call_root(&call), found, &snapshot, err) != DIBS_OK ||
        strlen(snapshot.range) > DIBS_RANGES_TEXT_MAX)
        return remote_not_understood(r, err);
    (void) text_copy(range, DIBS_RANGES_TEXT_MAX + 1, snapshot.range);
    memcpy(bytes, found, snapshot.n);
    *n = snapshot.n;
    return DIBS_OK;
}

dibs_status remote_import(struct remote *r, const char *pool, const dibs_range_snapshot *snapshot,
                          size_t *n_claimed, dibs_err *err)
{
    AUTO(call_done)
    struct call call =
        call_begin(r, "PUT", REMOTE_ONCE); /* its claims are in the way of the same once more */

    if (snapshot->n > WIRE_RANGE_BYTES_MAX)
        return err_set(err, DIBS_INVALID, "a range snapshot has at most %d bytes", WIRE_RANGE_BYTES_MAX);
    be_patient(&call, r);
    wire_pool_path(&call.target, pool_of(r, pool), "/snapshot");
    struct json_writer w = call_body(&call);
    json_object(&w);
    wire_range_members(&w, snapshot);
    json_end_object(&w);
    return remote_ask_count(r, &call, "claimed", n_claimed, err);
}

dibs_status remote_restore(struct remote *r, const dibs_snapshot *snapshot, size_t *n_restored, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "POST", REMOTE_ONCE);

    be_patient(&call, r);
    bytes_add_text(&call.target, "/v1/restore");
    struct json_writer w = call_body(&call);
    wire_snapshot(&w, snapshot);
    return remote_ask_count(r, &call, "restored", n_restored, err);
}
