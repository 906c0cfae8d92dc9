/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_JITTER_H
#define DIBS_BASE_JITTER_H
/* Random delays, so that many processes that failed together do not retry together. */
#include <stdint.h>

uint32_t jitter_random(void);
/* Return a random delay between half of `ms` and `ms`. */
int64_t jitter_ms(int64_t ms);
#endif
