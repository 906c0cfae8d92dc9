/* SPDX-License-Identifier: MIT */
/* Any bytes: the reader takes or refuses them, every borrowed value can be walked, and what the writer
 * makes of a string reads back. Base64 that decodes encodes to the same text. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const jsonr_value *v, unsigned depth)
{
    static const char *const known[] = { "port", NULL };
    const char *s = NULL;
    int64_t n = 0;
    bool b = false;

    assert(depth <= JSON_DEPTH_MAX);
    (void) jsonr_get_string(v, "name", &s);
    (void) jsonr_get_int(v, "port", &n);
    (void) jsonr_get_bool(v, "kept", &b);
    (void) jsonr_unknown_key(v, known);
    for (size_t i = 0; i < jsonr_array_size(v); i++)
        walk(jsonr_array_at(v, i), depth + 1);
    if (jsonr_get(v, "claims"))
        walk(jsonr_get(v, "claims"), depth + 1);
}

static void written_text_reads_back(const char *text)
{
    char *out = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&out, &len);
    struct jsonw w;
    jsonr_doc *doc = NULL;

    if (!to)
        return;
    jsonw_begin(&w, to);
    jsonw_array(&w);
    jsonw_string(&w, text);
    jsonw_end_array(&w);
    jsonw_finish(&w);
    if (fclose(to) == 0) {
        dibs_err err = { 0 };
        dibs_status status = jsonr_parse(out, len, &doc, &err);

        if (status != DIBS_OK)
            abort();
        assert(jsonr_array_size(jsonr_root(doc)) == 1);
    }
    jsonr_free(doc);
    free(out);
}

static void base64_is_one_to_one(const char *text, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    char *again = malloc(size + 5);
    size_t n = 0;

    if (bytes && again && base64_decode(text, bytes, size, &n)) {
        base64_encode(bytes, n, again);
        if (strcmp(text, again) != 0)
            abort();
    }
    free(bytes);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    jsonr_doc *doc = NULL;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (jsonr_parse(text, size, &doc, NULL) == DIBS_OK)
        walk(jsonr_root(doc), 1);
    jsonr_free(doc);
    written_text_reads_back(text);
    base64_is_one_to_one(text, size);
    free(text);
    return 0;
}
