/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_CHECK_H
#define DIBS_TESTS_CHECK_H
#include <stdlib.h>

/* Not assert: it must hold in a build without assertions, too. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)
#endif
