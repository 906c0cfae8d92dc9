/* SPDX-License-Identifier: MIT */
/* Routes of pools. */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "daemon/api_parts.h"

#include "base/banned.h"

DEFINE_AUTO(json_doc, json_free)

static bool write_pool(void *ctx, const dibs_pool *pool)
{
    wire_pool(ctx, pool, NULL);
    return true;
}

dibs_status api_pools(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct json_writer w;

    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key(&w, "pools");
    json_array(&w);
    dibs_status s = dibs_pool_list(handle, write_pool, &w, err);
    json_end_array(&w);
    json_end_object(&w);
    return s;
}

dibs_status api_pool(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct json_writer w;
    dibs_pool pool;
    dibs_status s = dibs_pool_get(handle, ask->part[0], &pool, err);

    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    wire_pool(&w, &pool, NULL);
    return DIBS_OK;
}

dibs_status api_pool_put(struct ask *ask, dibs *handle, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct json_writer w;
    dibs_pool pool;
    dibs_status s = api_json(ask, &doc, err);

    if (s == DIBS_OK)
        s = wire_pool_read(json_root(doc), WIRE_ASKED, &pool, err);
    if (s == DIBS_OK && strcmp(pool.name, ask->part[0]) != 0)
        return err_set(err, DIBS_INVALID, "the pool is called '%s' in the path and '%s' in the body",
                       ask->part[0], pool.name);
    if (s == DIBS_OK)
        s = dibs_pool_put(handle, &pool, err);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    wire_pool(&w, &pool, NULL);
    return DIBS_OK;
}

dibs_status api_pool_remove(struct ask *ask, dibs *handle, dibs_err *err)
{
    dibs_status s = dibs_pool_remove(handle, ask->part[0], err);

    if (s == DIBS_OK)
        bytes_add_text(&ask->out, "{}");
    return s;
}

dibs_status api_pool_usage(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct json_writer w;
    dibs_pool_usage usage;
    dibs_status s = dibs_pool_usage_of(handle, ask->part[0], &usage, err);

    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    wire_usage(&w, &usage);
    return DIBS_OK;
}

dibs_status api_pool_export(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct json_writer w;
    char range[DIBS_RANGES_TEXT_MAX + 1];
    uint8_t bytes[WIRE_RANGE_BYTES_MAX];
    size_t n = sizeof bytes;
    dibs_status s = dibs_snapshot_export(handle, ask->part[0], range, bytes, &n, err);

    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    wire_range_members(&w, &(dibs_range_snapshot){ range, bytes, n });
    json_end_object(&w);
    return DIBS_OK;
}

static size_t count_bits(const dibs_range_snapshot *snapshot)
{
    size_t n = 0;

    for (size_t i = 0; i < snapshot->n; i++)
        n += (size_t) __builtin_popcount(snapshot->bytes[i]);
    return n;
}

dibs_status api_pool_import(struct ask *ask, dibs *handle, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct json_writer w;
    uint8_t bytes[WIRE_RANGE_BYTES_MAX];
    dibs_range_snapshot snapshot = { 0 };
    size_t n = 0;
    dibs_status s = api_json(ask, &doc, err);

    if (s == DIBS_OK)
        s = wire_range_read(json_root(doc), bytes, &snapshot, err);
    if (s == DIBS_OK) {
        api_charge(ask, count_bits(&snapshot));
        s = dibs_snapshot_import(handle, ask->part[0], &snapshot, &n, err);
    }
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key_uint(&w, "claimed", n);
    json_end_object(&w);
    return DIBS_OK;
}
