/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_CERTIFICATE_H
#define DIBS_SERVER_CERTIFICATE_H
/* A server's certificate and key: files that may be replaced while the server runs. They are polled by path:
 * Kubernetes updates a Secret by a link further up, which a watch of the file misses. */
#include <stdbool.h>
#include <stdint.h>

#include "http/server.h"

enum { CERTIFICATE_LOOK_MS = 1000 }; /* polling interval */

struct certificate { /* all zero except the paths */
    const char *cert, *key;
    bool is_due;               /* read at the next turn */
    uint64_t loaded;           /* hash of the pair in use */
    int64_t look_ms;           /* when to read the files next */
    bool is_logged;            /* the unusable pair was logged */
    int64_t from_ms, until_ms; /* wall clock: validity of the certificates in use */
    bool is_invalid_logged;    /* their end was logged */
};

/* Load the pair and use it from now on; the key must be ours or root's, and closed to other users (DENIED).
 * INVALID: it cannot be read or used. The previous pair stays then. */
dibs_status certificate_load(struct certificate *c, struct http_server *server, dibs_err *err);
/* Check that the certificate, and those that it comes with, are valid now. INVALID: clients refuse it. */
dibs_status certificate_check(const struct certificate *c, dibs_err *err);
/* Log when the certificate stops being valid, once; it stays in use, because clients may trust it all the
 * same. */
void certificate_log_end(struct certificate *c);
/* Reload the pair if it has changed; called once per loop turn. An unusable pair is logged once and retried:
 * the two files are written one after the other. */
void certificate_turn(struct certificate *c, struct http_server *server, int64_t now_ms);
#endif
