/* SPDX-License-Identifier: MIT */
/* Any bytes as a request of the portserver protocol: what is accepted is a number within white space, written
 * in digits, and the same number when it is written plainly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/portserver/portserver.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t pid = -7;
    int64_t again = 0;
    char plain[24];
    char *text = calloc(1, size + 1); /* of its own, so that a byte too far is found */

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    if (portserver_pid_parse(text, size, &pid)) {
        CHECK(size > 0 && size <= PORTSERVER_REQUEST_MAX);
        for (size_t i = 0; i < size; i++)
            CHECK(memchr("0123456789_+- \t\n\v\f\r", text[i], 20));
        int n = snprintf(plain, sizeof plain, "%lld", (long long) pid);
        CHECK(n > 0 && portserver_pid_parse(plain, (size_t) n, &again));
        CHECK(again == pid);
    } else {
        CHECK(pid == -7);
    }
    free(text);
    return 0;
}
