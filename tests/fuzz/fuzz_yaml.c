/* SPDX-License-Identifier: MIT */
/* Any text as YAML: every value of the tree stands inside of the text, its parent around it, and what is
 * plain is written there as it is read; what is refused has a reason that is safe to print. */
#include <stdlib.h>
#include <string.h>

#include "codec/yaml.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_node(const yaml_node *node, const char *text, size_t len, int depth)
{
    CHECK(depth <= YAML_DEPTH_MAX + 1);
    CHECK(node->start <= node->end && node->end <= len);
    CHECK(node->line > 0 && node->column > 0);
    if (node->is_alias) {
        CHECK(yaml_follow(node) && !yaml_follow(node)->is_alias);
        return;
    }
    if (node->kind == YAML_SCALAR) {
        CHECK(strlen(node->text) == node->n);
        size_t written = node->end - node->start;
        if (node->style == YAML_PLAIN && !memchr(text + node->start, '\n', written) &&
            !memchr(text + node->start, '\r', written))
            CHECK(written == node->n && memcmp(text + node->start, node->text, written) == 0);
        return;
    }
    size_t n = 0;
    for (const yaml_node *at = node->first; at; at = at->next, n++) {
        check_node(at, text, len, depth + 1);
        CHECK(at->start >= node->start && at->end <= node->end);
        CHECK(!at->next || at->next->start >= at->end);
        if (node->kind == YAML_MAP) {
            CHECK(at->value);
            check_node(at->value, text, len, depth + 1);
            CHECK(at->value->start >= at->end && at->value->end <= node->end);
            CHECK(yaml_key(node, at->text) == at);
        }
    }
    CHECK(n == node->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *) data;
    yaml_text *yaml = NULL;
    dibs_err err = { .code = DIBS_OK };

    if (yaml_parse("file", text, size, &yaml, &err) != DIBS_OK) {
        CHECK(yaml == NULL && err.code == DIBS_INVALID && err.msg[0] != '\0');
        for (const char *at = err.msg; *at; at++)
            CHECK((unsigned char) *at >= 0x20 && *at != 0x7f);
        return 0;
    }
    for (size_t i = 0; i < yaml_count(yaml); i++)
        if (yaml_root(yaml, i))
            check_node(yaml_root(yaml, i), text, size, 0);
    yaml_free(yaml);
    return 0;
}
