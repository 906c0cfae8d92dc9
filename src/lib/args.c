/* SPDX-License-Identifier: MIT */
/* Checks the arguments of the public functions (declared in verb.h). */
#include "lib/verb.h"

#include <string.h>

#include "base/err.h"
#include "core/order.h"
#include "net/ranges.h"

#include "base/banned.h"

#define HAS_END(array) (memchr((array), '\0', sizeof(array)) != NULL)

static bool is_proto(dibs_proto proto)
{
    return proto >= DIBS_TCP && proto <= DIBS_PROTO_MAX;
}

static bool is_binding(const dibs_binding *b)
{
    return is_proto(b->proto) && (b->address.len == 4 || b->address.len == 16);
}

dibs_status args_bindings(const dibs_binding *bindings, size_t n, dibs_err *err)
{
    if (n > DIBS_BINDINGS_MAX)
        return err_set(err, DIBS_INVALID, "a claim has at most %d bindings", DIBS_BINDINGS_MAX);
    for (size_t i = 0; i < n; i++)
        if (!is_binding(&bindings[i]) || bindings[i].address.v6only)
            return err_set(err, DIBS_INVALID, "a binding has no valid protocol or address");
    return DIBS_OK;
}

dibs_status args_settings(const dibs_settings *s, dibs_err *err)
{
    const char *fault = NULL;

    if (!HAS_END(s->ledger) || !HAS_END(s->mru_file) || !HAS_END(s->socket) || !HAS_END(s->pool) ||
        !HAS_END(s->order) || !HAS_END(s->group) || !HAS_END(s->node))
        fault = "a text has no end";
    else if (!s->ledger[0] || !s->socket[0] || !s->pool[0])
        fault = "ledger, socket or pool is empty";
    else if (s->ledger_mode < DIBS_LEDGER_FALLBACK || s->ledger_mode > DIBS_LEDGER_MRU)
        fault = "an unknown ledger mode";
    else if (!ranges_are_valid(&s->range))
        fault = "the range is not ascending ports from 1 on";
    else if (!order_find(s->order))
        fault = "an unknown order";
    else if (s->band < DIBS_BAND_AUTO || s->band > DIBS_PORT_MAX)
        fault = "the band is out of range";
    else if (s->cooldown_ms < 0 || s->cooldown_ms > DIBS_COOLDOWN_MAX_MS || s->ttl_ms < 1 ||
             s->ttl_ms > DIBS_TTL_MAX_MS || s->timeout_ms < 1 || s->timeout_ms > DIBS_TIMEOUT_MAX_MS)
        fault = "a duration is out of range";
    return fault ? err_set(err, DIBS_INVALID, "settings: %s; start from dibs_settings_load()", fault)
                 : DIBS_OK;
}

/* Return whether a header of HTTP can have this value: the daemon gets a key in one. */
static bool is_key(const char *key)
{
    size_t n = strnlen(key, DIBS_KEY_MAX + 1);

    if (n == 0 || n > DIBS_KEY_MAX || key[0] == ' ' || key[n - 1] == ' ')
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char) key[i] < ' ' || key[i] == 0x7f)
            return false;
    return true;
}

