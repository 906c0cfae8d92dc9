/* SPDX-License-Identifier: MIT */
/* The public functions that list, report, maintain and export. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "lib/verb.h"

#include "base/banned.h"

enum { PAGE = 1000 }; /* claims or events of one answer: the daemon's maximum */

/* ---- readers of answers ---- */

EXCHANGE_READ(event)
EXCHANGE_READ(node)
EXCHANGE_READ(usage)
EXCHANGE_READ(report)
EXCHANGE_READ(socket)
EXCHANGE_READ(repair_item)

static dibs_status read_pool(const jsonr_value *v, void *out, dibs_err *err)
{
    return wire_pool_read(v, WIRE_ANSWERED, out, err);
}

static const struct exchange_type events = { read_event, sizeof(dibs_event), "events" };
static const struct exchange_type nodes = { read_node, sizeof(dibs_node), "nodes" };
static const struct exchange_type pools = { read_pool, sizeof(dibs_pool), "pools" };
static const struct exchange_type usages = { read_usage, sizeof(dibs_pool_usage), NULL };
static const struct exchange_type reports = { read_report, sizeof(dibs_port_report), NULL };
static const struct exchange_type sockets = { read_socket, sizeof(dibs_socket), NULL };
static const struct exchange_type repair_items = { read_repair_item, sizeof(dibs_repair_item), "findings" };

/* ---- lists ---- */

