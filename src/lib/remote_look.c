/* SPDX-License-Identifier: MIT */
/* The verbs that list, report, maintain and export. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "core/core.h"
#include "lib/remote_exchange.h"

#include "base/banned.h"

enum {
    PAGE = 1000,  /* claims or events of one answer: what the daemon gives at most */
    PATIENCE = 12 /* what goes in many steps may take so many times the timeout, which is that of each */
};

static void be_patient(struct remote_exchange *exchange)
{
    exchange->deadline_ms += (PATIENCE - 1) * exchange->r->settings->timeout_ms;
}

/* ---- what answers are read into ---- */

/* Define read_NAME(), which is wire_NAME_read() for any kind of memory. */
#define DEFINE_READ(name)                                                          \
    static dibs_status read_##name(const jsonr_value *v, void *out, dibs_err *err) \
    {                                                                              \
        return wire_##name##_read(v, out, err);                                    \
    }
DEFINE_READ(event)
DEFINE_READ(node)
DEFINE_READ(usage)
DEFINE_READ(report)
DEFINE_READ(socket)
DEFINE_READ(repair_item)
DEFINE_READ(finding)

static dibs_status read_pool(const jsonr_value *v, void *out, dibs_err *err)
{
    return wire_pool_read(v, WIRE_ANSWERED, out, err);
}

static const struct remote_type events = { read_event, sizeof(dibs_event), "events" };
static const struct remote_type nodes = { read_node, sizeof(dibs_node), "nodes" };
static const struct remote_type pools = { read_pool, sizeof(dibs_pool), "pools" };
static const struct remote_type usages = { read_usage, sizeof(dibs_pool_usage), NULL };
static const struct remote_type reports = { read_report, sizeof(dibs_port_report), NULL };
static const struct remote_type sockets = { read_socket, sizeof(dibs_socket), NULL };
static const struct remote_type repair_items = { read_repair_item, sizeof(dibs_repair_item), "findings" };
static const struct remote_type findings = { read_finding, sizeof(dibs_finding), "findings" };

/* ---- lists ---- */

dibs_status remote_list(struct remote *r, const dibs_filter *filter, dibs_claim_fn fn, void *ctx,
                        dibs_err *err)
{
    int64_t deadline_ms = clock_monotonic_ms() + r->settings->timeout_ms;
    dibs_filter next = *filter;
    size_t left = filter->limit ? filter->limit : SIZE_MAX;

    while (left > 0) { /* ends: ids rise from page to page */
        AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);
        AUTO(free_auto) dibs_claim *page = NULL; /* read whole before the callback sees any of it */
        size_t n = 0;

        exchange.deadline_ms = deadline_ms;
        exchange.most = next.limit = left < PAGE ? left : PAGE;
        wire_filter_path(&exchange.target, &next);
        dibs_status s = remote_ask_list(&exchange, &remote_claims, &page, &n, err);
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

static dibs_status event_page(struct remote *r, const dibs_event_query *query, int64_t deadline_ms,
                              dibs_event **page, size_t *n, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);

    exchange.deadline_ms = deadline_ms;
    exchange.most = query->limit;
    wire_event_path(&exchange.target, query);
    return remote_ask_list(&exchange, &events, page, n, err);
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
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);
    AUTO(free_auto) dibs_node *found = NULL;
    size_t n = 0;

    bytes_add_text(&exchange.target, "/v1/nodes");
    dibs_status s = remote_ask_list(&exchange, &nodes, &found, &n, err);
    for (size_t i = 0; i < n && fn(ctx, &found[i]); i++)
        ;
    return s;
}

dibs_status remote_node_remove(struct remote *r, const char *name, unsigned flags, size_t *n, dibs_err *err)
{
    AUTO(exchange_done)
    struct remote_exchange exchange =
        exchange_begin(r, "DELETE", REMOTE_ONCE); /* the second time it would not be found */

    wire_node_path(&exchange.target, name, flags);
    return remote_ask_count(&exchange, "ended", n, err);
}

