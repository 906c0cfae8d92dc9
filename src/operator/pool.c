/* SPDX-License-Identifier: MIT */
#include "operator/pool.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "lib/handle.h"

#include "base/banned.h"

enum { COOLDOWN_MS = 5000 };

static dibs_status number_of(const char *flag, const char *text, uint32_t otherwise, uint32_t *out,
                             dibs_err *err)
{
    uint64_t number = otherwise;

    if (text && (!text_number(text, strlen(text), DIBS_PORT_MAX, &number) || number == 0))
        return err_set(err, DIBS_INVALID, "--%s must be a number from 1 to %d", flag, DIBS_PORT_MAX);
    *out = (uint32_t) number;
    return DIBS_OK;
}

static bool is_order(const char *name)
{
    for (size_t i = 0; dibs_order_name(i); i++)
        if (strcmp(dibs_order_name(i), name) == 0)
            return true;
    return false;
}

dibs_status operator_pool_parse(const struct operator_pool_flags *flags, dibs_pool *out, dibs_err *err)
{
    dibs_pool pool = { .scope = DIBS_SCOPE_CLUSTER, .band = DIBS_BAND_AUTO, .cooldown_ms = COOLDOWN_MS };
    const char *strategy = flags->strategy ? flags->strategy : "stride";
    uint32_t first = 0;
    uint32_t n = 0;
    char shown[64];
    dibs_status s = number_of("start-port", flags->start_port, OPERATOR_START_PORT, &first, err);

    if (s == DIBS_OK)
        s = number_of("port-range", flags->port_range, OPERATOR_PORT_RANGE, &n, err);
    if (s != DIBS_OK)
        return s;
    if (first + n - 1 > DIBS_PORT_MAX)
        return err_set(err, DIBS_INVALID, "--start-port %u and --port-range %u, a size, go to %u: beyond %d",
                       first, n, first + n - 1, DIBS_PORT_MAX);
    if (!is_order(strategy))
        return err_set(err, DIBS_INVALID, "unsupported port allocator strategy: %s",
                       text_safe(strategy, shown, sizeof shown));
    pool.ranges = (dibs_ranges){ .item = { { (uint16_t) first, (uint16_t) (first + n - 1) } }, .n = 1 };
    (void) text_copy(pool.order, sizeof pool.order, strategy);
    if (!text_copy(pool.name, sizeof pool.name, flags->name ? flags->name : OPERATOR_POOL))
        return err_set(err, DIBS_INVALID, "--pool has at most %d bytes", DIBS_POOL_NAME_MAX);
    *out = pool;
    return DIBS_OK;
}

static bool is_same(const dibs_pool *a, const dibs_pool *b)
{
    return a->ranges.n == b->ranges.n &&
           memcmp(a->ranges.item, b->ranges.item, a->ranges.n * sizeof a->ranges.item[0]) == 0 &&
           strcmp(a->order, b->order) == 0;
}

dibs_status operator_pool_open(dibs *handle, const dibs_pool *wanted, dibs_pool *out, bool *is_other,
                               dibs_err *err)
{
    dibs_pool pool = *wanted;
    dibs_pool found = { 0 };

    /* A ledger that is one host's own has no other hosts to share a pool with. */
    if (!ledger_is_shared(handle->core->ledger))
        pool.scope = DIBS_SCOPE_HOST;
    dibs_status s = dibs_pool_get(handle, pool.name, &found, err);
    if (s == DIBS_NOT_FOUND) {
        s = dibs_pool_put(handle, &pool, err);
        found = pool;
    }
    if (s != DIBS_OK)
        return err_wrap(err, s, "the pool '%s'", pool.name);
    if (is_other)
        *is_other = !is_same(&found, &pool);
    *out = found;
    return DIBS_OK;
}

static void mark_name(const char *pool, char out[DIBS_POOL_NAME_MAX + 1])
{
    (void) snprintf(out, DIBS_POOL_NAME_MAX + 1, "%.54s-rebuilt", pool);
}

dibs_status operator_mark_rebuilt(dibs *handle, const char *pool, dibs_err *err)
{
    dibs_pool mark = { .scope = DIBS_SCOPE_HOST, .band = 0, .order = "stride" };
    dibs_pool found;

    mark_name(pool, mark.name);
    mark.ranges.item[0] = (dibs_range){ 1, 1 };
    mark.ranges.n = 1;
    if (dibs_pool_get(handle, mark.name, &found, NULL) == DIBS_OK)
        return DIBS_OK;
    return dibs_pool_put(handle, &mark, err);
}

dibs_status operator_check_rebuilt(dibs *handle, const char *pool, dibs_err *err)
{
    char name[DIBS_POOL_NAME_MAX + 1];
    dibs_pool found;

    mark_name(pool, name);
    dibs_status s = dibs_pool_get(handle, name, &found, err);
    return s == DIBS_NOT_FOUND
               ? err_trouble(err, DIBS_TROUBLE_NONE,
                             "no controller has written into the ledger yet what pods have; is one running?")
               : s;
}
