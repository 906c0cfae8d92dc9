/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KERNEL_UDP_BOUND_H
#define DIBS_KERNEL_UDP_BOUND_H
/* The UDP ports that somebody has bound, read from the kernel at once for a group of claims: the kernel lists
 * every UDP socket that has a port, so that who is not listed need not be tried. To list them takes as long
 * as to try some ports; of TCP it would take far longer, and old kernels do not list what does not listen.
 *
 * Only a list that comes in one piece is good: between two pieces a socket that is closed makes the kernel
 * pass over another one. That is some 40 sockets of each family the first time, and 250 later. Where there
 * are more, and without netlink, every port is tried, as in small groups. A port that is listed may be free
 * all the same, for this address or by now: that one is tried, too. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/portbits.h"

/* Begin with zeros. */
struct udp_bound {
    bool is_open;
    int fd;                   /* netlink */
    size_t n_asked;           /* since the beginning of the group */
    bool was_worth_it;        /* to list them, in the last group */
    bool is_tried, is_listed; /* in this group */
    unsigned rest;            /* groups until the next attempt, after one that failed */
    struct portbits ports;
};

void udp_bound_done(struct udp_bound *bound);
void udp_bound_begin(struct udp_bound *bound); /* a group */
/* Had nobody bound it in this group? False: that is not known, try it. */
bool udp_bound_is_free(struct udp_bound *bound, uint16_t port);
#endif
