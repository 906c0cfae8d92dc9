/* SPDX-License-Identifier: MIT */
#ifndef DIBS_INDEX_INDEX_H
#define DIBS_INDEX_INDEX_H
/* Occupancy of one pool in memory: what is free, upper band first.
 *
 * Advice only: the ledger decides. A pool's ports are `members` (all of its
 * ranges); `choosable` are those that dynamic choice may take (members without the
 * ephemeral range, reserved and blocked ports). A port outside `choosable` can still be
 * taken by number (static). */
#include "index/port_set.h"

struct index_stats {                          /* K8, right from the start (W13) */
    uint64_t taken_static, taken_dynamic;     /* successful takes so far */
    uint64_t refused_static, refused_dynamic; /* failed takes so far */
    uint64_t spilled;                         /* dynamic takes from the lower band (W10) */
};

struct index {
    struct portbits members;
    struct portbits choosable;
    struct port_set free;  /* choosable and not taken */
    struct portbits taken; /* members that are taken */
    uint32_t n_members;
    uint32_t n_taken;
    uint16_t first, last;  /* bounds of the members */
    uint16_t dynamic_from; /* first port of the upper band; equals `first` without band */
    struct index_stats stats;
};

/* `band` ports at the low end are the lower band (counted over `ranges`); it is clamped so
 * that at least one port is in the upper one. `withheld` may be NULL. */
void index_init(struct index *index, const dibs_ranges *ranges, uint32_t band,
                const struct portbits *withheld);

/* By number: OK, TAKEN, or INVALID when not a member (the message names the ranges). */
dibs_status index_take(struct index *index, uint16_t port, dibs_err *err);
/* A free port, upper band first from `start` with wrap, then the lower band; 0 when
 * nothing is choosable. Takes nothing. */
uint16_t index_pick(const struct index *index, uint16_t start);
/* index_pick and take: OK or EXHAUSTED. */
dibs_status index_take_next(struct index *index, uint16_t start, uint16_t *out, dibs_err *err);
/* True when it was taken; anything else is a silent no-op. */
bool index_release(struct index *index, uint16_t port);
bool index_has(const struct index *index, uint16_t port); /* is taken */
/* Members that are not taken. */
uint32_t index_available(const struct index *index);
/* The next taken member from `from` upward, or 0: for (p = 0; (p = index_next_taken(i, p + 1)); ) */
uint16_t index_next_taken(const struct index *index, uint32_t from);
#endif
