/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_CERTIFICATE_H
#define DIBS_OPERATOR_CERTIFICATE_H
/* A server's certificate and key: files that somebody replaces while the server runs. They are looked at by
 * their path, again and again: a Secret of Kubernetes changes by a link further up, of which no notice of the
 * file itself tells. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "http/http.h"

enum { CERTIFICATE_LOOK_MS = 1000 }; /* between two looks */

/* What a file was when it was read. */
struct certificate_stamp {
    dev_t dev;
    ino_t ino;
    struct timespec time;
    off_t size;
};

struct certificate { /* zero but for the paths */
    const char *cert, *key;
    bool is_due; /* to be read anew, changed or not */
    struct certificate_stamp stamps[2];
    int64_t look_ms; /* when they are looked at next */
    bool is_told;    /* that they do not fit together */
};

dibs_status certificate_load(struct certificate *c, struct http_server *server, dibs_err *err);
/* Once a turn. What cannot be used is told, once, and the pair before stays. */
void certificate_mind(struct certificate *c, struct http_server *server, int64_t now_ms);
#endif
