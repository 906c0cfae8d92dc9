/* SPDX-License-Identifier: MIT */
#ifndef DIBS_INDEX_PORT_SET_H
#define DIBS_INDEX_PORT_SET_H
/* A searchable set of ports 1-65535: a bitmap with two levels of summary, so that
 * "next member from here" costs the same at any fill. Port 0 is never a member. */
#include <stdbool.h>
#include <stdint.h>

#include "dibs/net.h"
#include "net/portbits.h"

struct port_set {
    uint64_t top;        /* bit i: mid[i] is not zero */
    uint64_t mid[16];    /* bit j of mid[i]: leaf[64 * i + j] is not zero */
    uint64_t leaf[1024]; /* bit k of leaf[w]: port 64 * w + k is a member */
    uint32_t count;
};

void port_set_init(struct port_set *set);
void port_set_load(struct port_set *set, const struct portbits *bits);
bool port_set_has(const struct port_set *set, uint16_t port);
/* True when the set changed. Port 0 is ignored. */
bool port_set_add(struct port_set *set, uint16_t port);
bool port_set_remove(struct port_set *set, uint16_t port);
/* Smallest member in from..last, or 0. */
uint16_t port_set_next(const struct port_set *set, uint16_t from, uint16_t last);
/* First member from `start` upward, wrapping once inside `window`; 0 when none.
 * A start outside the window counts as the window's first. */
uint16_t port_set_pick(const struct port_set *set, dibs_range window, uint16_t start);
/* First port b, from `start` upward with wrap inside `window`, such that b..b+n-1 are
 * all members inside `window` and b is a multiple of `align` (0 and 1: any); 0 when none. */
uint16_t port_set_run(const struct port_set *set, dibs_range window, uint32_t n, uint32_t align,
                      uint16_t start);
/* Members in first..last. */
uint32_t port_set_count(const struct port_set *set, dibs_range window);
#endif
