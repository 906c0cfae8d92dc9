/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_PART_H
#define DIBS_BASE_PART_H
/* Any text as one part of a name. */
#include <stddef.h>

#include "dibs/limits.h"

enum {
    PART_RAW_MAX = 1024, /* bytes of the text that count */
    PART_HASH_MIN = 13   /* '~' and twelve hex digits */
};

/* Bytes that a name's part cannot have, '%', '~' and those of `avoid` are written %XX; what is then longer
 * than `max` (at most DIBS_NAME_PART_MAX) is cut and ends in '~' and a hash of the whole. Different texts
 * give different parts. "" becomes "%". */
void part_encode(const char *raw, const char *avoid, size_t max, char out[DIBS_NAME_PART_MAX + 1]);
/* Of how many parts the name is. */
size_t part_count(const char *name);
#endif
