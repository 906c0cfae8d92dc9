/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_SERVER_H
#define DIBS_HTTP_SERVER_H
/* An HTTP/1.1 server inside of a loop (base/loop.h); the only code that sees libmicrohttpd. It knows
 * connections, requests and answers, and nothing of their meaning.
 *
 * A turn of the caller:
 *     loop_turn(loop, min(http_next_ms(server), ...))   requested() is called for complete requests
 *     ... work, http_answer() ...
 *     http_run(server)                                  all these answers are sent
 *
 * Requests that break the protocol (a broken head, a body that is too large, a target with control
 * characters) are answered here and never reach requested(). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/loop.h"
#include "dibs/status.h"

struct http_server;
struct http_request;

/* Each 0 means its default. */
struct http_limits {
    size_t max_connections;  /* in all; more wait in the kernel's queue */
    size_t max_per_user;     /* of one uid; all of TCP counts as one user. More: 429 */
    size_t max_large;        /* of one uid under way, as above: bodies or answers of much memory. More: 429 */
    size_t max_body_bytes;   /* 413 */
    size_t max_stream_bytes; /* that a stream's reader has not taken yet; more cut it off */
    int64_t max_step_ms;     /* for a head to arrive, for a body, and for an answer to be taken */
};
/* A daemon's descriptors also serve pidfds; a soft limit of 1024 would be raised by the daemon. */
#define HTTP_CONNECTIONS_DEFAULT 4096
/* A quarter: one user, or two, cannot shut out the others. */
#define HTTP_PER_USER_DEFAULT (HTTP_CONNECTIONS_DEFAULT / 4)
/* Size of a large request, and how many of these: each may need some 20 MiB while it is worked on. */
#define HTTP_LARGE_BYTES (64u << 10)
#define HTTP_LARGE_DEFAULT 4
/* A batch of DIBS_BATCH_MAX requests with long names. */
#define HTTP_BODY_DEFAULT (4u << 20)
/* Some hundred events. A reader that is further behind is cut off and resumes where it was. */
#define HTTP_STREAM_DEFAULT (256u << 10)
/* Far beyond any honest client on a local socket; also how long an idle connection is kept. */
#define HTTP_STEP_DEFAULT_MS 30000
/* Request line and header fields together; 431. The longest that we expect is a name and a project path of
 * 1 KiB, each byte written %XX. */
#define HTTP_HEAD_MAX_BYTES 6144
/* Parameters of a query; more are a 400. */
#define HTTP_QUERY_MAX 32

struct http_handler {
    void *ctx;
    /* Optional, both or none. A connection on `fd` (borrowed) of a listener (http_listen()). Returns its peer
     * for http_peer(); NULL closes it. */
    void *(*connected)(void *ctx, int fd, void *listener);
    /* The connection is gone, and with it its requests. */
    void (*disconnected)(void *ctx, void *peer);
    /* Mandatory. The request is complete. It must be answered exactly once, now or later, by http_answer() or
     * http_stream_begin(); until abandoned() it stays. */
    void (*requested)(void *ctx, struct http_request *r);
    /* Mandatory. The client went away before it was answered, or before its stream was ended: forget r. Never
     * called from within a function of this header, except http_run() and http_close(). */
    void (*abandoned)(void *ctx, struct http_request *r);
};

/* FAILURE when libmicrohttpd is missing. `handler` is borrowed. */
dibs_status http_open(struct loop *loop, const struct http_limits *limits, const struct http_handler *handler,
                      struct http_server **out, dibs_err *err);
/* Ends every connection at once: abandoned() for open requests, disconnected() for all. NULL is fine. */
void http_close(struct http_server *server);

/* Takes over `fd`, a listening stream socket (Unix or TCP), on success. `user` is what connected() gets.
 * INVALID for TLS without http_set_tls(). */
dibs_status http_listen(struct http_server *server, int fd, void *user, bool is_tls, dibs_err *err);
/* PEM texts. Again while running: connections from then on use them, others go on as they are. On failure
 * (INVALID: not a certificate and its key) nothing changes. */
dibs_status http_set_tls(struct http_server *server, const char *cert_pem, const char *key_pem,
                         dibs_err *err);

/* Once a turn, after the work. */
void http_run(struct http_server *server);
/* How long the loop may wait at most; below 0: for ever. */
int64_t http_next_ms(const struct http_server *server);
/* The listening sockets are closed, idle connections too; requests that are on their way are still taken, and
 * every further answer is its connection's last. */
void http_stop_accepting(struct http_server *server);
size_t http_connections(const struct http_server *server);

/* ---- a request: these results are valid until it is answered or abandoned ---- */
/* An answer to HEAD is one to GET: libmicrohttpd leaves its body out. */
const char *http_method(const struct http_request *r);
const char *http_path(const struct http_request *r); /* decoded; begins with '/' */
/* The i-th parameter of that name, decoded; NULL when there is none. "" for one without a value. */
const char *http_query(const struct http_request *r, const char *key, size_t i);
/* The i-th parameter of all, to find unknown ones; false when there are fewer. */
bool http_query_at(const struct http_request *r, size_t i, const char **key, const char **value);
const char *http_header(const struct http_request *r, const char *name); /* NULL when there is none */
const char *http_body(const struct http_request *r, size_t *n);          /* a NUL follows; never NULL */
void *http_peer(const struct http_request *r);
/* It is small, and its answer will be large: it counts as large from here on until that is taken. False: this
 * user has too many of them; to be refused with 429. */
bool http_take_large(struct http_request *r);
/* The caller's own, NULL at first. */
void http_set_user(struct http_request *r, void *user);
void *http_user(const struct http_request *r);

/* ---- answers ---- */
struct http_field {
    const char *name, *value; /* copied */
};
#define HTTP_PROBLEM_TYPE "application/problem+json" /* RFC 9457 */

/* Takes over the bytes; lost ones are answered with 500. Costs no system call; http_run() sends it. `type`
 * may be NULL. r is gone afterwards. */
void http_answer(struct http_request *r, int status, const char *type, struct bytes *body,
                 const struct http_field *extra, size_t n_extra);

/* An answer whose end is not known yet. r stays until http_stream_end(), abandoned(), or one of these two
 * that fails. False: memory is short, r is gone. */
bool http_stream_begin(struct http_request *r, int status, const char *type, const struct http_field *extra,
                       size_t n_extra);
/* False: its reader is too far behind and was cut off, or memory is short. r is gone then. */
bool http_stream_write(struct http_request *r, const void *bytes, size_t n);
/* Bytes that were written are still delivered. r is gone afterwards. */
void http_stream_end(struct http_request *r);
#endif
