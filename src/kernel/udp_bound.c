/* SPDX-License-Identifier: MIT */
#include "kernel/udp_bound.h"

#include <string.h>

#include "kernel/kernel.h"

#include "base/banned.h"

/* What a list costs, counted in ports that are tried: measured 45 us, and 6 us more for each 16 sockets in
 * it, against 6 us for a port. */
enum { LIST_COSTS = 8, SOCKETS_COST = 16 };

static bool is_worth_it(const struct udp_bound *bound)
{
    return bound->n_asked > LIST_COSTS + bound->n_sockets / SOCKETS_COST;
}

void udp_bound_begin(struct udp_bound *bound)
{
    bound->was_worth_it = is_worth_it(bound);
    bound->n_asked = 0;
    bound->is_listed = bound->is_tried = false;
}

static bool note(void *ctx, const struct kernel_socket *socket)
{
    struct udp_bound *bound = ctx;

    portbits_add(&bound->ports, socket->port);
    bound->n_sockets++;
    return true;
}

static void list(struct udp_bound *bound)
{
    memset(&bound->ports, 0, sizeof bound->ports);
    bound->n_sockets = 0;
    bound->is_tried = true;
    bound->is_listed = kernel_sockets(0, DIBS_UDP, 0, note, bound, NULL) == DIBS_OK;
}

bool udp_bound_is_free(struct udp_bound *bound, uint16_t port)
{
    bound->n_asked++;
    /* Once for a group: at first if the last group was large enough, else when this one has been as dear as
     * the list would have been. */
    if (!bound->is_tried && (bound->was_worth_it || is_worth_it(bound)))
        list(bound);
    return bound->is_listed && !portbits_has(&bound->ports, port);
}
