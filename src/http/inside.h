/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_INSIDE_H
#define DIBS_HTTP_INSIDE_H
/* What the files of this room share. */
#include <sys/queue.h>

#include "http/http.h"
#include "http/late_mhd.h"
#include "http/target.h"

/* One daemon of libmicrohttpd: plain, or TLS with one certificate. It accepts nothing itself. */
struct http_engine {
    loop_source source; /* its epoll descriptor */
    struct http_server *server;
    struct MHD_Daemon *daemon;
    size_t n_connections;
    bool is_due;     /* something was answered or resumed, of which its epoll descriptor knows nothing */
    bool is_retired; /* another certificate has taken its place */
    TAILQ_ENTRY(http_engine) link;
};

struct http_listener {
    loop_source source;
    struct http_server *server;
    struct http_door door;
    TAILQ_ENTRY(http_listener) link;
};

enum http_state {
    HTTP_ARRIVING,  /* no request, or a part of one */
    HTTP_ASKED,     /* with the handler */
    HTTP_ANSWERED,  /* or refused by us: the rest is libmicrohttpd's */
    HTTP_STREAMING, /* answered, and the handler still writes */
    HTTP_GONE,      /* the handler knows no more of it; to be closed */
};

/* A connection and the one request that is under way on it: the next begins when this one is answered. */
struct http_request {
    loop_source watch; /* tells that the client went away while libmicrohttpd does not look */
    bool is_watched;
    bool is_suspended;
    bool is_timed; /* is in server->steps */
    bool is_used;  /* a request was answered on it: it may be idle now */
    enum http_state state;
    struct http_server *server;
    struct http_engine *engine;
    struct MHD_Connection *connection;
    struct http_door door;
    void *peer;
    uint32_t uid;
    uint64_t turn;       /* in which it was given to the handler */
    int64_t deadline_ms; /* of the step under way */
    TAILQ_ENTRY(http_request) link, step;

    const char *raw_target; /* in libmicrohttpd's memory */
    size_t raw_n;           /* with its NUL */
    char *target_text;      /* our copy, kept for the next request */
    size_t target_size;
    const char *target_trouble;
    struct target target;
    const char *method;
    void *user;

    char *body;
    size_t body_n, body_size, body_max;
    bool is_body_too_large;
    bool is_large;   /* counted as such for its user */
    bool is_crowded; /* it would have been one too many */

    struct bytes sent; /* the body of the answer under way, if it is ours */
    struct bytes kept; /* ... and that of a former one: room for the next */

    /* A stream: bytes [stream_at, stream_at + stream_n) wait for the reader. */
    char *stream;
    size_t stream_at, stream_n, stream_size;
    bool is_stream_ended;
};

struct http_user_count {
    uint32_t uid;
    size_t n;       /* connections */
    size_t n_large; /* of their requests */
};

TAILQ_HEAD(http_engines, http_engine);
TAILQ_HEAD(http_listeners, http_listener);
TAILQ_HEAD(http_requests, http_request);

struct http_server {
    struct loop *loop;
    struct http_limits limits;
    const struct http_handler *handler;
    const struct late_mhd *mhd;
    struct http_engine *plain, *tls; /* for new connections; tls may be NULL */
    struct http_engines engines;
    struct http_listeners listeners;
    struct http_requests requests;
    struct http_requests steps; /* earliest deadline first: all steps are of one length */
    size_t n_connections;
    struct http_user_count *users;
    size_t n_users, max_users;
    struct http_request *adding; /* on its way into libmicrohttpd */
    uint64_t turn;
    bool is_paused; /* no accepting until a connection ends, or until... */
    int64_t accept_again_ms;
    bool is_stopping;
    char trouble[256]; /* what libmicrohttpd said last */
};

/* connection.c: from accept to the end. */
void connection_add(struct http_server *server, int fd, const struct http_listener *from, uint32_t uid);
void connection_end(struct http_request *r);
void connection_begin_step(struct http_request *r);
void connection_end_step(struct http_request *r);
/* The request is over, answered or not; the connection waits for the next. */
void connection_reset(struct http_request *r);
/* Libmicrohttpd looks away until connection_resume(); we look instead. */
void connection_suspend(struct http_request *r);
void connection_resume(struct http_request *r);
/* Ends it soon: libmicrohttpd finds the socket closed. */
void connection_cut(struct http_request *r);
/* The server is stopping: the step under way gets a second. */
void connection_hurry(struct http_request *r);
/* It was answered and has said nothing since. */
bool connection_is_idle(const struct http_request *r);
/* Counts it for its user, once. */
void connection_count_large(struct http_request *r);
/* A buffer of at least `need` bytes, grown by doubling; false when memory is short. */
bool connection_grow(char **bytes, size_t *size, size_t need);

/* request.c: what libmicrohttpd calls, in its order. */
void *request_head_begins(void *cls, const char *target, struct MHD_Connection *connection);
enum MHD_Result request_arrives(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload, size_t *upload_n,
                                void **context);
void request_completed(void *cls, struct MHD_Connection *connection, void **context,
                       enum MHD_RequestTerminationCode how);

/* accept.c */
void listener_ready(loop_source *source, uint32_t events);
void accept_resume(struct http_server *server);
/* Of a connection: it has one as long as it is there. */
struct http_user_count *accept_user(const struct http_server *server, uint32_t uid);
void accept_forget_user(struct http_server *server, uint32_t uid);

/* answer.c: one of our own, for what the handler never sees. MHD_NO when even that is not possible. */
enum MHD_Result answer_refuse(struct http_request *r, int status, const char *title, const char *detail);

#define HTTP_PROBLEM_TYPE "application/problem+json"
#endif
