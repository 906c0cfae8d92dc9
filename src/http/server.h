/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_SERVER_H
#define DIBS_HTTP_SERVER_H
/* An HTTP/1.1 server in an event loop (base/loop.h); the only code that uses libmicrohttpd.
 *
 * A turn of the caller:
 *     loop_turn(loop, min(http_next_ms(server), ...))   calls requested() for complete requests
 *     ... work, http_answer() ...
 *     http_run(server)                                  sends all these answers
 *
 * The server itself refuses requests that break the protocol (an invalid head, a body that is too large, a
 * target with control characters); requested() never gets them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/loop.h"
#include "dibs/net.h"

struct http_server;
struct http_request;

/* 0 means the default, for each. */
struct http_limits {
    /* Connections of all users, and of one uid. Beyond them the server closes the connection that has been
     * idle for longest: of the user with the most connections, or of the same uid. When none is idle, more
     * wait in the kernel's queue, or get 429. */
    size_t max_connections, max_per_user;
    /* Connections over TCP that http_identify() has not named, and how long they may stay so. The oldest is
     * closed for a new one. 0: all of TCP counts as one user, without such a deadline. */
    size_t max_unknown;
    int64_t max_unknown_ms;
    size_t max_large; /* open requests of one uid with large bodies or answers, counted likewise. More: 429 */
    size_t max_body_bytes;   /* larger ones: 413 */
    size_t max_stream_bytes; /* bytes that a stream's reader has not taken yet; more: it is disconnected */
    int64_t max_step_ms;     /* for a head or a body to arrive, and for the client to take an answer; a
                                connection is idle when the client has used up a thirtieth of it */
};
/* Below the limit of descriptors, which also serve pidfds; the daemon raises a soft limit of 1024. */
#define HTTP_CONNECTIONS_DEFAULT 4096
/* A quarter, so that one or two users cannot shut out the others. */
#define HTTP_PER_USER_DEFAULT (HTTP_CONNECTIONS_DEFAULT / 4)
/* Size of a large request, and their number: each may need some 20 MiB while it is processed. */
#define HTTP_LARGE_BYTES (64u << 10)
#define HTTP_LARGE_DEFAULT 4
/* Fits a batch of DIBS_BATCH_MAX requests with long names. */
#define HTTP_BODY_DEFAULT (4u << 20)
/* Some hundred events. A reader that is further behind is disconnected, and resumes where it was. */
#define HTTP_STREAM_DEFAULT (256u << 10)
/* Far longer than any client on a local socket needs; also how long an idle connection is kept. */
#define HTTP_STEP_DEFAULT_MS 30000
/* Request line and header fields together; more: 431. Fits a name and a project path of 1 KiB in %XX. */
#define HTTP_HEAD_MAX_BYTES 6144
/* Parameters of a query; more: 400. */
#define HTTP_QUERY_MAX 32

struct http_handler {
    void *ctx;
    /* Optional, both or none. A client connected on `fd` (borrowed) to a listener (http_listen()). Returns
     * the peer for http_peer(); NULL closes the connection. */
    void *(*connected)(void *ctx, int fd, void *listener);
    /* The connection is gone, and its requests with it. */
    void (*disconnected)(void *ctx, void *peer);
    /* Optional. Return the uid for whose limits the connections of this uid count. */
    uint32_t (*account)(void *ctx, uint32_t uid);
    /* Optional. The head has arrived: call http_identify() now to count the body for its user. */
    void (*arriving)(void *ctx, struct http_request *r);
    /* Mandatory. The request is complete. The handler answers it exactly once, now or later, with
     * http_answer() or http_stream_begin(); r stays until then, or until abandoned(). */
    void (*requested)(void *ctx, struct http_request *r);
    /* Mandatory. The client left before its answer, or before the end of its stream: forget r. No function of
     * this header calls it, except http_run() and http_close(). */
    void (*abandoned)(void *ctx, struct http_request *r);
};

/* Open a server; `handler` is borrowed. FAILURE: libmicrohttpd is missing. */
dibs_status http_open(struct loop *loop, const struct http_limits *limits, const struct http_handler *handler,
                      struct http_server **out, dibs_err *err);
/* End every connection at once: abandoned() for open requests, disconnected() for all. NULL is fine. */
void http_close(struct http_server *server);

/* HTTP_RESERVED: its clients count for no user, and find a place when all others are taken. */
enum { HTTP_TLS = 1, HTTP_RESERVED = 2 };
/* Listen on `fd` (Unix or TCP), which the server owns on success; connected() gets `user`. INVALID: TLS
 * without http_set_tls(). */
dibs_status http_listen(struct http_server *server, int fd, void *user, unsigned flags, dibs_err *err);
/* Set certificate and key as PEM texts. May be repeated: new connections use the new ones. On failure
 * (INVALID: not a certificate and its key) nothing changes. */
dibs_status http_set_tls(struct http_server *server, const char *cert_pem, const char *key_pem,
                         dibs_err *err);

/* Send answers and process connections: call once a turn, after the work. */
void http_run(struct http_server *server);
/* Return how long the loop may wait; below 0: no limit. */
int64_t http_next_ms(const struct http_server *server);
/* Close listening sockets and idle connections. Further answers are the last on their connection. */
void http_stop_accepting(struct http_server *server);
size_t http_connections(const struct http_server *server);

/* ---- a request: results are valid until it is answered or abandoned ---- */
/* HEAD is answered like GET: libmicrohttpd leaves the body out. */
const char *http_method(const struct http_request *r);
const char *http_path(const struct http_request *r); /* decoded; begins with '/' */
/* Return the i-th parameter of that name, decoded; "" without a value; NULL: none. */
const char *http_query(const struct http_request *r, const char *key, size_t i);
/* Return the i-th parameter of all, to find unknown ones; false: there are fewer. */
bool http_query_at(const struct http_request *r, size_t i, const char **key, const char **value);
const char *http_header(const struct http_request *r, const char *name); /* NULL when there is none */
const char *http_body(const struct http_request *r, size_t *n);          /* a NUL follows; never NULL */
void *http_peer(const struct http_request *r);
/* Count the connection, which is one over TCP, for the limits of this uid from now on. False: too many
 * connections; refuse the request with 429. */
bool http_identify(struct http_request *r, uint32_t uid);
/* Write the address of a client over TCP; "" for others. */
void http_client_address(const struct http_request *r, char out[DIBS_ADDRESS_TEXT_MAX + 1]);
/* Count a request with a large answer as large until that is taken. False: too many; refuse it with 429. */
bool http_take_large(struct http_request *r);
/* A pointer of the caller, NULL at first. */
void http_set_user(struct http_request *r, void *user);
void *http_user(const struct http_request *r);

/* ---- answers ---- */
struct http_field {
    const char *name, *value; /* copied */
};
#define HTTP_PROBLEM_TYPE "application/problem+json" /* RFC 9457 */

/* Answer with the bytes, which it takes over (lost ones: 500). `type` may be NULL. r is gone afterwards. */
void http_answer(struct http_request *r, int status, const char *type, struct bytes *body,
                 const struct http_field *extra, size_t n_extra);

/* Start an answer of unknown length. r stays until http_stream_end(), abandoned(), or a false result of these
 * two functions. False: out of memory, r is gone. */
bool http_stream_begin(struct http_request *r, int status, const char *type, const struct http_field *extra,
                       size_t n_extra);
/* False: the reader was too far behind and was disconnected, or out of memory; r is gone. */
bool http_stream_write(struct http_request *r, const void *bytes, size_t n);
/* End the stream; written bytes are still delivered. r is gone afterwards. */
void http_stream_end(struct http_request *r);
#endif
