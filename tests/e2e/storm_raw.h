/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_STORM_RAW_H
#define DIBS_TESTS_STORM_RAW_H
/* Access of clients that write HTTP themselves. Claims carry a key and are insisted on. */
#include "storm_client.h"

extern const struct mix_access mix_raw;
#endif
