/* SPDX-License-Identifier: MIT */
/* Any bytes as /etc/subuid: a single line of numbers gives its uids, and no others, to their owner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/subuid.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_only_line(const struct subuids *map, const char *text)
{
    char *end = NULL;
    unsigned long owner = strtoul(text, &end, 10);
    unsigned long first = *end == ':' ? strtoul(end + 1, &end, 10) : 0;
    unsigned long n = *end == ':' ? strtoul(end + 1, &end, 10) : 0;
    char again[64];

    (void) snprintf(again, sizeof again, "%lu:%lu:%lu", owner, first, n);
    if (strcmp(again, text) != 0 || owner >= UINT32_MAX || first >= UINT32_MAX || n == 0 ||
        n > UINT32_MAX - first)
        return;
    CHECK(map->n == 1);
    CHECK(subuids_owner(map, (uint32_t) first) == owner);
    CHECK(subuids_owner(map, (uint32_t) (first + n - 1)) == owner);
    CHECK(subuids_owner(map, (uint32_t) (first + n)) == first + n);
    CHECK(first == 0 || subuids_owner(map, (uint32_t) (first - 1)) == first - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct subuids map = { 0 };
    char *text = malloc(size + 1);

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    subuids_parse(&map, text);
    check_only_line(&map, text);
    if (map.n == 0)
        CHECK(subuids_owner(&map, 100000) == 100000);
    subuids_done(&map);
    free(text);
    return 0;
}
