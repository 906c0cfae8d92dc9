/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_TARGET_H
#define DIBS_HTTP_TARGET_H
/* What stands between method and version of a request line, taken apart. */
#include <stdbool.h>
#include <stddef.h>

#include "http/http.h"

struct target_parameter {
    const char *key, *value;
};
struct target {
    const char *path; /* decoded, begins with '/' */
    struct target_parameter query[HTTP_QUERY_MAX];
    size_t n_query;
};

/* Decodes `text` in place; `out` points into it. NULL, or what is wrong with it. */
const char *target_parse(char *text, struct target *out);
#endif
