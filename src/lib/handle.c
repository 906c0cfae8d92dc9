/* SPDX-License-Identifier: MIT */
/* Handles of servers: for the user of a request, for the namespaces of a cluster, in a shared transaction. */
#include "lib/connection.h"

#include <string.h>

#include "base/err.h"

#include "base/banned.h"

struct call handle_call(const dibs *handle)
{
    struct call call = handle->call;

    if (call.now.wall_ms == 0)
        call.now = core_now(handle->to->core);
    if (call.deadline_ms == 0)
        call.deadline_ms = clock_monotonic_ms() + handle->to->settings.timeout_ms;
    return call;
}

dibs handle_with(const dibs *handle, const struct call *call)
{
    return (dibs){ .to = handle->to, .call = *call };
}

dibs_status handle_for(const dibs *handle, const char *principal, dibs *out, dibs_err *err)
{
    if (!handle->to->core)
        return err_set(err, DIBS_INVALID,
                       "claims for others are made in the ledger itself: use --socket none, and --ledger");
    if (strlen(principal) > DIBS_PRINCIPAL_MAX)
        return err_set(err, DIBS_INVALID, "a principal is too long");
    *out = *handle;
    out->call.principal = principal;
    out->call.is_admin = true;
    out->call.is_guest = false;
    out->call.is_elsewhere = true;
    return DIBS_OK;
}

dibs_status handle_remember(const dibs *handle, const char *name, uint16_t port, dibs_err *err)
{
    const struct call call = handle_call(handle);

    return ledger_remember_name(handle_ledger(handle), &call, name, port, err);
}

dibs_status handle_remembered(const dibs *handle, const char *name, uint16_t *out, dibs_err *err)
{
    const struct call call = handle_call(handle);
    dibs_claim claim = { 0 };
    dibs_status s = ledger_find_name(handle_ledger(handle), &call, name, &claim, out, err);

    if (s == DIBS_OK)
        *out = 0;
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

/* ---- for servers ---- */

struct core *handle_core(const dibs *handle)
{
    return handle->to->core;
}

struct ledger *handle_ledger(const dibs *handle)
{
    return handle->to->core->ledger;
}

void handle_reconfigure(dibs *handle, const dibs_settings *settings)
{
    dibs_settings *own = &handle->to->settings;
    dibs_settings kept = *own;

    *own = *settings;
    memcpy(own->socket, kept.socket, sizeof own->socket);
    own->ledger_mode = kept.ledger_mode;
    own->is_sync_full = kept.is_sync_full;
    own->timeout_ms = kept.timeout_ms;
}
