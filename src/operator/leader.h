/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_LEADER_H
#define DIBS_OPERATOR_LEADER_H
/* What a process calls itself in a Lease: HOST_PID_TICKS_PIDNS_BOOT. So who comes after it, on the same
 * machine, can tell that it is dead, and need not wait until its Lease has ended: a controller that was
 * killed is back at once. Of a process of another machine, or of another container, nothing can be told. */
#include <stdbool.h>

#include "owner/owner.h"

enum { LEADER_NAME_MAX = 255 };

void leader_name(const struct owner_view *view, char out[LEADER_NAME_MAX + 1]);
/* Is it dead for certain? */
bool leader_is_dead(const struct owner_view *view, const char *name);
#endif
