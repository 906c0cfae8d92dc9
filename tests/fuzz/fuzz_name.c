/* SPDX-License-Identifier: MIT */
/* Any text as a name: what is accepted keeps every rule, what is refused has a reason that is safe to print.
 */
#include <stdlib.h>
#include <string.h>

#include "dibs/settings.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dibs_err err = { .code = DIBS_OK };
    size_t parts = 1;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (dibs_name_check(text, &err) == DIBS_OK) {
        CHECK(text[0] && strlen(text) <= DIBS_NAME_MAX);
        for (const char *p = text; *p; p++) {
            CHECK((unsigned char) *p > 0x20 && *p != 0x7f);
            CHECK(*p != '/' || (p[1] && p[1] != '/'));
            parts += *p == '/';
        }
        CHECK(text[0] != '/' && parts <= DIBS_NAME_PARTS_MAX);
        CHECK(text[strspn(text, "0123456789")] != '\0');
    } else {
        CHECK(err.code == DIBS_INVALID && err.msg[0]);
        for (const char *p = err.msg; *p; p++)
            CHECK((unsigned char) *p >= 0x20 && *p != 0x7f);
    }
    free(text);
    return 0;
}