dibs_status dibs_claim_list(dibs *handle, const dibs_filter *filter, dibs_claim_fn fn, void *ctx,
                            dibs_err *err)
{
    NEED(handle, filter && fn, args_proto(filter->proto, err), err);
    AUTO(verb_called_back) struct connection *to = verb_calls_back(handle);
    if (!to->remote)
        return core_list(CORE(handle), filter, fn, ctx, err);
    int64_t deadline_ms = clock_monotonic_ms() + to->settings.timeout_ms;
    dibs_filter next = *filter;
    size_t left = filter->limit ? filter->limit : SIZE_MAX;

    while (left > 0) { /* ends, because ids rise from page to page */
        AUTO(exchange_done) struct exchange ask = exchange_begin(to->remote, "GET", EXCHANGE_TWICE);
        AUTO(free_auto) dibs_claim *page = NULL; /* read the whole page before calling back */
        size_t n = 0;

        ask.deadline_ms = deadline_ms;
        ask.most = next.limit = left < PAGE ? left : PAGE;
        wire_filter_path(&ask.target, &next);
        dibs_status s = exchange_ask_list(&ask, &remote_claims, &page, &n, err);
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
    AUTO(exchange_done) struct exchange ask = exchange_begin(r, "GET", EXCHANGE_TWICE);

    ask.deadline_ms = deadline_ms;
    ask.most = query->limit;
    wire_event_path(&ask.target, query);
    return exchange_ask_list(&ask, &events, page, n, err);
}

/* Find the first of the newest events when they exceed a page. Only damaged records leave gaps. */
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

dibs_status dibs_event_list(dibs *handle, const dibs_event_query *query, dibs_event_fn fn, void *ctx,
                            dibs_err *err)
{
    NEED(handle, query && fn, DIBS_OK, err);
    AUTO(verb_called_back) struct connection *to = verb_calls_back(handle);
    if (!to->remote)
        return ledger_events(handle_ledger(handle), CALL(handle), &(struct ledger_feed){ *query, NULL }, fn,
                             ctx, err);
    int64_t deadline_ms = clock_monotonic_ms() + to->settings.timeout_ms;
    dibs_event_query next = *query;
    size_t left = query->limit ? query->limit : SIZE_MAX;
    dibs_status s = DIBS_OK;

    next.newest = query->newest && query->limit > 0; /* all of the newest events are simply all events */
    if (next.newest && query->limit > PAGE)
        s = find_newest(to->remote, &next, deadline_ms, err);
    while (left > 0 && s == DIBS_OK) { /* ends, because numbers rise from page to page */
        AUTO(free_auto) dibs_event *page = NULL;
        size_t n = 0;

        next.limit = left < PAGE ? left : PAGE;
        s = event_page(to->remote, &next, deadline_ms, &page, &n, err);
        for (size_t i = 0; i < n; i++)
            if (!fn(ctx, &page[i]))
                return DIBS_OK;
        if (s != DIBS_OK || next.newest || n < next.limit || page[n - 1].seq <= next.since)
            return s;
        next.since = page[n - 1].seq;
        left -= n;
    }
    return s;
}

/* ---- hosts ---- */

dibs_status dibs_node_list(dibs *handle, dibs_node_fn fn, void *ctx, dibs_err *err)
{
    NEED(handle, fn, DIBS_OK, err);
    AUTO(verb_called_back) struct connection *to = verb_calls_back(handle);
    if (!to->remote)
        return ledger_nodes(handle_ledger(handle), CALL(handle), fn, ctx, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(to->remote, "GET", EXCHANGE_TWICE);
    bytes_add_text(&ask.target, "/v1/nodes");
    return EXCHANGE_ASK_EACH(&ask, &nodes, dibs_node, fn, ctx, err);
}

dibs_status dibs_node_remove(dibs *handle, const char *name, unsigned flags, size_t *n, dibs_err *err)
{
    NEED(handle, name, args_flags(flags, DIBS_NODE_FORCE, err), err);
    if (!handle->to->remote)
        return core_node_remove(CORE(handle), name, flags, n, err);
    /* Send once: a repeated request would return NOT_FOUND. */
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "DELETE", EXCHANGE_ONCE);
    wire_node_path(&ask.target, name, flags);
    return exchange_ask_count(&ask, "ended", n, err);
}

/* ---- pools ---- */

dibs_status dibs_pool_get(dibs *handle, const char *name, dibs_pool *out, dibs_err *err)
{
    NEED(handle, name && out, DIBS_OK, err);
    if (!handle->to->remote)
        return core_pool_stored(CORE(handle), name, out, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "GET", EXCHANGE_TWICE);
    wire_pool_path(&ask.target, name, "");
    wire_settings_param(&ask.target, &handle->to->settings);
    return exchange_ask_value(&ask, &pools, out, err);
}

dibs_status dibs_pool_put(dibs *handle, const dibs_pool *pool, dibs_err *err)
{
    NEED(handle, pool, DIBS_OK, err);
    if (!handle->to->remote)
        return core_pool_put(CORE(handle), pool, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "PUT", EXCHANGE_TWICE);
    dibs_status s = core_pool_check(pool, err); /* check the name here: a '/' would change the path */
    if (s != DIBS_OK)
        return s;
    wire_pool_path(&ask.target, pool->name, "");
    struct jsonw w = exchange_body(&ask);
    wire_pool(&w, pool, NULL);
    return exchange_ask(&ask, err);
}

dibs_status dibs_pool_remove(dibs *handle, const char *name, dibs_err *err)
{
    NEED(handle, name, DIBS_OK, err);
    if (!handle->to->remote)
        return core_pool_remove(CORE(handle), name, err);
    /* Send once: a repeated request would return NOT_FOUND. */
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "DELETE", EXCHANGE_ONCE);
    wire_pool_path(&ask.target, name, "");
    return exchange_ask(&ask, err);
}

