/* SPDX-License-Identifier: MIT */
/* Any text as a token: what is accepted is written back the same, but for leading zeros. */
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record_token token = { 0 };
    struct record_token again = { 0 };
    struct claim_record row = { 0 };
    char formatted[DIBS_TOKEN_MAX + 1];
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (record_token_parse(text, &token)) {
        CHECK(token.id > 0 && token.id <= INT64_MAX && token.generation > 0 && token.generation <= INT64_MAX);
        row.claim.id = token.id;
        row.claim.generation = token.generation;
        memcpy(row.secret, token.secret, sizeof row.secret);
        record_token_format(&row, formatted);
        CHECK(strlen(formatted) <= strlen(text));
        CHECK(record_token_parse(formatted, &again));
        CHECK(again.id == token.id && again.generation == token.generation);
        CHECK(record_secret_equal(again.secret, token.secret));
    } else {
        CHECK(token.id == 0);
    }
    free(text);
    return 0;
}
