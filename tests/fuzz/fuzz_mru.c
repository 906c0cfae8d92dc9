/* SPDX-License-Identifier: MIT */
/* Any bytes as a line of the recently used ports: what is accepted is written as a line that reads the same.
 */
#include <stdlib.h>
#include <string.h>

#include "ledger/mru.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mru_record record = { 0 };
    struct mru_record again = { 0 };
    char line[192] = "";
    char second[192] = "";

    if (!mru_record_parse((const char *) data, size, &record)) {
        CHECK(record.port == 0);
        return 0;
    }
    CHECK(record.port > 0 && record.used_ms >= 0 && record.boot_id[0] && record.instance[0]);
    mru_record_format(&record, line);
    size_t len = strlen(line);
    CHECK(len > 0 && line[len - 1] == '\n' && !memchr(line, '\n', len - 1));
    CHECK(mru_record_parse(line, len - 1, &again));
    CHECK(again.port == record.port && again.used_ms == record.used_ms &&
          again.binding.proto == record.binding.proto);
    CHECK(dibs_address_equal(&again.binding.address, &record.binding.address));
    mru_record_format(&again, second);
    CHECK(strcmp(line, second) == 0);
    return 0;
}
