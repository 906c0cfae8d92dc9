/* SPDX-License-Identifier: MIT */
/* The table of all routes; /openapi.json describes the same. */
#include <string.h>

#include "daemon/api/internal.h"

#include "base/banned.h"

#define WHICH "name project port proto"

static dibs_status health(struct api_request *request, dibs_err *err)
{
    (void) err;
    request->type = "text/plain";
    bytes_add_text(&request->out, "ok\n");
    return DIBS_OK;
}

static dibs_status ready(struct api_request *request, dibs_err *err)
{
    const char *says = "ready";

    /* Callers over TCP do not see err->msg, which names the ledger's path. */
    if (request->api->is_draining)
        says = "stopping";
    else if (group_commit_check(request->api->options.engine->group, err) != DIBS_OK)
        says = request->caller->listener == CALLER_TCP ? "the ledger cannot be used" : err->msg;
    request->type = "text/plain";
    request->status = strcmp(says, "ready") == 0 ? 200 : 503;
    bytes_add_text(&request->out, says);
    bytes_add_text(&request->out, "\n");
    return DIBS_OK;
}

/* Answer at once, outside of a group: a scrape must succeed also while no commit does. */
static dibs_status metrics(struct api_request *request, dibs_err *err)
{
    (void) err;
    request->type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_write(request->api->options.metrics, http_connections(request->api->server), &request->out);
    return DIBS_OK;
}

static dibs_status openapi(struct api_request *request, dibs_err *err)
{
    (void) err;
    bytes_add(&request->out, openapi_json, openapi_json_size);
    return DIBS_OK;
}

const struct api_route api_routes[] = {
    { { "POST", "/v1/claims", "", 0 }, api_claim, api_read_claim },
    { { "GET", "/v1/claims", "prefix pool principal port proto project judge after limit wait", API_PAGE },
      api_list,
      api_read_wait },
    { { "POST", "/v1/batch", "", 0 }, api_batch, api_read_batch },
    { { "GET", "/v1/claims/{which}", WHICH, API_PAGE }, api_find, api_read_which },
    { { "DELETE", "/v1/claims/{which}", WHICH " all force unhold unkeep dry_run", API_PAGE },
      api_release,
      api_read_which },
    { { "POST", "/v1/claims/{which}/renew", WHICH, API_PAGE }, api_renew, api_read_change },
    { { "POST", "/v1/claims/{which}/transfer", WHICH, 0 }, api_transfer, api_read_change },
    { { "GET", "/v1/claims/{which}/assert", WHICH, API_PAGE }, api_assert, api_read_which },
    { { "GET", "/v1/names", "name project", API_PAGE }, api_locate, NULL },
    { { "GET", "/v1/events", "since limit newest wait", API_PAGE }, api_events, api_read_events },
    { { "GET", "/v1/nodes", "", API_PAGE }, api_nodes, NULL },
    { { "DELETE", "/v1/nodes/{name}", "force", API_ALONE }, api_node_remove, NULL },
    { { "POST", "/v1/nodes/-/claims", "host*", API_ALONE }, api_claim_on_nodes, api_read_claim },
    { { "DELETE", "/v1/nodes/-/claims", "host* name project", API_ALONE }, api_release_on_nodes, NULL },
    { { "GET", "/v1/pools", "settings", API_PAGE }, api_pools, api_read_settings },
    { { "GET", "/v1/pools/{name}", "settings", API_PAGE }, api_pool, api_read_settings },
    { { "PUT", "/v1/pools/{name}", "", 0 }, api_pool_put, api_read_json },
    { { "DELETE", "/v1/pools/{name}", "", 0 }, api_pool_remove, NULL },
    { { "GET", "/v1/pools/{name}/usage", "settings", API_PAGE }, api_pool_usage, api_read_settings },
    { { "GET", "/v1/pools/{name}/snapshot", "settings", API_PAGE }, api_pool_export, api_read_settings },
    { { "PUT", "/v1/pools/{name}/snapshot", "", API_ALONE }, api_pool_import, api_read_json },
    { { "GET", "/v1/ports/{proto}/{port}", "pool address* with binding* settings", API_PAGE },
      api_explain,
      api_read_settings },
    { { "GET", "/v1/map", "proto", API_PAGE }, api_map, api_read_map },
    { { "POST", "/v1/numbers", "", 0 }, api_numbers, api_read_json },
    { { "POST", "/v1/reap", "", API_ALONE }, api_reap, api_read_json },
    { { "POST", "/v1/repair", "", API_ALONE }, api_repair, NULL },
    { { "POST", "/v1/restore", "", API_ALONE }, api_restore, api_read_json },
    { { "GET", "/v1/daemon", "", API_PAGE }, api_daemon, NULL },
    { { "GET", "/v1/doctor", "", API_ALONE | API_PAGE }, api_doctor, NULL },
    { { "POST", "/v1/doctor", "", API_ALONE }, api_doctor_fix, NULL },
    { { "POST", "/v1/ui", "", 0 }, NULL, api_ui },
    { { "GET", "/metrics", "", 0 }, NULL, metrics },
    { { "GET", "/openapi.json", "", API_PUBLIC }, NULL, openapi },
    { { "GET", "/healthz", "", API_PUBLIC }, NULL, health },
    { { "GET", "/readyz", "", API_PUBLIC }, NULL, ready },
};
const struct router api_router = ROUTER_OF(api_routes);
