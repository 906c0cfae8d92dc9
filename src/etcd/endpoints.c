/* SPDX-License-Identifier: MIT */
#include "base/spread.h"
#include "etcd/inside.h"

#include "base/banned.h"

enum {
    AVOID_FIRST_MS = 1000, /* doubled with every failure, up to: */
    AVOID_MOST_MS = 8000,
    DOUBLINGS_MAX = 3,
};

void endpoints_begin(struct endpoints *e, size_t n)
{
    *e = (struct endpoints){ .n = n, .current = spread_number() % n };
}

size_t endpoints_choose(struct endpoints *e, int64_t now_ms)
{
    size_t best = e->current;

    for (size_t i = 0; i < e->n; i++) {
        size_t at = (e->current + i) % e->n;

        if (e->of[at].avoid_until_ms <= now_ms) {
            best = at;
            break;
        }
        if (e->of[at].avoid_until_ms < e->of[best].avoid_until_ms)
            best = at;
    }
    e->current = best;
    return best;
}

void endpoints_failed(struct endpoints *e, size_t which, int64_t now_ms)
{
    unsigned doublings = e->of[which].n_failed < DOUBLINGS_MAX ? e->of[which].n_failed : DOUBLINGS_MAX;
    int64_t avoid_ms = (int64_t) AVOID_FIRST_MS << doublings;

    e->of[which].avoid_until_ms = now_ms + spread_ms(avoid_ms < AVOID_MOST_MS ? avoid_ms : AVOID_MOST_MS);
    e->of[which].n_failed++;
}

void endpoints_well(struct endpoints *e, size_t which)
{
    e->of[which].avoid_until_ms = 0;
    e->of[which].n_failed = 0;
    e->current = which;
}
