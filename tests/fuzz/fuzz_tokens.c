/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of tokens: an accepted file admits every user that it names, with that user's token and
 * no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/tokens.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const struct tokens *tokens, char *line)
{
    char principal[DIBS_PRINCIPAL_MAX + 1] = "";
    uint32_t uid = 0;
    char *rest = NULL;
    const char *first = strtok_r(line, " \t", &rest);
    const char *token = first ? strtok_r(NULL, " \t", &rest) : NULL;

    if (!first || first[0] == '#')
        return;
    CHECK(token && !strtok_r(NULL, " \t", &rest));
    size_t n = strlen(token);
    CHECK(n >= TOKENS_TOKEN_MIN && n <= TOKENS_TOKEN_MAX);
    CHECK(tokens_find(tokens, token, n, &uid));
    (void) snprintf(principal, sizeof principal, "uid:%u", uid);
    CHECK(strcmp(principal, first) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokens *tokens = NULL;
    dibs_err err = { 0 };
    char *text = malloc(size + 1);

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    dibs_status s = tokens_parse("fuzz", text, size, &tokens, &err);
    CHECK(s == DIBS_OK ? tokens != NULL : !tokens && err.msg[0]);
    if (s == DIBS_OK && strlen(text) == size) {
        char *rest = text;

        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
            check_line(tokens, line);
    }
    tokens_free(tokens);
    free(text);
    return 0;
}
