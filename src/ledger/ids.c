/* SPDX-License-Identifier: MIT */
/* The claims of one port: an address each, so there may be many, and mostly there is none. */
#include <stdlib.h>

#include "ledger/rows.h"

#include "base/banned.h"

enum { IDS_MAX = 1 << 20 }; /* far more addresses than any host has */

void id_list_auto(struct id_list *list)
{
    free(list->id);
}

bool id_list_add(struct id_list *list, uint64_t id)
{
    if (id == 0 || (list->n > 0 && list->id[list->n - 1] == id))
        return true;
    if (list->n == list->max) {
        size_t max = list->max ? list->max * 2 : 16;
        uint64_t *more = max <= IDS_MAX ? reallocarray(list->id, max, sizeof *more) : NULL;

        list->is_failed = !more;
        if (!more)
            return false;
        list->id = more;
        list->max = max;
    }
    list->id[list->n++] = id;
    return true;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a;
    uint64_t y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

void id_list_sort(struct id_list *list)
{
    size_t n = 0;

    if (list->n == 0)
        return;
    qsort(list->id, list->n, sizeof list->id[0], by_id);
    for (size_t i = 0; i < list->n; i++)
        if (n == 0 || list->id[n - 1] != list->id[i])
            list->id[n++] = list->id[i];
    list->n = n;
}
