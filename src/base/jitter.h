/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_JITTER_H
#define DIBS_BASE_JITTER_H
/* Random delays, so that many processes that failed together do not retry together. */
#include <stdint.h>
#include <sys/random.h>

/* Without randomness every process gets 0: correct, only less spread. */
static inline uint32_t jitter_random(void)
{
    uint32_t number = 0;

    (void) !getrandom(&number, sizeof number, GRND_NONBLOCK);
    return number;
}

/* Return a random delay between half of `ms` and `ms`. */
static inline int64_t jitter_ms(int64_t ms)
{
    return ms / 2 + (int64_t) (jitter_random() % (uint32_t) (ms - ms / 2 + 1));
}
#endif
