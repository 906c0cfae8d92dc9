/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_ENFORCE_HOST_H
#define DIBS_HOLD_ENFORCE_HOST_H
/* Whether this host can enforce claims in its kernel (hold/enforce.h), without loading anything. */
#include <stddef.h>

#include "dibs/status.h"

/* Find where cgroup v2 is mounted; it may be beside v1. UNAVAILABLE: nowhere. */
dibs_status enforce_find_cgroups(char *out, size_t size, dibs_err *err);

/* UNAVAILABLE: it cannot, with the first reason that was found. */
dibs_status enforce_check_host(dibs_err *err);
#endif
