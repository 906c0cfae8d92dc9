/* SPDX-License-Identifier: MIT */
#include "kube/pool.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "core/order.h"
#include "ledger/ledger.h"

#include "base/banned.h"

static dibs_status number_of(const char *flag, const char *text, uint32_t otherwise, uint32_t *out,
                             dibs_err *err)
{
    uint64_t number = otherwise;

    if (text && (!text_number(text, strlen(text), DIBS_PORT_MAX, &number) || number == 0))
        return err_set(err, DIBS_INVALID, "--%s must be a number from 1 to %d", flag, DIBS_PORT_MAX);
    *out = (uint32_t) number;
    return DIBS_OK;
}

dibs_status kube_pool_parse(const struct kube_pool_flags *flags, dibs_pool *out, dibs_err *err)
{
    dibs_pool pool = { .scope = DIBS_SCOPE_CLUSTER,
                       .band = DIBS_BAND_AUTO,
                       .cooldown_ms = DIBS_COOLDOWN_DEFAULT_MS };
    const char *strategy = flags->strategy ? flags->strategy : "stride";
    uint32_t first = 0;
    uint32_t n = 0;
    dibs_status s = number_of("start-port", flags->start_port, KUBE_START_PORT, &first, err);

    if (s == DIBS_OK)
        s = number_of("port-range", flags->port_range, KUBE_PORT_RANGE, &n, err);
    if (s != DIBS_OK)
        return s;
    if (first + n - 1 > DIBS_PORT_MAX)
        return err_set(err, DIBS_INVALID, "--start-port %u and --port-range %u, a size, go to %u: beyond %d",
                       first, n, first + n - 1, DIBS_PORT_MAX);
    if (!order_find(strategy))
        return err_set(err, DIBS_INVALID, "unsupported port allocator strategy: %.64s", strategy);
    pool.ranges = (dibs_ranges){ .item = { { (uint16_t) first, (uint16_t) (first + n - 1) } }, .n = 1 };
    (void) text_copy(pool.order, sizeof pool.order, strategy);
    if (!text_copy(pool.name, sizeof pool.name, flags->name ? flags->name : KUBE_POOL))
        return err_set(err, DIBS_INVALID, "--pool has at most %d bytes", DIBS_POOL_NAME_MAX);
    *out = pool;
    return DIBS_OK;
}

dibs_status kube_pool_open(dibs *handle, bool is_shared, const dibs_pool *wanted, dibs_pool *out,
                           dibs_err *err)
{
    dibs_pool pool = *wanted;
    dibs_pool found = { 0 };

    pool.is_rebuilt = false;
    /* A ledger of one host has no other hosts to share a pool with. */
    if (!is_shared)
        pool.scope = DIBS_SCOPE_HOST;
    dibs_status s = dibs_pool_get(handle, pool.name, &found, err);
    if (s == DIBS_NOT_FOUND) {
        s = dibs_pool_put(handle, &pool, err);
        found = pool;
    }
    if (s != DIBS_OK)
        return err_wrap(err, s, "the pool '%s'", pool.name);
    *out = found;
    return DIBS_OK;
}

static void on_notice(loop_source *source, uint32_t events)
{
    struct kube_ledger *l = (struct kube_ledger *) ((char *) source - offsetof(struct kube_ledger, notices));

    (void) events;
    (void) ledger_take_notices(l->server.ledger);
    l->is_changed = true;
}

/* Count the ports of the pool that dynamic choice leaves out on this host: ephemeral, reserved, browsers'. */
static uint32_t count_withheld(struct kube_ledger *l, const dibs_pool *pool)
{
    const struct call call = handle_call(l->server.handle);
    struct portbits ports = { 0 };

    portbits_add_ranges(&ports, &pool->ranges);
    core_withhold(l->server.core, &call, true, &ports);
    return dibs_ranges_count(&pool->ranges) - portbits_count(&ports);
}

