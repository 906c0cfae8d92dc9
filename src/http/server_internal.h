/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_SERVER_INTERNAL_H
#define DIBS_HTTP_SERVER_INTERNAL_H
/* Declarations shared by the files of the HTTP server. */
#include <microhttpd.h>
#include <sys/queue.h>

#include "http/request_target.h"
#include "http/server.h"

/* One daemon of libmicrohttpd: without TLS, or with one certificate. We accept its connections. */
struct http_engine {
    loop_source source; /* its epoll descriptor */
    struct http_server *server;
    struct MHD_Daemon *daemon;
    size_t n_connections;
    bool is_due;     /* it has answers or resumed connections that its epoll descriptor does not show */
    bool is_retired; /* replaced by one with a new certificate */
    TAILQ_ENTRY(http_engine) link;
};

struct http_listener {
    loop_source source;
    struct http_server *server;
    void *user;
    bool is_tls, is_reserved;
    TAILQ_ENTRY(http_listener) link;
};

enum http_state {
    HTTP_ARRIVING,  /* no request, or a part of one */
    HTTP_PENDING,   /* the handler has it */
    HTTP_ANSWERED,  /* or refused by us: libmicrohttpd does the rest */
    HTTP_STREAMING, /* answered, and the handler still writes */
    HTTP_GONE,      /* the handler has forgotten it; to be closed */
};

/* A connection and its current request: the next one begins when this one is answered. */
struct http_request {
    loop_source watch; /* notices a client that leaves while the connection is suspended */
    bool is_watched;
    bool is_suspended;
    bool is_timed; /* it is in server->steps */
    bool is_used;  /* a request was answered on it, so it may be idle now */
    enum http_state state;
    struct http_server *server;
    struct http_engine *engine;
    struct MHD_Connection *connection;
    bool is_tls;
    void *peer;
    struct http_account *account;
    bool is_leaving;     /* it was closed for another one, and does not count any more */
    bool is_unknown;     /* it is in server->unknown */
    int64_t known_by_ms; /* deadline for http_identify() if it is unknown */
    uint64_t turn;       /* turn in which the handler got it */
    int64_t deadline_ms; /* of the current step */
    TAILQ_ENTRY(http_request) link, step, stranger;

    const char *raw_target;   /* in libmicrohttpd's memory */
    size_t raw_n;             /* including its NUL */
    struct bytes target_text; /* our copy, kept for the next request */
    const char *target_trouble;
    struct request_target target;
    const char *method;
    void *user;

    struct bytes body; /* a NUL follows */
    bool is_body_too_large;
    bool is_large;   /* counted as large for its user */
    bool is_crowded; /* the user had too many large ones */

    struct bytes stream; /* bytes that the reader has not taken yet */
    size_t stream_at;    /* offset of the first one */
    bool is_stream_ended;
};

/* The connections of one uid, while it has any. */
struct http_account {
    uint64_t uid;        /* above UINT32_MAX: clients of reserved listeners */
    size_t n, n_leaving; /* connections, and those of them that leave */
    size_t n_large;      /* of their large requests */
    TAILQ_ENTRY(http_account) link;
};

TAILQ_HEAD(http_engines, http_engine);
TAILQ_HEAD(http_listeners, http_listener);
TAILQ_HEAD(http_requests, http_request);
TAILQ_HEAD(http_accounts, http_account);

struct http_server {
    struct loop *loop;
    struct http_limits limits;
    const struct http_handler *handler;
    struct http_engine *no_tls, *tls; /* engines for new connections; tls may be NULL */
    struct http_engines engines;
    struct http_listeners listeners;
    struct http_requests requests;
    struct http_requests steps; /* earliest deadline first, because all steps have the same length */
    size_t n_connections;
    struct http_requests unknown; /* connections over TCP without a user, the oldest first */
    struct http_accounts accounts;
    struct http_request *adding; /* the connection being added to libmicrohttpd */
    uint64_t turn;
    bool is_paused; /* do not accept until a connection ends, or until: */
    int64_t accept_again_ms;
    bool is_stopping;
    char trouble[256]; /* last message of libmicrohttpd */
};

enum { HTTP_RESERVED_MAX = 64 }; /* connections to reserved listeners above max_connections */

/* server_connection.c */
/* Add an accepted connection, which counts for the account. */
void connection_add(struct http_server *server, int fd, const struct http_listener *from,
                    struct http_account *account);
void connection_end(struct http_request *r);
void connection_begin_step(struct http_request *r);
void connection_end_step(struct http_request *r);
/* End the request, answered or not; the connection waits for the next. */
void connection_reset(struct http_request *r);
/* Suspend the connection in libmicrohttpd until connection_resume(), and watch for the client's end. */
void connection_suspend(struct http_request *r);
void connection_resume(struct http_request *r);
/* Shut the socket down: libmicrohttpd then ends the connection. */
void connection_cut(struct http_request *r);
/* Limit the current step to a second: the server is stopping. */
void connection_hurry(struct http_request *r);
/* Return whether it was answered and has received nothing since. */
bool connection_is_idle(const struct http_request *r);
/* Count the request as large for its user, once. */
void connection_count_large(struct http_request *r);

/* server_request.c: the callbacks of libmicrohttpd, in order. */
void *request_head_begins(void *cls, const char *target, struct MHD_Connection *connection);
enum MHD_Result request_arrives(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload, size_t *upload_n,
                                void **context);
void request_completed(void *cls, struct MHD_Connection *connection, void **context,
                       enum MHD_RequestTerminationCode how);

/* server_accept.c */
void listener_ready(loop_source *source, uint32_t events);
void accept_resume(struct http_server *server);
/* Uncount a connection of the account; the last one frees it. */
void accept_leave(struct http_server *server, struct http_account *account);
/* Put the connection on the list of those without a user, or off it. */
void accept_begin_unknown(struct http_request *r);
void accept_end_unknown(struct http_request *r);

/* server_response.c: refuse a request that the handler never gets. MHD_NO: out of memory. */
enum MHD_Result answer_refuse(struct http_request *r, int status, const char *title, const char *detail);

#endif
