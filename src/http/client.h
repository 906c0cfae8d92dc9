/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_CLIENT_H
#define DIBS_HTTP_CLIENT_H
/* An HTTP/1.1 client, for etcd and Kubernetes; the only code that sees libcurl.
 *
 * A client keeps its connections and has any number of calls under way. It never waits: when its descriptor
 * is readable, web_turn() calls chunk() and done(). web_ask() waits for one answer.
 *
 * One thread at a time. Every call ends by its deadline, every answer has its bound. No proxy of the
 * environment is used, no redirect is followed, and no request is sent twice: a caller that asks for a change
 * must know whether it may have been made. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/status.h"

struct web;
struct web_call;

struct web_options {
    const char *ca;         /* file of the only authorities that are trusted; NULL: those of the system */
    const char *cert, *key; /* files, both or none: our own certificate */
    /* The same as PEM texts, for callers without files; each instead of its file. */
    const char *ca_pem, *cert_pem, *key_pem;
};

/* How far a request came. */
enum web_reach {
    WEB_NOT_SENT, /* no server has got it */
    WEB_SENT,     /* a server may have acted on it */
    WEB_ANSWERED,
};

struct web_answer {
    dibs_status status; /* OK: the server answered, whatever it said */
    enum web_reach reach;
    int http_status;        /* 0: none */
    int64_t retry_after_ms; /* when the server wants to be asked again, if it says so; 0: it does not */
    struct bytes body;      /* bytes that chunk() did not get */
    dibs_err err;           /* when status is not OK: which server, what failed, what to do */
};
void web_answer_done(struct web_answer *answer); /* frees the body */

/* The body stays there until the call has ended; address and headers are copied. */
struct web_request {
    const char *method;
    const char *url;            /* http:// or https:// */
    const char *const *headers; /* "Name: value" */
    size_t n_headers;
    const char *body; /* NULL: none */
    size_t n_body;
    int64_t deadline_ms;     /* clock_monotonic_ms(): until the end; of a stream, until it begins */
    int64_t connect_max_ms;  /* 0: only the deadline counts */
    size_t answer_max_bytes; /* 0: DIBS_INPUT_MAX_BYTES; of a stream, for its error message */
    /* A stream: its pieces, when the server answers 200. False ends the call. May not call the client. */
    bool (*chunk)(void *ctx, const char *bytes, size_t n);
    int64_t silence_max_ms; /* of a stream; 0: for ever */
    /* Once, from web_turn(), unless the call is cancelled. The answer is the client's; to keep the body
     * take it and leave an empty one. May start and cancel other calls. */
    void (*done)(void *ctx, struct web_answer *answer);
    void *ctx;
};

/* FAILURE: no libcurl, no memory; UNAVAILABLE: no descriptors. */
dibs_status web_open(const struct web_options *options, struct web **out, dibs_err *err);
void web_close(struct web *web); /* NULL is fine. Calls under way are cancelled. */
int web_fd(const struct web *web);
void web_turn(struct web *web);
/* Close the connections that are kept: after an answer that cannot be the one to its request, since the next
 * answer on that connection would not be, either. Only while no call is under way. */
void web_drop_connections(struct web *web);
/* From the next call on; calls under way and certificates from files stay as they are. Connections are
 * kept only while the certificates are the same. False: no memory, and nothing has changed. */
bool web_set_pem(struct web *web, const char *ca_pem, const char *cert_pem, const char *key_pem);
/* Make the descriptor readable at that time (clock_monotonic_ms()), too; 0: never. */
void web_set_alarm(struct web *web, int64_t at_ms);

/* INVALID: a wrong URL. Every other failure is passed to done(), never from within this function. */
dibs_status web_start(struct web *web, const struct web_request *request, struct web_call **out,
                      dibs_err *err);
void web_cancel(struct web_call *call); /* NULL is fine. done() is not called. */

/* Starts it and waits for its end; `done` and `ctx` of the request are not used. The answer is the caller's
 * to end, also when it is a failure; its status is returned. Other calls of the client go on meanwhile. */
dibs_status web_ask(struct web *web, const struct web_request *request, struct web_answer *answer);
#endif
