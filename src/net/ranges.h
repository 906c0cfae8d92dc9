/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_RANGES_H
#define DIBS_NET_RANGES_H
/* Checks of dibs_ranges that the public header does not offer. */
#include "dibs/net.h"

/* Is there at least one range, each of real ports, ascending, apart, and no more than fit? */
bool ranges_are_valid(const dibs_ranges *ranges);
#endif
