/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_WIRE_H
#define DIBS_TESTS_WIRE_H
/* Values at their limits, and how to compare and parse them. */
#include <stdlib.h>
#include <string.h>

#include "codec/wire.h"
#include "support/t.h"

#define SAME(member) assert_true(a->member == b->member)
#define SAME_TEXT(member) assert_string_equal(a->member, b->member)

void same_address(const dibs_address *a, const dibs_address *b);
void same_bindings(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b);
void same_claim(const dibs_claim *a, const dibs_claim *b, bool with_token);
void fill_text(char *out, size_t n, char c);

/* Every member has something, and what has a limit is at it. */
dibs_claim full_claim(void);

struct written {
    struct bytes bytes;
    struct jsonw w;
    jsonr_doc *doc;
};

struct jsonw *written_begin(struct written *t);

/* Parse the written text. */
const jsonr_value *written_root(struct written *t);
void written_done(struct written *t);
#endif
