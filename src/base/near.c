/* SPDX-License-Identifier: MIT */
#include "base/near.h"

#include <string.h>

#include "base/banned.h"

#define NEAR_DISTANCE 2u /* two slips of the finger */

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

static unsigned distance(const char *a, const char *b)
{
    unsigned row[NEAR_MAX + 1];
    size_t na = strnlen(a, NEAR_MAX + 1);
    size_t nb = strnlen(b, NEAR_MAX + 1);

    if (na > NEAR_MAX || nb > NEAR_MAX)
        return NEAR_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned) j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned) i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[nb];
}

void near_offer(struct near *best, const char *name)
{
    unsigned d = distance(best->wanted, name);

    /* A name of which no letter is right is no suggestion. */
    if (d <= NEAR_DISTANCE && d < strlen(name) && (!best->name || d < best->distance)) {
        best->name = name;
        best->distance = d;
    }
}
