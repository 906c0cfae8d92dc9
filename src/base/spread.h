/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_SPREAD_H
#define DIBS_BASE_SPREAD_H
/* Chance, so that many who failed together do not come back together. */
#include <stdint.h>

uint32_t spread_number(void);
/* From half to all of it. */
int64_t spread_ms(int64_t ms);
#endif
