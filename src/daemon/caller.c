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
#include "host/proc_read.h"

#include "base/banned.h"

static void set_call(struct caller *caller, const struct caller_view *view, uint64_t netns)
{
    bool is_admin = caller->listener == CALLER_ADMIN;

    if (!caller->principal[0])
        (void) snprintf(caller->principal, sizeof caller->principal, "uid:%" PRIu32, caller->peer.uid);
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
                        struct caller *out)
{
    *out = (struct caller){ .listener = listener };
    dibs_status s = peer_load(view->owners, fd, &out->peer, NULL);

    if (s != DIBS_OK)
        return s;
    (void) text_copy(out->principal, sizeof out->principal, out->peer.principal);
    uint64_t netns = out->peer.pid ? kernel_netns_of(out->peer.pid) : 0;
    set_call(out, view, netns ? netns : kernel_netns_of_peer(fd));
    return DIBS_OK;
}

struct call caller_call(const struct caller *caller)
{
    struct call call = caller->call;
    uint64_t netns = caller->peer.pid ? kernel_netns_of(caller->peer.pid) : 0;

    /* Check a change last: if the process has ended, another one may have its pid. */
    if (netns != 0 && netns != call.netns && !proc_pidfd_ended(caller->peer.pidfd))
        call.netns = netns;
    return call;
}

bool caller_load_watched(const struct caller_view *view, struct watch *watch, uint64_t moment, int fd,
                         struct caller *out)
{
    struct ucred cred = { 0 };
    socklen_t len = sizeof cred;
    struct process_facts facts;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return false;
    uint64_t netns = kernel_netns_of(cred.pid);
    if (!watch_knows(watch, cred.pid, moment, &facts) || !facts.is_here)
        return false;
    uint32_t uid = uid_map_above_seen(&view->owners->users, cred.uid);
    if (uid == UID_MAP_UNKNOWN)
        return false;
    *out = (struct caller){
        .listener = CALLER_PUBLIC,
        .peer = { .uid = uid, .pid = cred.pid, .pidns = view->owners->pidns, .is_here = true, .pidfd = -1 }
    };
    set_call(out, view, netns);
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
    if (!tokens || !tokens_find(tokens, token, strlen(token), &out->peer.uid))
        return err_set(err, DIBS_DENIED, "this token is not known here");
    set_call(out, view, 0);
    return DIBS_OK;
}

void caller_load_loopback(const struct caller_view *view, int fd, enum caller_listener listener,
                          struct caller *out)
{
    uint32_t uid = UID_MAP_UNKNOWN;

    *out = (struct caller){ .listener = listener, .peer.pidfd = -1 };
    if (kernel_peer_uid(fd, &uid, NULL) != DIBS_OK)
        return;
    out->peer.uid = uid_map_above_seen(&view->owners->users, uid);
    if (out->peer.uid != UID_MAP_UNKNOWN)
        set_call(out, view, 0);
}

void caller_load_page(const struct caller_view *view, uint32_t uid, struct caller *out)
{
    *out =
        (struct caller){ .listener = CALLER_PAGE,
                         .peer = { .uid = uid, .pidns = view->owners->pidns, .is_here = true, .pidfd = -1 } };
    set_call(out, view, kernel_netns());
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

dibs_status caller_check(const struct caller_view *view, const struct caller *caller, const dibs_claim *claim,
                         dibs_err *err)
{
    if (caller->listener == CALLER_ADMIN)
        return DIBS_OK;
    if (claim->uid != caller->peer.uid)
        return err_set(err, DIBS_DENIED, "port %u is of uid %" PRIu32 "; you are uid %" PRIu32, claim->port,
                       claim->uid, caller->peer.uid);
    if (claim->holder == DIBS_HELD_BY_PROCESS && !peer_may_name(view->owners, &caller->peer, &claim->process))
        return err_set(err, DIBS_DENIED, "port %u is held by process %" PRId32 ", which is none of yours",
                       claim->port, claim->process.pid);
    return DIBS_OK;
}
