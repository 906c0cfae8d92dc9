/* SPDX-License-Identifier: MIT */
/* Any text as a request target: what is accepted has a path without control characters and parts that lie
 * inside of the text, what is refused has a reason that can stand in JSON. */
#include <stdlib.h>
#include <string.h>

#include "http/request_target.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(const char *part, const char *text, size_t size)
{
    CHECK(part >= text && part <= text + size);
    CHECK(part + strlen(part) <= text + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request_target target = { 0 };
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    const char *trouble = request_target_parse(text, &target);

    if (trouble) {
        CHECK(*trouble && !strpbrk(trouble, "\"\\\n"));
    } else {
        CHECK(target.path[0] == '/');
        check_inside(target.path, text, size);
        for (const char *p = target.path; *p; p++)
            CHECK((unsigned char) *p >= 0x20 && *p != 0x7f);
        CHECK(target.n_query <= HTTP_QUERY_MAX);
        for (size_t i = 0; i < target.n_query; i++) {
            check_inside(target.query[i].key, text, size);
            check_inside(target.query[i].value, text, size);
        }
    }
    free(text);
    return 0;
}
