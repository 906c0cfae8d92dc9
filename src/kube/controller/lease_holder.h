/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_LEASE_HOLDER_H
#define DIBS_KUBE_CONTROLLER_LEASE_HOLDER_H
/* The identity of a process in a Lease: HOST_PID_TICKS_PIDNS_BOOT. A successor on the same machine sees
 * that the process is dead and takes over at once instead of waiting for the Lease to expire. The state of
 * processes on other machines or in other containers is unknown. */
#include <stdbool.h>

#include "host/process.h"

enum { LEASE_HOLDER_NAME_MAX = 255 };

void lease_holder_name(const struct process_view *view, char out[LEASE_HOLDER_NAME_MAX + 1]);
/* Return whether the process is certainly dead. */
bool lease_holder_is_dead(const struct process_view *view, const char *name);
#endif
