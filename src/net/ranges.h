/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_RANGES_H
#define DIBS_NET_RANGES_H
/* Checks of dibs_ranges that the public header does not offer. */
#include "dibs/net.h"

/* Return whether the list has 1 to DIBS_RANGES_MAX valid ranges, ascending and apart. */
bool ranges_are_valid(const dibs_ranges *ranges);
#endif