/* ---- pools ---- */

dibs_status remote_pool_get(struct remote *r, const char *name, dibs_pool *out, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);

    wire_pool_path(&exchange.target, name, "");
    wire_settings_param(&exchange.target, r->settings);
    return remote_ask_value(&exchange, &pools, out, err);
}

dibs_status remote_pool_put(struct remote *r, const dibs_pool *pool, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "PUT", REMOTE_TWICE);
    dibs_status s = core_pool_check(pool, err); /* a name with '/' would be another path */

    if (s != DIBS_OK)
        return s;
    wire_pool_path(&exchange.target, pool->name, "");
    struct jsonw w = exchange_body(&exchange);
    wire_pool(&w, pool, NULL);
    return remote_ask(&exchange, err);
}

dibs_status remote_pool_remove(struct remote *r, const char *name, dibs_err *err)
{
    AUTO(exchange_done)
    struct remote_exchange exchange =
        exchange_begin(r, "DELETE", REMOTE_ONCE); /* the second time it would not be found */

    wire_pool_path(&exchange.target, name, "");
    return remote_ask(&exchange, err);
}

dibs_status remote_pool_list(struct remote *r, dibs_pool_fn fn, void *ctx, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);
    AUTO(free_auto) dibs_pool *found = NULL;
    size_t n = 0;

    bytes_add_text(&exchange.target, "/v1/pools");
    wire_settings_param(&exchange.target, r->settings);
    dibs_status s = remote_ask_list(&exchange, &pools, &found, &n, err);
    for (size_t i = 0; i < n && fn(ctx, &found[i]); i++)
        ;
    return s;
}

dibs_status remote_pool_usage(struct remote *r, const char *name, dibs_pool_usage *out, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);

    wire_pool_path(&exchange.target, name, "/usage");
    wire_settings_param(&exchange.target, r->settings);
    return remote_ask_value(&exchange, &usages, out, err);
}

/* ---- ports ---- */

dibs_status remote_explain(struct remote *r, const dibs_port_question *question, dibs_port_report *out,
                           dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);

    wire_question_path(&exchange.target, question);
    wire_settings_param(&exchange.target, r->settings);
    return remote_ask_value(&exchange, &reports, out, err);
}

dibs_status remote_assert(struct remote *r, const dibs_which *which, dibs_socket *out, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);

    wire_which_path(&exchange.target, which, "/assert");
    return remote_ask_value(&exchange, &sockets, out, err);
}

/* ---- maintenance ---- */

dibs_status remote_reap(struct remote *r, struct core_reaping *reaping, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "POST", REMOTE_ONCE);
    AUTO(free_auto) dibs_claim *claims = NULL;

    be_patient(&exchange);
    bytes_add_text(&exchange.target, "/v1/reap");
    struct jsonw w = exchange_body(&exchange);
    jsonw_object(&w);
    jsonw_key_bool(&w, "stale", reaping->flags & DIBS_REAP_STALE);
    jsonw_key_bool(&w, "dry_run", reaping->flags & DIBS_REAP_DRY_RUN);
    jsonw_end_object(&w);
    dibs_status s = remote_ask_list(&exchange, &remote_claims, &claims, &reaping->n, err);
    for (size_t i = 0; i < reaping->n && reaping->fn && reaping->fn(reaping->ctx, &claims[i]); i++)
        ;
    return s;
}

