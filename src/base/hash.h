/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_HASH_H
#define DIBS_BASE_HASH_H
/* A hash for tables and orders, not for secrets. */
#include <stddef.h>
#include <stdint.h>

#define HASH_FNV_BASIS 0xcbf29ce484222325u
#define HASH_FNV_PRIME 0x100000001b3u

/* FNV-1a, 64 bits; start with HASH_FNV_BASIS, continue with the result. */
static inline uint64_t hash_fnv1a(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *) bytes)[i]) * HASH_FNV_PRIME;
    return hash;
}
#endif
