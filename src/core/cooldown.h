/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_COOLDOWN_H
#define DIBS_CORE_COOLDOWN_H
/* The cooldown of released dynamic ports, per protocol, as far as the index knows it. */
#include "core/core.h"

/* Add a released port. Out of memory: the index misses it; the ledger still has its slot. */
void cooldown_add(struct core_index *index, dibs_proto proto, uint16_t port, int64_t released_ms);
/* Take the port out of the list, if it is there. */
void cooldown_end(struct core_index *index, dibs_proto proto, uint16_t port);
/* Return whether the port was released after `since_ms` (CLOCK_BOOTTIME). */
bool cooldown_is_on(const struct core *core, dibs_proto proto, uint16_t port, int64_t since_ms);
/* Call fn for each port of the protocol that the index has, with the time of its release. */
void cooldown_each(const struct core *core, dibs_proto proto,
                   void (*fn)(void *ctx, uint16_t port, int64_t released_ms), void *ctx);
/* Keep cooling ports for at least this cooldown. A longer one than before reloads the index. */
void cooldown_remember(struct core *core, int64_t cooldown_ms);
/* Drop ports that have rested long enough for every pool. */
void cooldown_expire(struct core *core, int64_t now_ms);
#endif
