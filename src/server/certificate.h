/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_CERTIFICATE_H
#define DIBS_SERVER_CERTIFICATE_H
/* A server's certificate and key: files that may be replaced while the server runs. They are read by path
 * again and again: a Secret of Kubernetes changes by a link further up, which a watch of the file misses. */
#include <stdbool.h>
#include <stdint.h>

#include "http/server.h"

enum { CERTIFICATE_LOOK_MS = 1000 }; /* between two checks */

struct certificate { /* zero but for the paths */
    const char *cert, *key;
    bool is_due;     /* to be read at once */
    uint64_t loaded; /* hash of the pair that is in use */
    int64_t look_ms; /* when they are read next */
    bool is_logged;  /* that they cannot be used */
};

/* Read the pair and use it from now on. INVALID: it cannot be read or used, and the pair before stays. */
dibs_status certificate_load(struct certificate *c, struct http_server *server, dibs_err *err);
/* Once a turn: read the pair again now and then. One that cannot be used is logged, once. */
void certificate_turn(struct certificate *c, struct http_server *server, int64_t now_ms);
#endif
