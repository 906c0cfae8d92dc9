/* SPDX-License-Identifier: MIT */
/* Find sockets that have existed for a while: dibs searches only their owners (kernel.h says why). */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/grow.h"
#include "host/kernel.h"

#include "base/banned.h"

enum {
    SETTLED_AFTER_MS = 10, /* a server that rebinds without pause has another socket by then */
    SOCKETS_MAX = 1 << 20,
};

static bool note_inode(void *ctx, const struct kernel_socket *socket)
{
    struct kernel_inventory *inventory = ctx;

    if (!grow((void **) &inventory->inodes, inventory->n, &inventory->max, sizeof *inventory->inodes))
        return false;
    inventory->inodes[inventory->n++] = socket->inode;
    return inventory->n < SOCKETS_MAX;
}

static int by_inode(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a;
    uint64_t y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static void take_inventory(struct kernel_inventory *inventory)
{
    inventory->n = 0;
    inventory->taken_ms = clock_monotonic_ms();
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        (void) kernel_sockets(0, proto, 0, note_inode, inventory, NULL);
    if (inventory->n > 1)
        qsort(inventory->inodes, inventory->n, sizeof *inventory->inodes, by_inode);
}

static bool is_known(const struct kernel_inventory *inventory, uint64_t inode)
{
    return inventory->n > 0 && bsearch(&inode, inventory->inodes, inventory->n, sizeof inode, by_inode);
}

void kernel_settle(struct kernel_inventory *inventory, struct kernel_socket *sockets, size_t n)
{
    struct timespec pause = { .tv_nsec = SETTLED_AFTER_MS * 1000000L };
    int64_t age_ms = clock_monotonic_ms() - inventory->taken_ms;
    bool is_settled = inventory->n > 0 && age_ms >= SETTLED_AFTER_MS;

    for (size_t i = 0; i < n; i++)
        is_settled = is_settled && (sockets[i].inode == 0 || is_known(inventory, sockets[i].inode));
    if (is_settled || n == 0)
        return;
    (void) nanosleep(&pause, NULL);
    take_inventory(inventory);
    for (size_t i = 0; i < n; i++)
        if (!is_known(inventory, sockets[i].inode))
            sockets[i].inode = 0;
}

void kernel_inventory_done(struct kernel_inventory *inventory)
{
    free(inventory->inodes);
}
