/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_RANGES_H
#define DIBS_NET_RANGES_H
#include "dibs/net.h"

/* At least one range, each of real ports, ascending and apart, and no more than fit. */
bool ranges_are_valid(const dibs_ranges *ranges);
#endif
