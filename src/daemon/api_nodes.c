/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "daemon/api_parts.h"

#include "base/banned.h"

static bool write_node(void *ctx, const dibs_node *node)
{
    wire_node(ctx, node);
    return true;
}

dibs_status api_nodes(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct json_writer w;

    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key(&w, "nodes");
    json_array(&w);
    dibs_status s = dibs_node_list(handle, write_node, &w, err);
    json_end_array(&w);
    json_end_object(&w);
    return s;
}

/* The hosts that are named; only administrators speak for others. */
static dibs_status hosts_of(struct ask *ask, const char *hosts[DIBS_HOSTS_MAX], size_t *n, dibs_err *err)
{
    const char *host = NULL;

    if (!ask->caller->who.is_admin)
        return err_set(err, DIBS_DENIED, "only an administrator claims and releases on other hosts");
    for (*n = 0; (host = http_query(ask->r, "host", *n)); hosts[(*n)++] = host)
        if (*n == DIBS_HOSTS_MAX)
            return err_set(err, DIBS_INVALID, "1 to %d hosts can be named at once", DIBS_HOSTS_MAX);
    return DIBS_OK;
}

dibs_status api_claim_on_nodes(struct ask *ask, dibs *handle, dibs_err *err)
{
    const char *hosts[DIBS_HOSTS_MAX] = { 0 };
    AUTO(free_auto) dibs_claim *claims = calloc(DIBS_HOSTS_MAX, sizeof *claims);
    size_t n = 0;
    dibs_status s = claims ? hosts_of(ask, hosts, &n, err) : err_set(err, DIBS_FAILURE, "out of memory");

    if (s == DIBS_OK)
        s = dibs_claim_on_hosts(handle, ask->asked.batch.requests, hosts, n, claims, err);
    if (s == DIBS_OK)
        api_write_claims(ask, claims, n);
    return s;
}

dibs_status api_release_on_nodes(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct wire_params params = api_params(ask);
    const char *hosts[DIBS_HOSTS_MAX] = { 0 };
    struct json_writer w;
    dibs_which which;
    size_t n_hosts = 0;
    size_t n = 0;
    dibs_status s = hosts_of(ask, hosts, &n_hosts, err);

    if (s == DIBS_OK)
        s = wire_which_read("-", &params, &which, err);
    if (s == DIBS_OK)
        s = dibs_release_on_hosts(handle, &which, hosts, n_hosts, &n, err);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key_uint(&w, "released", n);
    json_end_object(&w);
    return DIBS_OK;
}

dibs_status api_node_remove(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct wire_params params = api_params(ask);
    struct json_writer w;
    bool is_forced = false;
    size_t n = 0;
    dibs_status s = wire_flag_read(&params, "force", &is_forced, err);

    if (s == DIBS_OK)
        s = dibs_node_remove(handle, ask->part[0], is_forced ? DIBS_NODE_FORCE : 0, &n, err);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key_uint(&w, "ended", n);
    json_end_object(&w);
    return DIBS_OK;
}
