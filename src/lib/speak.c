/* SPDX-License-Identifier: MIT */
/* A handle that claims for others: for the namespaces of a cluster, whose pods run anywhere. */
#include "base/err.h"
#include "base/text.h"
#include "lib/handle.h"

#include "base/banned.h"

dibs_status handle_speak_for(dibs *handle, const char *principal, const char *command, dibs_err *err)
{
    if (!handle->core)
        return err_set(err, DIBS_INVALID,
                       "claims for others are made in the ledger itself: use --socket none, and --ledger");
    if (!text_copy(handle->principal, sizeof handle->principal, principal) ||
        !text_copy(handle->command, sizeof handle->command, command))
        return err_set(err, DIBS_INVALID, "a principal or what a claim is for is too long");
    struct core_caller caller = handle->core->options.caller;

    caller.principal = handle->principal;
    caller.command = handle->command;
    caller.is_admin = true;
    caller.is_guest = false;
    caller.is_elsewhere = true;
    core_act_for(handle->core, &caller);
    return DIBS_OK;
}

dibs_status handle_claim_for(dibs *handle, const dibs_batch *batch, const char *const *commands,
                             dibs_claim *out, dibs_err *err)
{
    handle->core->caller.commands = commands;
    dibs_status s = dibs_claim_ports(handle, batch, out, err);
    handle->core->caller.commands = NULL;
    return s;
}
