/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_ANSWER_H
#define DIBS_LIB_ANSWER_H
/* One HTTP/1.1 answer, read from bytes as they come. No I/O: whatever is at the other end, this takes it or
 * says what is wrong with it, within bounds. */
#include <stdint.h>

#include "base/bytes.h"

enum {
    ANSWER_LINE_MAX = 4096,  /* our daemon's longest header is far shorter */
    ANSWER_HEAD_MAX = 16384, /* all lines that are no body */
};

enum answer_state {
    ANSWER_STATUS,
    ANSWER_HEADERS,
    ANSWER_BODY,
    ANSWER_CHUNK_SIZE,
    ANSWER_CHUNK,
    ANSWER_CHUNK_END,
    ANSWER_TRAILER,
    ANSWER_DONE
};

struct answer { /* zero: nothing has come yet */
    int status; /* 200, 404, ... */
    bool is_closing;
    bool has_retry_after;
    int64_t retry_after_s;
    struct bytes body;

    enum answer_state state;
    bool has_length, is_chunked;
    uint64_t left; /* of the body or chunk */
    size_t n_head, n_line;
    char line[ANSWER_LINE_MAX];
};

/* NULL, or what is wrong: then it is no answer, and never will be. */
const char *answer_take(struct answer *a, const char *bytes, size_t n);
void answer_done(struct answer *a);
#endif
