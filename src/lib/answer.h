/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_ANSWER_H
#define DIBS_LIB_ANSWER_H
/* Parses one HTTP/1.1 answer from bytes as they arrive, within bounds and without I/O. The daemon sends the
 * length of each body; only its event stream, which is not read here, is chunked. */
#include <stdint.h>

#include "base/bytes.h"

enum {
    ANSWER_LINE_MAX = 4096,  /* the daemon's longest header is far shorter */
    ANSWER_HEAD_MAX = 16384, /* all lines before the body */
};

enum answer_state { ANSWER_STATUS, ANSWER_HEADERS, ANSWER_BODY, ANSWER_DONE };

struct answer { /* zero: no byte has arrived */
    int status; /* 200, 404, ... */
    bool is_closing;
    int64_t retry_after_s; /* 0: not given */
    struct bytes body;

    enum answer_state state;
    bool has_length;
    uint64_t left; /* missing bytes of the body */
    size_t n_head, n_line;
    char line[ANSWER_LINE_MAX];
};

/* Parse the next bytes. Return NULL, or why this is no valid answer. */
const char *answer_take(struct answer *a, const char *bytes, size_t n);
void answer_done(struct answer *a);
#endif