/* Refuse to start with options that the stored pool contradicts: the replica would use other ports. */
static dibs_status check_flags(struct kube_ledger *l, const struct kube_ledger_options *options,
                               dibs_err *err)
{
    const struct kube_pool_flags *flags = options->flags;
    const dibs_pool *asked = &options->pool;
    const dibs_pool *has = &l->pool;
    char asked_ports[DIBS_RANGES_TEXT_MAX + 1];
    char ports[DIBS_RANGES_TEXT_MAX + 1];

    dibs_ranges_format(&asked->ranges, asked_ports);
    dibs_ranges_format(&has->ranges, ports);
    bool has_other_ports = (flags->start_port || flags->port_range) && strcmp(ports, asked_ports) != 0;
    bool has_other_order = flags->strategy && strcmp(has->order, asked->order) != 0;
    if (!has_other_ports && !has_other_order)
        return DIBS_OK;
    return err_set(err, DIBS_INVALID,
                   "pool '%s' has ports %.150s (%u of them withheld here) and order %s, the options ask for "
                   "%.150s (%u withheld) and %s: leave out --start-port, --port-range and --strategy, or "
                   "'dibs pool set %s --ranges %.150s --order %s'",
                   has->name, ports, count_withheld(l, has), has->order, asked_ports,
                   count_withheld(l, asked), asked->order, has->name, asked_ports, asked->order);
}

dibs_status kube_ledger_serve(struct kube_ledger *l, const struct installation *installation,
                              const char *cluster, dibs_err *err)
{
    const struct call call = handle_call(&l->acting);
    struct fact_record fact = { 0 };

    _Static_assert(sizeof fact.installation == sizeof installation->id, "an id fits into a fact");
    (void) text_copy(fact.installation, sizeof fact.installation, installation->id);
    (void) text_copy(fact.cluster, sizeof fact.cluster, cluster);
    return ledger_serve(l->server.ledger, &call, &fact, err);
}

dibs_status kube_ledger_open(struct kube_ledger *l, const struct kube_ledger_options *options, dibs_err *err)
{
    int64_t said_ms = options->settings->timeout_ms;
    int64_t call_ms = said_ms < options->call_max_ms ? said_ms : options->call_max_ms;
    char part[SERVER_PART_MAX];

    *l = (struct kube_ledger){ .loop = options->loop, .notices = { -1, on_notice } };
    server_part(options->kind, options->listen, part);
    dibs_status s = server_ledger_open(options->settings, call_ms, part, false, &l->server, err);
    if (s == DIBS_OK)
        s = handle_for(l->server.handle, options->principal, &l->acting, err);
    if (s == DIBS_OK)
        s = kube_ledger_serve(l, options->installation, "", err);
    if (s == DIBS_OK)
        s = kube_pool_open(&l->acting, ledger_is_shared(l->server.ledger), &options->pool, &l->pool, err);
    if (s == DIBS_OK)
        s = check_flags(l, options, err);
    if (s != DIBS_OK)
        return s;
    l->notices.fd = ledger_notices(l->server.ledger);
    return l->notices.fd >= 0 ? loop_add(l->loop, &l->notices, EPOLLIN, err) : DIBS_OK;
}

void kube_ledger_close(struct kube_ledger *l)
{
    if (l->server.handle && l->notices.fd >= 0)
        loop_remove(l->loop, &l->notices);
    dibs_close(l->server.handle);
    *l = (struct kube_ledger){ 0 };
}

dibs_status kube_ledger_renew_pool(struct kube_ledger *l, dibs_err *err)
{
    return kube_pool_open(&l->acting, ledger_is_shared(l->server.ledger), &l->pool, &l->pool, err);
}

dibs_status kube_mark_rebuilt(dibs *handle, const char *name, dibs_err *err)
{
    dibs_pool pool = { 0 };
    dibs_status s = dibs_pool_get(handle, name, &pool, err);

    if (s != DIBS_OK || pool.is_rebuilt)
        return s;
    pool.is_rebuilt = true;
    return dibs_pool_put(handle, &pool, err);
}

dibs_status kube_check_pool(dibs *handle, const char *name, bool needs_rebuilt, dibs_err *err)
{
    dibs_pool pool = { 0 };
    dibs_status s = dibs_pool_get(handle, name, &pool, err);

    if (needs_rebuilt && (s == DIBS_NOT_FOUND || (s == DIBS_OK && !pool.is_rebuilt)))
        return err_trouble(err, DIBS_TROUBLE_NONE,
                           "no controller has written into the ledger yet what pods have; is one running?");
    return s == DIBS_NOT_FOUND ? err_trouble(err, DIBS_TROUBLE_NONE,
                                             "the ledger has lost its data, and the pool '%s': a controller "
                                             "or a webhook that starts makes it again",
                                             name)
                               : s;
}