dibs_status dibs_pool_list(dibs *handle, dibs_pool_fn fn, void *ctx, dibs_err *err)
{
    NEED(handle, fn, DIBS_OK, err);
    AUTO(verb_called_back) struct connection *to = verb_calls_back(handle);
    if (!to->remote)
        return core_pool_list(CORE(handle), fn, ctx, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(to->remote, "GET", EXCHANGE_TWICE);
    bytes_add_text(&ask.target, "/v1/pools");
    wire_settings_param(&ask.target, &to->settings);
    return EXCHANGE_ASK_EACH(&ask, &pools, dibs_pool, fn, ctx, err);
}

dibs_status dibs_pool_usage_of(dibs *handle, const char *name, dibs_pool_usage *out, dibs_err *err)
{
    NEED(handle, name && out, DIBS_OK, err);
    if (!handle->to->remote)
        return core_pool_usage(CORE(handle), name, out, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "GET", EXCHANGE_TWICE);
    wire_pool_path(&ask.target, name, "/usage");
    wire_settings_param(&ask.target, &handle->to->settings);
    return exchange_ask_value(&ask, &usages, out, err);
}

const char *dibs_order_name(size_t i)
{
    const struct order *order = order_at(i);

    return order ? order->name : NULL;
}

/* ---- ports ---- */

dibs_status dibs_port_explain(dibs *handle, const dibs_port_question *question, dibs_port_report *out,
                              dibs_err *err)
{
    NEED(handle, out && question && (question->bindings || question->n == 0),
         args_bindings(question->bindings, question->n, err), err);
    if (handle->to->remote) {
        AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "GET", EXCHANGE_TWICE);

        wire_question_path(&ask.target, question);
        wire_settings_param(&ask.target, &handle->to->settings);
        return exchange_ask_value(&ask, &reports, out, err);
    }
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report);
    if (!report)
        return err_set(err, DIBS_FAILURE, "explaining: out of memory");
    dibs_status s = core_explain(CORE(handle), question, report, err);
    if (s == DIBS_OK)
        *out = *report;
    return s;
}

dibs_status dibs_claim_assert(dibs *handle, const dibs_which *which, dibs_socket *out, dibs_err *err)
{
    NEED(handle, which && out, args_proto(which->proto, err), err);
    if (!handle->to->remote)
        return core_assert(CORE(handle), which, out, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "GET", EXCHANGE_TWICE);
    wire_which_path(&ask.target, which, "/assert");
    return exchange_ask_value(&ask, &sockets, out, err);
}

/* ---- maintenance ---- */

static dibs_status reap_there(struct remote *r, struct core_reaping *reaping, dibs_err *err)
{
    AUTO(exchange_done) struct exchange ask = exchange_begin(r, "POST", EXCHANGE_ONCE);
    AUTO(free_auto) dibs_claim *claims = NULL;

    exchange_be_patient(&ask);
    bytes_add_text(&ask.target, "/v1/reap");
    struct jsonw w = exchange_body(&ask);
    jsonw_object(&w);
    jsonw_key_bool(&w, "stale", reaping->flags & DIBS_REAP_STALE);
    jsonw_key_bool(&w, "dry_run", reaping->flags & DIBS_REAP_DRY_RUN);
    jsonw_end_object(&w);
    dibs_status s = exchange_ask_list(&ask, &remote_claims, &claims, &reaping->n, err);
    for (size_t i = 0; i < reaping->n && reaping->fn && reaping->fn(reaping->ctx, &claims[i]); i++)
        ;
    return s;
}

dibs_status dibs_reap(dibs *handle, unsigned flags, dibs_claim_fn fn, void *ctx, size_t *n, dibs_err *err)
{
    NEED(handle, true, args_flags(flags, DIBS_REAP_STALE | DIBS_REAP_DRY_RUN, err), err);
    struct core_reaping r = { flags, fn, ctx, 0 };
    AUTO(verb_called_back) struct connection *to = verb_calls_back(handle);
    dibs_status s = to->remote ? reap_there(to->remote, &r, err) : core_reap(CORE(handle), &r, err);
    if (s == DIBS_OK && n)
        *n = r.n;
    return s;
}

