/* SPDX-License-Identifier: MIT */
/* Any bytes as a template: pieces of text are the template's own bytes in order, and a refusal is safe to
 * print. */
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "workload/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct template t = { 0 };
    dibs_err err = { .code = DIBS_OK };

    CHECK(text);
    if (size)
        memcpy(text, data, size);
    if (template_parse("file", text, size, &t, &err) == DIBS_OK) {
        const char *last = text;

        for (size_t i = 0; i < t.n; i++) {
            const struct template_piece *piece = &t.pieces[i];

            CHECK(piece->n <= size && piece->line >= 1);
            if (piece->text >= text && piece->text < text + size) {
                CHECK(piece->kind == TEMPLATE_TEXT && piece->text >= last);
                last = piece->text + piece->n;
            } else {
                CHECK(strlen(piece->text) == piece->n);
            }
        }
        template_free(&t);
    } else {
        CHECK(err.code == DIBS_INVALID && strncmp(err.msg, "file:", 5) == 0);
    }
    free(text);
    return 0;
}
