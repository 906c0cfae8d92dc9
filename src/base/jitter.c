/* SPDX-License-Identifier: MIT */
#include "base/jitter.h"

#include <sys/random.h>

#include "base/banned.h"

uint32_t jitter_random(void)
{
    uint32_t number = 0;

    /* Without randomness every process gets 0: correct, only less spread. */
    (void) !getrandom(&number, sizeof number, GRND_NONBLOCK);
    return number;
}

int64_t jitter_ms(int64_t ms)
{
    return ms / 2 + (int64_t) (jitter_random() % (uint32_t) (ms - ms / 2 + 1));
}
