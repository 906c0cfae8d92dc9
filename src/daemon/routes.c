/* SPDX-License-Identifier: MIT */
/* Every route in one table; /openapi.json describes the same. */
#include <string.h>

#include "daemon/api_parts.h"

#include "base/banned.h"

#define WHICH "name project port proto"

dibs_status api_health(struct ask *ask, dibs_err *err)
{
    (void) err;
    ask->type = "text/plain";
    bytes_add_text(&ask->out, "ok\n");
    return DIBS_OK;
}

dibs_status api_ready(struct ask *ask, dibs_err *err)
{
    const char *says = "ready";

    if (ask->api->is_draining)
        says = "stopping";
    else if (engine_check(ask->api->options.engine, err) != DIBS_OK) /* strangers need not know where it is */
        says = ask->caller->door == CALLER_TCP ? "the ledger cannot be used" : err->msg;
    ask->type = "text/plain";
    ask->status = strcmp(says, "ready") == 0 ? 200 : 503;
    bytes_add_text(&ask->out, says);
    bytes_add_text(&ask->out, "\n");
    return DIBS_OK;
}

/* At once, not with a group: who measures must be answered also while no commit succeeds. */
dibs_status api_metrics(struct ask *ask, dibs_err *err)
{
    (void) err;
    ask->type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_write(ask->api->options.metrics, api_connections(ask->api), &ask->out);
    return DIBS_OK;
}

dibs_status api_openapi(struct ask *ask, dibs_err *err)
{
    (void) err;
    bytes_add(&ask->out, openapi_json, openapi_json_size);
    return DIBS_OK;
}

const struct route api_routes[] = {
    { "POST", "/v1/claims", NULL, api_claim, api_read_claim, false, false },
    { "GET", "/v1/claims", "prefix pool principal port proto project judge after limit wait", api_list,
      api_read_wait, false, false },
    { "POST", "/v1/batch", NULL, api_batch, api_read_batch, false, false },
    { "GET", "/v1/claims/{which}", WHICH, api_find, NULL, false, false },
    { "DELETE", "/v1/claims/{which}", WHICH " all force unhold unkeep dry_run", api_release, NULL, false,
      false },
    { "POST", "/v1/claims/{which}/renew", WHICH, api_renew, NULL, false, false },
    { "POST", "/v1/claims/{which}/transfer", WHICH, api_transfer, NULL, false, false },
    { "GET", "/v1/claims/{which}/assert", WHICH, api_assert, NULL, false, false },
    { "GET", "/v1/names", "name project", api_locate, NULL, false, false },
    { "GET", "/v1/events", "since limit newest wait", api_events, api_read_events, false, false },
    { "GET", "/v1/nodes", NULL, api_nodes, NULL, false, false },
    { "DELETE", "/v1/nodes/{name}", "force", api_node_remove, NULL, true, false },
    { "POST", "/v1/nodes/-/claims", "host", api_claim_on_nodes, api_read_claim, true, false },
    { "DELETE", "/v1/nodes/-/claims", "host name project", api_release_on_nodes, NULL, true, false },
    { "GET", "/v1/pools", "settings", api_pools, api_read_settings, false, false },
    { "GET", "/v1/pools/{name}", "settings", api_pool, api_read_settings, false, false },
    { "PUT", "/v1/pools/{name}", NULL, api_pool_put, NULL, false, false },
    { "DELETE", "/v1/pools/{name}", NULL, api_pool_remove, NULL, false, false },
    { "GET", "/v1/pools/{name}/usage", "settings", api_pool_usage, api_read_settings, false, false },
    { "GET", "/v1/pools/{name}/snapshot", "settings", api_pool_export, api_read_settings, false, false },
    { "PUT", "/v1/pools/{name}/snapshot", NULL, api_pool_import, NULL, true, false },
    { "GET", "/v1/ports/{proto}/{port}", "pool address with binding settings", api_explain, api_read_settings,
      false, false },
    { "POST", "/v1/reap", NULL, api_reap, NULL, true, false },
    { "POST", "/v1/repair", NULL, api_repair, NULL, true, false },
    { "POST", "/v1/restore", NULL, api_restore, NULL, true, false },
    { "GET", "/v1/daemon", NULL, api_daemon, NULL, false, false },
    { "GET", "/v1/doctor", NULL, api_doctor, NULL, true, false },
    { "POST", "/v1/doctor", NULL, api_doctor_fix, NULL, true, false },
    { "GET", "/metrics", NULL, NULL, api_metrics, false, false },
    { "GET", "/openapi.json", NULL, NULL, api_openapi, false, true },
    { "GET", "/healthz", NULL, NULL, api_health, false, true },
    { "GET", "/readyz", NULL, NULL, api_ready, false, true },
    { NULL, NULL, NULL, NULL, NULL, false, false },
};