dibs_status remote_repair(struct remote *r, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                          dibs_err *err)
{
    AUTO(exchange_done)
    struct remote_exchange exchange =
        exchange_begin(r, "POST", REMOTE_ONCE); /* it counts how often something was seen */
    dibs_repair_plan sent = *plan;
    AUTO(free_auto) dibs_repair_item *found = NULL;
    size_t n = 0;

    be_patient(&exchange);
    bytes_add_text(&exchange.target, "/v1/repair");
    if (!sent.pool && r->settings->source[DIBS_SET_POOL] != DIBS_FROM_DEFAULT)
        sent.pool = r->settings->pool;
    struct jsonw w = exchange_body(&exchange);
    wire_repair_plan(&w, &sent);
    dibs_status s = remote_ask_list(&exchange, &repair_items, &found, &n, err);
    for (size_t i = 0; i < n && fn(ctx, &found[i]); i++)
        ;
    return s;
}

dibs_status remote_doctor(struct remote *r, bool fix, dibs_finding_fn fn, void *ctx, dibs_err *err)
{
    AUTO(exchange_done)
    struct remote_exchange exchange =
        exchange_begin(r, fix ? "POST" : "GET", fix ? REMOTE_ONCE : REMOTE_TWICE);
    AUTO(free_auto) dibs_finding *found = NULL;
    size_t n = 0;

    be_patient(&exchange);
    bytes_add_text(&exchange.target, "/v1/doctor");
    dibs_status s = remote_ask_list(&exchange, &findings, &found, &n, err);
    for (size_t i = 0; i < n && fn(ctx, &found[i]); i++)
        ;
    return s;
}

/* ---- snapshots ---- */

static const char *pool_of(const struct remote *r, const char *pool)
{
    return pool ? pool : r->settings->pool;
}

dibs_status remote_export(struct remote *r, const char *pool, const struct core_range_export *out,
                          dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "GET", REMOTE_TWICE);
    AUTO(free_auto) uint8_t *found = malloc(WIRE_RANGE_BYTES_MAX);
    dibs_range_snapshot snapshot = { 0 };

    if (!found)
        return err_set(err, DIBS_FAILURE, "exporting: out of memory");
    wire_pool_path(&exchange.target, pool_of(r, pool), "/snapshot");
    wire_settings_param(&exchange.target, r->settings);
    dibs_status s = remote_ask(&exchange, err);
    if (s != DIBS_OK)
        return s;
    if (wire_range_read(exchange_root(&exchange), found, &snapshot, err) != DIBS_OK ||
        strlen(snapshot.range) > DIBS_RANGES_TEXT_MAX)
        return remote_not_understood(r, err);
    (void) text_copy(out->range, DIBS_RANGES_TEXT_MAX + 1, snapshot.range);
    memcpy(out->bytes, found, snapshot.n);
    *out->n = snapshot.n;
    return DIBS_OK;
}

dibs_status remote_import(struct remote *r, const char *pool, const dibs_range_snapshot *snapshot,
                          size_t *n_claimed, dibs_err *err)
{
    AUTO(exchange_done)
    struct remote_exchange exchange =
        exchange_begin(r, "PUT", REMOTE_ONCE); /* its claims are in the way of the same once more */

    if (snapshot->n > WIRE_RANGE_BYTES_MAX)
        return err_set(err, DIBS_INVALID, "a range snapshot has at most %d bytes", WIRE_RANGE_BYTES_MAX);
    be_patient(&exchange);
    wire_pool_path(&exchange.target, pool_of(r, pool), "/snapshot");
    struct jsonw w = exchange_body(&exchange);
    jsonw_object(&w);
    wire_range_members(&w, snapshot);
    jsonw_end_object(&w);
    return remote_ask_count(&exchange, "claimed", n_claimed, err);
}

dibs_status remote_restore(struct remote *r, const dibs_snapshot *snapshot, size_t *n_restored, dibs_err *err)
{
    AUTO(exchange_done) struct remote_exchange exchange = exchange_begin(r, "POST", REMOTE_ONCE);

    be_patient(&exchange);
    bytes_add_text(&exchange.target, "/v1/restore");
    struct jsonw w = exchange_body(&exchange);
    wire_snapshot(&w, snapshot);
    return remote_ask_count(&exchange, "restored", n_restored, err);
}
