/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_REQUEST_TARGET_H
#define DIBS_HTTP_REQUEST_TARGET_H
/* Parse the target of a request line: path and query. */
#include <stdbool.h>
#include <stddef.h>

#include "http/server.h"

struct target_parameter {
    const char *key, *value;
};
struct request_target {
    const char *path; /* decoded, begins with '/' */
    struct target_parameter query[HTTP_QUERY_MAX];
    size_t n_query;
};

/* Decode `text` in place; `out` points into it. Return NULL, or an error text. */
const char *request_target_parse(char *text, struct request_target *out);
#endif
