/* SPDX-License-Identifier: MIT */
/* Any bytes as the variables that a claim records: what differs is named by clean words, or nothing is. */
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "workload/restarts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char now[] = "PORT=20001 API=20002,20003";
    char *was = calloc(size + 1, 1);
    char *copy = strdup(now);
    struct workload_restart r = { .was = was, .now = copy };

    if (!was || !copy)
        abort();
    memcpy(was, data, size);
    restart_compare(&r);
    for (size_t i = 0; i < r.n; i++) {
        const struct workload_difference *d = &r.all[i];

        CHECK(workload_is_env_name(d->variable) && (d->was || d->now));
        CHECK(!d->was || (d->was[0] && !d->was[strspn(d->was, "0123456789,")]));
        CHECK(!d->was || !d->now || strcmp(d->was, d->now) != 0);
    }
    restart_free(&r);
    return 0;
}
