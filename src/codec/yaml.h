/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CODEC_YAML_H
#define DIBS_CODEC_YAML_H
/* YAML (and JSON, by the same grammar) as a tree with positions; the only code that uses libfyaml. Size,
 * depth and number of nodes are limited. Duplicate keys, directives, control characters and an alias inside
 * its own target are refused: the tree has no cycles. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "dibs/status.h"

enum {
    YAML_BYTES_MAX = 16 << 20, /* larger than any manifest that a person or a generator writes */
    YAML_DEPTH_MAX = 64,       /* libfyaml's guaranteed depth */
    YAML_NODES_MAX = 1 << 20,
};

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };
enum yaml_style { YAML_PLAIN, YAML_QUOTED, YAML_BLOCK_TEXT, YAML_FLOW, YAML_BLOCK };

typedef struct yaml_node yaml_node;
struct yaml_node {
    enum yaml_kind kind;
    enum yaml_style style; /* of a scalar: PLAIN, QUOTED, BLOCK_TEXT; of the others: FLOW, BLOCK */
    bool is_alias;         /* reached by "*name": its content is elsewhere */
    uint32_t line, column; /* from 1 */
    size_t start, end;     /* bytes of the text; the end of a block list or map is the end of its last node */
    const char *text;      /* of a scalar, NUL-terminated; "" for an empty one */
    size_t n;              /* bytes of a scalar, items of a list, pairs of a map */
    const yaml_node *first;  /* item of a list, or key of a map's first pair */
    const yaml_node *next;   /* the next item or key of the same parent */
    const yaml_node *value;  /* of a key */
    const yaml_node *target; /* of an alias */
};

typedef struct yaml_text yaml_text; /* opaque: all documents of one text */

/* Parse a text. `name` is the file in messages, which begin "NAME:LINE:COLUMN: ". INVALID, FAILURE. */
dibs_status yaml_parse(const char *name, const char *text, size_t len, yaml_text **out, dibs_err *err);
void yaml_free(yaml_text *yaml); /* NULL is fine */
DEFINE_AUTO(yaml_text, yaml_free)
size_t yaml_count(const yaml_text *yaml);
/* Return the root of the i-th document; NULL: it is empty. */
const yaml_node *yaml_root(const yaml_text *yaml, size_t i);
const char *yaml_name(const yaml_text *yaml);

/* Return the node itself, or the target of an alias. NULL stays NULL. */
const yaml_node *yaml_follow(const yaml_node *node);
/* Return the value of a key of a map, followed; NULL: no such key, or not a map. */
const yaml_node *yaml_get(const yaml_node *map, const char *key);
/* Return the key's own node, for its position. */
const yaml_node *yaml_key(const yaml_node *map, const char *key);
/* Return the text of a scalar; NULL for anything else, and for NULL. */
const char *yaml_string(const yaml_node *node);
/* Return whether JSON would quote the scalar: it is quoted here, or not a number, null, true or false. */
bool yaml_is_text(const yaml_node *node);
/* Return whether it is "null", "~" or nothing, not quoted. */
bool yaml_is_null(const yaml_node *node);
bool yaml_bool(const yaml_node *node, bool *out);
/* Read decimal digits, not quoted, at most `max`. */
bool yaml_number(const yaml_node *node, uint32_t max, uint32_t *out);

/* Fail with INVALID, with "NAME:LINE:COLUMN: " of the node in front of the message. */
dibs_status yaml_error(const yaml_text *yaml, const yaml_node *at, dibs_err *err, const char *fmt, ...)
    DIBS_PRINTF(4, 5);

/* The faults of one text. The first fault stays, so a reader checks the status at the end. */
struct yaml_faults {
    const yaml_text *yaml;
    dibs_err *err;
    dibs_status status;
};
void yaml_fault(struct yaml_faults *faults, const yaml_node *at, const char *fmt, ...) DIBS_PRINTF(3, 4);
#endif
