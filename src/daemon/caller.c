/* SPDX-License-Identifier: MIT */
#include "daemon/caller.h"

#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/text.h"
#include "kernel/kernel.h"

#include "base/banned.h"

dibs_status caller_load(const struct caller_view *view, int fd, enum caller_door door, struct caller *out,
                        dibs_err *err)
{
    *out = (struct caller){ .door = door };
    dibs_status s = owner_peer_load(view->owners, fd, &out->peer, err);

    if (s != DIBS_OK)
        return s;
    (void) text_copy(out->principal, sizeof out->principal, out->peer.principal);
    out->who = (struct core_caller){
        .settings = view->settings,
        .principal = out->principal,
        .uid = out->peer.uid,
        .pid = out->peer.pid,
        .netns = out->peer.pid ? kernel_netns_of(out->peer.pid) : 0,
        .is_admin = door == CALLER_ADMIN,
        /* Pools are a rule for all: whose ledger it is sets them, and administrators. */
        .is_guest = door != CALLER_ADMIN && !(out->peer.is_here && out->peer.uid == view->uid),
    };
    return DIBS_OK;
}

dibs_status caller_load_token(const struct caller_view *view, const struct tokens *tokens, const char *field,
                              struct caller *out, dibs_err *err)
{
    static const char scheme[] = "Bearer ";

    *out = (struct caller){ .door = CALLER_TCP, .peer.pidfd = -1 };
    if (!field || strncasecmp(field, scheme, sizeof scheme - 1) != 0)
        return err_set(err, DIBS_DENIED, "a request over TCP needs 'Authorization: Bearer TOKEN'");
    const char *token = field + sizeof scheme - 1;
    if (!tokens || !tokens_find(tokens, token, strlen(token), out->principal))
        return err_set(err, DIBS_DENIED, "this token is not known here");
    uint64_t uid = 0;
    const char *number = out->principal + strlen("uid:");
    if (!text_number(number, strlen(number), UINT32_MAX - 1, &uid))
        return err_set(err, DIBS_DENIED, "this token is nobody's");
    out->who = (struct core_caller){
        .settings = view->settings,
        .principal = out->principal,
        .uid = (uint32_t) uid,
        .is_guest = true,
    };
    return DIBS_OK;
}

void caller_done(struct caller *caller)
{
    owner_peer_done(&caller->peer);
}

dibs_status caller_translate(const struct caller_view *view, const struct caller *caller, dibs_holder holder,
                             int32_t *pid, dibs_err *err)
{
    pid_t here = 0;

    if (holder != DIBS_HELD_BY_PROCESS)
        return DIBS_OK;
    if (caller->door == CALLER_TCP)
        return err_set(err, DIBS_INVALID,
                       "no process can be seen over TCP: hold by a lease, or keep the claim");
    if (*pid < 0)
        return err_set(err, DIBS_INVALID, "pid %d is not a process", *pid);
    dibs_status s = owner_peer_pid(view->owners, &caller->peer, *pid, &here, err);
    if (s == DIBS_OK)
        *pid = (int32_t) here;
    return s;
}
