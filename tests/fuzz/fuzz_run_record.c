/* SPDX-License-Identifier: MIT */
/* Any bytes as a note of `dibs run`: what is read has valid identities, and no other process's. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "runs/record.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_record record;
    char *text = malloc(size + 1); /* so that a read beyond the text is seen */

    CHECK(text);
    memcpy(text, data, size);
    memset(&record, 'x', sizeof record);
    if (run_record_parse(text, size, &record)) {
        CHECK(record.process.pid > 0 && record.runner.pid > 0);
        CHECK(text_is_boot_id(record.process.boot_id) && text_is_boot_id(record.runner.boot_id));
        CHECK(strnlen(record.title, sizeof record.title) < sizeof record.title);
        CHECK(!strchr(record.title, '\n') && !record.id[0]);
    } else {
        CHECK(record.process.pid != 0); /* untouched */
    }
    free(text);
    return 0;
}
