/* SPDX-License-Identifier: MIT */
/* Any bytes as a line of a command on a terminal: what stays only writes text and sets colours. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/relay.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + 1);

    CHECK(line);
    if (size > 0)
        memcpy(line, data, size);
    size_t n = relay_clean_line(line, size);
    CHECK(n <= size);
    for (size_t i = 0; i < n; i++) {
        CHECK(line[i] != '\r' && line[i] != '\b');
        if (line[i] != '\033')
            continue;
        size_t end = i + 1;

        CHECK(end < n && line[end] == '[');
        for (end++; end < n && (line[end] < '@' || line[end] > '~');)
            end++;
        CHECK(end < n && line[end] == 'm');
        i = end;
    }
    CHECK(relay_clean_line(line, n) == n); /* nothing more to clean */
    free(line);
    return 0;
}
