/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BENCH_BENCH_H
#define DIBS_BENCH_BENCH_H
/* Shared by the measuring programs: the clock, and samples as a JSON array on stdout. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline int64_t bench_now_ns(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        abort();
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* splitmix64: the same numbers in every run. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void bench_print(const double *samples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void) printf("%c%.1f", i ? ',' : '[', samples[i]);
    (void) printf("%s]\n", n ? "" : "[");
    (void) fflush(stdout);
}
#endif
