/* SPDX-License-Identifier: MIT */
#include "base/bytes.h"

#include <stdlib.h>

#include "dibs/limits.h"

#include "base/banned.h"

enum { ROOM_FIRST = 1024 }; /* a claim's answer fits */

char *bytes_grow(struct bytes *b, size_t n)
{
    size_t room = b->room ? b->room : ROOM_FIRST;

    if (b->is_lost || n > DIBS_INPUT_MAX_BYTES - b->n) {
        b->is_lost = true;
        return NULL;
    }
    while (room - b->n < n)
        room *= 2;
    char *at = realloc(b->at, room);
    if (!at) {
        b->is_lost = true;
        return NULL;
    }
    b->at = at;
    b->room = room;
    return at + b->n;
}

void bytes_done(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){ 0 };
}
