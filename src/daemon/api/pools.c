/* SPDX-License-Identifier: MIT */
/* Routes for pools. */
#include <string.h>

#include "base/err.h"
#include "daemon/api/internal.h"

#include "base/banned.h"

static bool write_pool(void *ctx, const dibs_pool *pool)
{
    wire_pool(ctx, pool, NULL);
    return true;
}

dibs_status api_pools(struct api_request *request, dibs *handle, dibs_err *err)
{
    api_begin_list(request, "pools");
    dibs_status s = dibs_pool_list(handle, write_pool, &request->w, err);
    api_end_list(request);
    return s;
}

dibs_status api_pool(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_pool pool;
    dibs_status s = dibs_pool_get(handle, request->match.part[0], &pool, err);

    if (s == DIBS_OK)
        wire_pool(&request->w, &pool, NULL);
    return s;
}

dibs_status api_pool_put(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_pool pool;
    dibs_status s = wire_pool_read(jsonr_root(request->body.doc), WIRE_ASKED, &pool, err);

    if (s == DIBS_OK && strcmp(pool.name, request->match.part[0]) != 0)
        return err_set(err, DIBS_INVALID, "the pool is called '%s' in the path and '%s' in the body",
                       request->match.part[0], pool.name);
    if (s == DIBS_OK)
        s = dibs_pool_put(handle, &pool, err);
    if (s == DIBS_OK)
        wire_pool(&request->w, &pool, NULL);
    return s;
}

dibs_status api_pool_remove(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_status s = dibs_pool_remove(handle, request->match.part[0], err);

    if (s == DIBS_OK)
        bytes_add_text(&request->out, "{}");
    return s;
}

dibs_status api_pool_usage(struct api_request *request, dibs *handle, dibs_err *err)
{
    dibs_pool_usage usage;
    dibs_status s = dibs_pool_usage_of(handle, request->match.part[0], &usage, err);

    if (s == DIBS_OK)
        wire_usage(&request->w, &usage);
    return s;
}

dibs_status api_pool_export(struct api_request *request, dibs *handle, dibs_err *err)
{
    char range[DIBS_RANGES_TEXT_MAX + 1];
    uint8_t bytes[WIRE_RANGE_BYTES_MAX];
    size_t n = sizeof bytes;
    dibs_status s = dibs_snapshot_export(handle, request->match.part[0], range, bytes, &n, err);

    if (s != DIBS_OK)
        return s;
    jsonw_object(&request->w);
    wire_range_members(&request->w, &(dibs_range_snapshot){ range, bytes, n });
    jsonw_end_object(&request->w);
    return DIBS_OK;
}

static size_t count_bits(const dibs_range_snapshot *snapshot)
{
    size_t n = 0;

    for (size_t i = 0; i < snapshot->n; i++)
        n += (size_t) __builtin_popcount(snapshot->bytes[i]);
    return n;
}

dibs_status api_pool_import(struct api_request *request, dibs *handle, dibs_err *err)
{
    uint8_t bytes[WIRE_RANGE_BYTES_MAX];
    dibs_range_snapshot snapshot = { 0 };
    size_t n = 0;
    dibs_status s = wire_range_read(jsonr_root(request->body.doc), bytes, &snapshot, err);

    if (s == DIBS_OK) {
        api_charge(request, count_bits(&snapshot));
        s = dibs_snapshot_import(handle, request->match.part[0], &snapshot, &n, err);
    }
    return api_write_count(request, s, "claimed", n);
}