dibs_status args_batch(const dibs_batch *batch, dibs_err *err)
{
    if (batch->n > DIBS_BATCH_MAX)
        return err_set(err, DIBS_INVALID, "a batch has at most %d claims", DIBS_BATCH_MAX);
    if (batch->align > DIBS_PORT_MAX)
        return err_set(err, DIBS_INVALID, "an alignment is at most %d", DIBS_PORT_MAX);
    if (batch->n_drops > DIBS_INPUT_MAX_BYTES)
        return err_set(err, DIBS_INVALID, "%zu claims to drop are more than a host has", batch->n_drops);
    if (batch->key && !is_key(batch->key))
        return err_set(err, DIBS_INVALID,
                       "a key has 1 to %d bytes, no control characters, and no blank at its ends",
                       DIBS_KEY_MAX);
    for (size_t i = 0; i < batch->n; i++) {
        const dibs_request *r = &batch->requests[i];
        dibs_status s = args_bindings(r->bindings, r->n_bindings, err);

        if (s == DIBS_OK && r->name) /* broken UTF-8 would become other text in JSON */
            s = dibs_name_check(r->name, err);
        if (s != DIBS_OK)
            return s;
        if (r->hold > DIBS_HOLD_ENFORCE)
            return err_set(err, DIBS_INVALID, "a request has an unknown level of holding");
        if (r->ranges && !ranges_are_valid(r->ranges))
            return err_set(err, DIBS_INVALID, "a request's ranges are not ascending ports from 1 on");
    }
    for (size_t i = 0; i < batch->n_drops; i++)
        if (!batch->drops[i].claim || !HAS_END(batch->drops[i].claim->name) ||
            batch->drops[i].shared_bytes > strlen(batch->drops[i].claim->name))
            return err_set(
                err, DIBS_INVALID,
                "a claim to drop is missing, or its name is not terminated or shorter than its shared bytes");
    return DIBS_OK;
}

dibs_status args_proto(dibs_proto proto, dibs_err *err)
{
    return proto == 0 || is_proto(proto) ? DIBS_OK : err_set(err, DIBS_INVALID, "an unknown protocol");
}

dibs_status args_hosts(const char *const *hosts, size_t n, dibs_err *err)
{
    for (size_t i = 0; i < n && i < DIBS_HOSTS_MAX; i++)
        if (!hosts[i])
            return err_set(err, DIBS_INVALID, "a host has no name");
    return DIBS_OK;
}

dibs_status args_repair(const dibs_repair_plan *plan, dibs_err *err)
{
    size_t n = plan->observed ? plan->n : 0;

    if (n > DIBS_INPUT_MAX_BYTES)
        return err_set(err, DIBS_INVALID, "%zu observed ports are more than a host has", n);
    if (plan->grace_ms < 0 || plan->grace_ms > DIBS_TTL_MAX_MS)
        return err_set(err, DIBS_INVALID, "the grace of a repair is at least 1ms, and at most ten years");
    for (size_t i = 0; i < n; i++) {
        const dibs_observed *o = &plan->observed[i];

        if (o->port == 0 || !is_binding(&o->binding) || !HAS_END(o->name))
            return err_set(err, DIBS_INVALID, "observed port %u: no valid port, protocol, address or name",
                           o->port);
    }
    return DIBS_OK;
}

static bool is_text(const dibs_claim *c)
{
    return HAS_END(c->principal) && HAS_END(c->name) && HAS_END(c->pool) && HAS_END(c->command) &&
           HAS_END(c->project) && HAS_END(c->env) && HAS_END(c->keeper) && HAS_END(c->process.boot_id) &&
           HAS_END(c->node);
}

dibs_status args_snapshot(const dibs_snapshot *snapshot, dibs_err *err)
{
    if (snapshot->n > DIBS_INPUT_MAX_BYTES || snapshot->n_pools > DIBS_INPUT_MAX_BYTES)
        return err_set(err, DIBS_INVALID, "%zu claims and %zu pools are more than a host has", snapshot->n,
                       snapshot->n_pools);
    for (size_t i = 0; i < snapshot->n; i++) {
        const dibs_claim *c = &snapshot->claims[i];
        dibs_status s = args_bindings(c->bindings, c->n_bindings, err);

        if (s == DIBS_OK && !is_text(c))
            s = err_set(err, DIBS_INVALID, "a text has no end");
        if (s == DIBS_OK && c->holder == DIBS_HELD_BY_LEASE &&
            (c->lease_ttl_ms > DIBS_TTL_MAX_MS || c->lease_until_ms < 0))
            s = err_set(err, DIBS_INVALID, "a lease lasts at most ten years");
        if (s != DIBS_OK)
            return err_wrap(err, s, "a claim on port %u cannot be restored", c->port);
    }
    return DIBS_OK;
}

dibs_status args_flags(unsigned flags, unsigned known, dibs_err *err)
{
    return flags & ~known ? err_set(err, DIBS_INVALID, "unknown flags: %#x", flags & ~known) : DIBS_OK;
}
