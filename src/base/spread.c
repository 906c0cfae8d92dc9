/* SPDX-License-Identifier: MIT */
#include "base/spread.h"

#include <sys/random.h>

#include "base/banned.h"

uint32_t spread_number(void)
{
    uint32_t number = 0;

    /* Without randomness to be had all take the same way, which is allowed, only not nice. */
    (void) !getrandom(&number, sizeof number, GRND_NONBLOCK);
    return number;
}

int64_t spread_ms(int64_t ms)
{
    return ms / 2 + (int64_t) (spread_number() % (uint32_t) (ms - ms / 2 + 1));
}
