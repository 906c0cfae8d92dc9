/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_CLIENT_H
#define DIBS_HTTP_CLIENT_H
/* An HTTP/1.1 client, for etcd and Kubernetes; the only code that uses libcurl.
 *
 * A client keeps its connections and has any number of open calls. It never waits: when its descriptor is
 * readable, web_turn() calls chunk() and done(). web_ask() waits for one answer.
 *
 * One thread at a time. Every call has a deadline, every answer a size limit. The client uses no proxy of
 * the environment, follows no redirect, and sends no request twice: the caller of a change must know
 * whether it may have been made. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/status.h"

struct web;
struct web_call;

struct web_options {
    const char *ca;         /* file of the only trusted authorities; NULL: those of the system */
    const char *cert, *key; /* files of our certificate and its key, both or none */
    /* PEM texts that replace these files. */
    const char *ca_pem, *cert_pem, *key_pem;
};

/* How far a request came. */
enum web_reach {
    WEB_NOT_SENT, /* no server received it */
    WEB_SENT,     /* a server may have acted on it */
    WEB_ANSWERED,
};

struct web_answer {
    dibs_status status; /* OK: the server answered, with any HTTP status */
    enum web_reach reach;
    int http_status;        /* 0: none */
    int64_t retry_after_ms; /* from Retry-After; 0: none */
    struct bytes body;      /* without the bytes that chunk() got */
    dibs_err err;           /* when status is not OK: server, failure and advice */
};
void web_answer_done(struct web_answer *answer); /* frees the body */

/* `body` must stay valid until the call has ended; URL and headers are copied. */
struct web_request {
    const char *method;
    const char *url;            /* http:// or https:// */
    const char *const *headers; /* "Name: value" */
    size_t n_headers;
    const char *body; /* NULL: none */
    size_t n_body;
    int64_t deadline_ms;     /* clock_monotonic_ms(): end of the call; for a stream, latest start */
    int64_t connect_max_ms;  /* 0: only the deadline applies */
    size_t answer_max_bytes; /* 0: DIBS_INPUT_MAX_BYTES; for a stream, size of its error message */
    /* Makes the call a stream and gets its pieces after HTTP 200. False ends it. Must not call the client. */
    bool (*chunk)(void *ctx, const char *bytes, size_t n);
    int64_t silence_max_ms; /* of a stream; 0: no limit */
    /* Called once, from web_turn(), unless the call is cancelled. The client owns the answer; to keep the
     * body, take it and leave an empty one. May start and cancel other calls. */
    void (*done)(void *ctx, struct web_answer *answer);
    void *ctx;
};

/* FAILURE: no libcurl or no memory; UNAVAILABLE: no descriptors. */
dibs_status web_open(const struct web_options *options, struct web **out, dibs_err *err);
void web_close(struct web *web); /* cancels open calls; NULL is fine */
int web_fd(const struct web *web);
void web_turn(struct web *web);
/* Close the kept connections, after an answer that does not belong to its request: the next answer on that
 * connection would not, either. Only while no call is open. */
void web_drop_connections(struct web *web);
/* Set new certificates for the next calls; open calls and certificates from files do not change. Connections
 * are kept only while the certificates are the same. False: out of memory, and nothing has changed. */
bool web_set_pem(struct web *web, const char *ca_pem, const char *cert_pem, const char *key_pem);
/* Make the descriptor also readable at that time (clock_monotonic_ms()); 0: never. */
void web_set_alarm(struct web *web, int64_t at_ms);

/* Start a call. INVALID: a wrong URL. Every other failure goes to done(), later. */
dibs_status web_start(struct web *web, const struct web_request *request, struct web_call **out,
                      dibs_err *err);
void web_cancel(struct web_call *call); /* done() is not called; NULL is fine */

/* Start a call and wait for its end; `done` and `ctx` of the request are not used. Returns the status of the
 * answer, which the caller ends, also on failure. Other calls of the client continue meanwhile. */
dibs_status web_ask(struct web *web, const struct web_request *request, struct web_answer *answer);
#endif