dibs_status dibs_repair(dibs *handle, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                        dibs_err *err)
{
    NEED(handle, plan && fn, args_repair(plan, err), err);
    AUTO(verb_called_back) struct connection *to = verb_calls_back(handle);
    if (!to->remote)
        return core_repair(CORE(handle), plan, fn, ctx, err);
    /* Send once: it counts sightings. */
    AUTO(exchange_done) struct exchange ask = exchange_begin(to->remote, "POST", EXCHANGE_ONCE);
    dibs_repair_plan sent = *plan;

    exchange_be_patient(&ask);
    bytes_add_text(&ask.target, "/v1/repair");
    if (!sent.pool && to->settings.source[DIBS_SET_POOL] != DIBS_FROM_DEFAULT)
        sent.pool = to->settings.pool;
    struct jsonw w = exchange_body(&ask);
    wire_repair_plan(&w, &sent);
    return EXCHANGE_ASK_EACH(&ask, &repair_items, dibs_repair_item, fn, ctx, err);
}

/* ---- snapshots ---- */

dibs_status dibs_snapshot_export(dibs *handle, const char *pool, char range[DIBS_RANGES_TEXT_MAX + 1],
                                 uint8_t *bytes, size_t *n, dibs_err *err)
{
    NEED(handle, range && bytes && n, DIBS_OK, err);
    if (!handle->to->remote)
        return core_snapshot_export(CORE(handle), pool, &(struct core_range_export){ range, bytes, n }, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "GET", EXCHANGE_TWICE);
    AUTO(free_auto) uint8_t *found = malloc(WIRE_RANGE_BYTES_MAX);
    dibs_range_snapshot snapshot = { 0 };

    if (!found)
        return err_set(err, DIBS_FAILURE, "exporting: out of memory");
    wire_pool_path(&ask.target, pool ? pool : handle->to->settings.pool, "/snapshot");
    wire_settings_param(&ask.target, &handle->to->settings);
    dibs_status s = exchange_ask(&ask, err);
    if (s != DIBS_OK)
        return s;
    if (wire_range_read(exchange_root(&ask), found, &snapshot, err) != DIBS_OK ||
        strlen(snapshot.range) > DIBS_RANGES_TEXT_MAX)
        return exchange_not_understood(&ask, err);
    (void) text_copy(range, DIBS_RANGES_TEXT_MAX + 1, snapshot.range);
    memcpy(bytes, found, snapshot.n);
    *n = snapshot.n;
    return DIBS_OK;
}

dibs_status dibs_snapshot_import(dibs *handle, const char *pool, const dibs_range_snapshot *snapshot,
                                 size_t *n_claimed, dibs_err *err)
{
    NEED(handle, snapshot && snapshot->range && (snapshot->bytes || snapshot->n == 0), DIBS_OK, err);
    if (!handle->to->remote)
        return core_snapshot_import(CORE(handle), pool, snapshot, n_claimed, err);
    if (snapshot->n > WIRE_RANGE_BYTES_MAX)
        return err_set(err, DIBS_INVALID, "a range snapshot has at most %d bytes", WIRE_RANGE_BYTES_MAX);
    /* Send once: a repeated request would conflict with its own claims. */
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "PUT", EXCHANGE_ONCE);
    exchange_be_patient(&ask);
    wire_pool_path(&ask.target, pool ? pool : handle->to->settings.pool, "/snapshot");
    struct jsonw w = exchange_body(&ask);
    jsonw_object(&w);
    wire_range_members(&w, snapshot);
    jsonw_end_object(&w);
    return exchange_ask_count(&ask, "claimed", n_claimed, err);
}

dibs_status dibs_claim_restore(dibs *handle, const dibs_snapshot *snapshot, size_t *n_restored, dibs_err *err)
{
    NEED(handle,
         snapshot && (snapshot->claims || snapshot->n == 0) && (snapshot->pools || snapshot->n_pools == 0),
         args_snapshot(snapshot, err), err);
    if (!handle->to->remote)
        return core_restore(CORE(handle), snapshot, n_restored, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "POST", EXCHANGE_ONCE);
    exchange_be_patient(&ask);
    bytes_add_text(&ask.target, "/v1/restore");
    struct jsonw w = exchange_body(&ask);
    wire_snapshot(&w, snapshot);
    return exchange_ask_count(&ask, "restored", n_restored, err);
}
