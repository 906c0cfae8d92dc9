/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "daemon/api/internal.h"

#include "base/banned.h"

static bool write_node(void *ctx, const dibs_node *node)
{
    wire_node(ctx, node);
    return true;
}

dibs_status api_nodes(struct api_request *request, dibs *handle, dibs_err *err)
{
    api_begin_list(request, "nodes");
    dibs_status s = dibs_node_list(handle, write_node, &request->w, err);
    api_end_list(request);
    return s;
}

/* Read the hosts that the request names; only administrators may act for other hosts. */
static dibs_status hosts_of(struct api_request *request, const char *hosts[DIBS_HOSTS_MAX], size_t *n,
                            dibs_err *err)
{
    const char *host = NULL;

    if (!request->caller->call.is_admin)
        return err_set(err, DIBS_DENIED, "only an administrator claims and releases on other hosts");
    for (*n = 0; (host = http_query(request->r, "host", *n)); hosts[(*n)++] = host)
        if (*n == DIBS_HOSTS_MAX)
            return err_set(err, DIBS_INVALID, "1 to %d hosts can be named at once", DIBS_HOSTS_MAX);
    return DIBS_OK;
}

dibs_status api_claim_on_nodes(struct api_request *request, dibs *handle, dibs_err *err)
{
    const char *hosts[DIBS_HOSTS_MAX] = { 0 };
    AUTO(free_auto) dibs_claim *claims = calloc(DIBS_HOSTS_MAX, sizeof *claims);
    size_t n = 0;
    dibs_status s = claims ? hosts_of(request, hosts, &n, err) : err_set(err, DIBS_FAILURE, "out of memory");

    if (s == DIBS_OK)
        s = dibs_claim_on_hosts(handle, request->body.batch.requests, hosts, n, claims, err);
    if (s == DIBS_OK)
        api_write_claims(request, claims, n);
    return s;
}

dibs_status api_release_on_nodes(struct api_request *request, dibs *handle, dibs_err *err)
{
    const char *hosts[DIBS_HOSTS_MAX] = { 0 };
    dibs_which which;
    size_t n_hosts = 0;
    size_t n = 0;
    dibs_status s = hosts_of(request, hosts, &n_hosts, err);

    if (s == DIBS_OK)
        s = wire_which_read("-", &request->params, &which, err);
    if (s == DIBS_OK)
        s = dibs_release_on_hosts(handle, &which, hosts, n_hosts, &n, err);
    return api_write_count(request, s, "released", n);
}

dibs_status api_node_remove(struct api_request *request, dibs *handle, dibs_err *err)
{
    bool is_forced = false;
    size_t n = 0;
    dibs_status s = wire_flag_read(&request->params, "force", &is_forced, err);

    if (s == DIBS_OK)
        s = dibs_node_remove(handle, request->match.part[0], is_forced ? DIBS_NODE_FORCE : 0, &n, err);
    return api_write_count(request, s, "ended", n);
}
