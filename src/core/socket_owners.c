/* SPDX-License-Identifier: MIT */
/* Finds the processes that have sockets open, holders of claims first: see kernel.h. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "core/core.h"

#include "base/banned.h"

enum { HOLDERS_MAX = 65536 };

struct holders {
    struct core *core;
    struct portbits ports; /* of the sockets */
    pid_t *first, *last;
    size_t n_first, n_last, max;
};

static bool note_holder(void *ctx, const dibs_claim *claim)
{
    struct holders *h = ctx;

    if (claim->holder != DIBS_HELD_BY_PROCESS || claim->process.pidns != h->core->view.pidns)
        return true;
    if (portbits_has(&h->ports, claim->port))
        h->first[h->n_first++] = claim->process.pid;
    else
        h->last[h->n_last++] = claim->process.pid;
    return h->n_first < h->max && h->n_last < h->max;
}

void core_socket_owners(struct core *core, const struct call *call, struct kernel_socket *sockets,
                        pid_t *pids, size_t n)
{
    AUTO(free_auto) uint64_t *inodes = calloc(n + 1, sizeof *inodes);
    AUTO(free_auto) pid_t *first = calloc(HOLDERS_MAX, sizeof *first);
    AUTO(free_auto) pid_t *last = calloc(HOLDERS_MAX, sizeof *last);
    struct holders h = { .core = core, .first = first, .last = last, .max = HOLDERS_MAX };
    struct ledger_filter held = { .held_only = true };

    memset(pids, 0, n * sizeof *pids);
    if (n == 0 || !inodes || !first || !last)
        return;
    kernel_settle(&core->inventory, sockets, n);
    for (size_t i = 0; i < n; i++) {
        inodes[i] = sockets[i].inode;
        if (inodes[i] != 0)
            portbits_add(&h.ports, sockets[i].port);
    }
    /* Without the list all processes are looked at in the order of /proc: still right, but it may delay a
     * rightful server. */
    (void) ledger_list(core->ledger, call, &held, note_holder, &h, NULL);
    struct kernel_suspects suspects = { first, h.n_first, last, h.n_last };
    kernel_socket_owners(inodes, pids, n, &suspects);
}
