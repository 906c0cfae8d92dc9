/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_NAME_PART_H
#define DIBS_BASE_NAME_PART_H
/* Encode any text as one part of a name. */
#include <stddef.h>

#include "dibs/limits.h"

enum {
    NAME_PART_RAW_MAX = 1024, /* bytes of the text that are used */
    NAME_PART_HASH_MIN = 13   /* '~' and twelve hex digits */
};

/* Encode '%', '~', bytes of `avoid` and bytes not allowed in a part as %XX; "" becomes "%". A result longer
 * than `max` (at most DIBS_NAME_PART_MAX) is cut and ends with '~' and a hash of the whole text. */
void name_part_encode(const char *raw, const char *avoid, size_t max, char out[DIBS_NAME_PART_MAX + 1]);
/* Return the name from its i-th part on, counted from 0; NULL: it has fewer. */
const char *name_part_at(const char *name, size_t i);
/* Count the parts of a name. */
size_t name_part_count(const char *name);
#endif
