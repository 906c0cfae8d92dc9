/* SPDX-License-Identifier: MIT */
#include "core/adopt.h"

#include <stdlib.h>

#include "base/auto.h"
#include "net/bindings.h"

#include "base/banned.h"

enum { SOCKETS_MAX = 1024 }; /* a listener and its connections; with more the port is not adopted */

struct sockets {
    const dibs_claim *claim;
    struct kernel_socket *at;
    size_t n;
    bool is_served, is_cut;
};

static bool note_socket(void *ctx, const struct kernel_socket *socket)
{
    struct sockets *found = ctx;
    const dibs_binding used = { socket->proto, socket->address };

    /* A connection that no process has any more ends by itself. */
    if (!bindings_conflict(found->claim->bindings, found->claim->n_bindings, &used, 1) ||
        (socket->inode == 0 && !socket->serves))
        return true;
    found->is_cut = found->n == SOCKETS_MAX;
    if (found->is_cut)
        return false;
    found->at[found->n++] = *socket;
    found->is_served = found->is_served || socket->serves;
    return true;
}

static bool is_listed(const dibs_claim *claim, dibs_proto proto)
{
    bool is_there = false;

    for (size_t i = 0; i < claim->n_bindings; i++)
        is_there = is_there || claim->bindings[i].proto == proto;
    return is_there;
}

bool adopt_may(struct core *core, const struct call *call, const dibs_claim *claim, uint16_t port)
{
    pid_t holder = claim->holder == DIBS_HELD_BY_PROCESS ? process_pid_here(&core->view, &claim->process) : 0;
    AUTO(free_auto) struct kernel_socket *sockets = holder > 0 ? calloc(SOCKETS_MAX, sizeof *sockets) : NULL;
    struct sockets found = { .claim = claim, .at = sockets };

    if (!sockets || kernel_netns_of(holder) != kernel_netns()) /* the probe looks at our network namespace */
        return false;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if (is_listed(claim, proto) &&
            kernel_blocking_sockets(0, proto, port, note_socket, &found, NULL) != DIBS_OK)
            return false;
    if (!found.is_served || found.is_cut)
        return false;
    AUTO(free_auto) pid_t *pids = calloc(found.n, sizeof *pids);
    if (!pids)
        return false;
    core_socket_owners(core, call, 0, sockets, pids, found.n);
    for (size_t i = 0; i < found.n; i++)
        if (pids[i] == 0 || !process_descends_from(&core->view, pids[i], holder))
            return false;
    return true;
}
