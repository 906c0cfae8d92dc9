/* SPDX-License-Identifier: MIT */
#include "daemon/caller.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/text.h"
#include "host/kernel.h"

#include "base/banned.h"

static void know(struct caller *caller, const struct caller_view *view, uint64_t netns)
{
    bool is_admin = caller->listener == CALLER_ADMIN;

    caller->call = (struct call){
        .settings = view->settings,
        .principal = caller->principal,
        .uid = caller->peer.uid,
        .pid = caller->peer.pid,
        .netns = netns,
        .is_admin = is_admin,
        /* Only the ledger's owner and administrators change pools. */
        .is_guest = !is_admin && !(caller->peer.is_here && caller->peer.uid == view->uid),
    };
}

dibs_status caller_load(const struct caller_view *view, int fd, enum caller_listener listener,
                        struct caller *out, dibs_err *err)
{
    *out = (struct caller){ .listener = listener };
    dibs_status s = peer_load(view->owners, fd, &out->peer, err);

    if (s != DIBS_OK)
        return s;
    (void) text_copy(out->principal, sizeof out->principal, out->peer.principal);
    know(out, view, out->peer.pid ? kernel_netns_of(out->peer.pid) : 0);
    return DIBS_OK;
}

bool caller_load_watched(const struct caller_view *view, struct watch *watch, uint64_t moment, int fd,
                         struct caller *out)
{
    struct ucred cred = { 0 };
    socklen_t len = sizeof cred;
    struct process_facts facts;
    uint64_t netns = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 ||
        !watch_knows(watch, cred.pid, moment, &facts, &netns))
        return false;
    uint32_t uid = uid_map_above_seen(&view->owners->users, cred.uid);
    if (uid == UID_MAP_UNKNOWN)
        return false;
    *out = (struct caller){
        .listener = CALLER_PUBLIC,
        .peer = { .uid = uid, .pid = cred.pid, .pidns = view->owners->pidns, .is_here = true, .pidfd = -1 }
    };
    (void) snprintf(out->principal, sizeof out->principal, "uid:%" PRIu32, uid);
    know(out, view, netns);
    return true;
}

dibs_status caller_load_token(const struct caller_view *view, const struct tokens *tokens, const char *field,
                              struct caller *out, dibs_err *err)
{
    static const char scheme[] = "Bearer ";

    *out = (struct caller){ .listener = CALLER_TCP, .peer.pidfd = -1 };
    if (!field || strncasecmp(field, scheme, sizeof scheme - 1) != 0)
        return err_set(err, DIBS_DENIED, "a request over TCP needs 'Authorization: Bearer TOKEN'");
    const char *token = field + sizeof scheme - 1;
    if (!tokens || !tokens_find(tokens, token, strlen(token), out->principal))
        return err_set(err, DIBS_DENIED, "this token is not known here");
    uint64_t uid = 0;
    const char *number = out->principal + strlen("uid:");
    if (!text_number(number, strlen(number), UINT32_MAX - 1, &uid))
        return err_set(err, DIBS_DENIED, "this token belongs to no user");
    out->call = (struct call){
        .settings = view->settings,
        .principal = out->principal,
        .uid = (uint32_t) uid,
        .is_guest = true,
    };
    return DIBS_OK;
}

dibs_status caller_load_loopback(const struct caller_view *view, int fd, struct caller *out, dibs_err *err)
{
    uint32_t uid = UID_MAP_UNKNOWN;

    *out = (struct caller){ .listener = CALLER_LOOPBACK, .peer.pidfd = -1 };
    if (kernel_peer_uid(fd, &uid, err) != DIBS_OK)
        return err_wrap(err, DIBS_DENIED, "the user of this connection cannot be found");
    out->peer.uid = uid_map_above_seen(&view->owners->users, uid);
    if (out->peer.uid == UID_MAP_UNKNOWN)
        return err_set(err, DIBS_DENIED, "the user at the other end has no number in this user namespace");
    (void) snprintf(out->principal, sizeof out->principal, "uid:%" PRIu32, out->peer.uid);
    know(out, view, 0);
    return DIBS_OK;
}

dibs_status caller_translate(const struct caller_view *view, const struct caller *caller, dibs_holder holder,
                             int32_t *pid, dibs_err *err)
{
    pid_t here = 0;

    if (holder != DIBS_HELD_BY_PROCESS)
        return DIBS_OK;
    if (caller->listener == CALLER_TCP)
        return err_set(err, DIBS_INVALID,
                       "no process can be seen over TCP: hold by a lease, or keep the claim");
    if (*pid < 0)
        return err_set(err, DIBS_INVALID, "pid %d is not a process", *pid);
    dibs_status s = peer_pid(view->owners, &caller->peer, *pid, &here, err);
    if (s == DIBS_OK)
        *pid = (int32_t) here;
    return s;
}
