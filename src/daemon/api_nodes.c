/* SPDX-License-Identifier: MIT */
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
