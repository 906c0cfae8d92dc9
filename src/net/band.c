/* SPDX-License-Identifier: MIT */
#include "dibs/net.h"

#include "base/banned.h"

/* Kubernetes' numbers (KEP-3668), over the inclusive size: a pool too small to be split
 * has no band, and 4096 ports already give the widest one. */
#define BAND_MIN 16
#define BAND_MAX 128
#define BAND_SHARE 32

uint32_t dibs_band_size(uint32_t size)
{
    uint32_t band = size / BAND_SHARE;

    if (size <= BAND_MIN)
        return 0;
    if (band < BAND_MIN)
        return BAND_MIN;
    return band > BAND_MAX ? BAND_MAX : band;
}
