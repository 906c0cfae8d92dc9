/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_LEADER_H
#define DIBS_KUBE_CONTROLLER_LEADER_H
/* The identity of a process in a Lease: HOST_PID_TICKS_PIDNS_BOOT. Its successor on the same machine sees
 * that it is dead, and need not wait until its Lease has ended: a controller that was
 * killed is back at once. Of a process of another machine, or of another container, nothing is known. */
#include <stdbool.h>

#include "host/process.h"

enum { LEADER_NAME_MAX = 255 };

void leader_name(const struct process_view *view, char out[LEADER_NAME_MAX + 1]);
/* Is it dead for certain? */
bool leader_is_dead(const struct process_view *view, const char *name);
#endif
