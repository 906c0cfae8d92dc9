/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include "base/banned.h"

#define FNV_PRIME 0x100000001b3u

uint64_t hash_fnv1a(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * FNV_PRIME;
    return hash;
}
