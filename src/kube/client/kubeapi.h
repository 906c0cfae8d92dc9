/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_KUBEAPI_H
#define DIBS_KUBE_CLIENT_KUBEAPI_H
/* A client of the Kubernetes API server.
 *
 * It never blocks: kubeapi_fd() becomes readable when the caller's loop has to call it. Every call ends by
 * its deadline with done(), unless it is cancelled. For one thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/json.h"
#include "kube/client/config.h"

struct kubeapi;
struct kubeapi_call;

/* Open a client. It takes ownership of the configuration, also on failure. */
dibs_status kubeapi_open(struct kubeapi_config *config, struct kubeapi **out, dibs_err *err);
void kubeapi_close(struct kubeapi *api); /* NULL is fine. Cancels calls under way. */
int kubeapi_fd(const struct kubeapi *api);
void kubeapi_turn(struct kubeapi *api);
const char *kubeapi_server(const struct kubeapi *api);
const char *kubeapi_namespace(const struct kubeapi *api);

enum {
    HTTP_OK = 200,
    HTTP_CREATED = 201,
    HTTP_UNAUTHORIZED = 401,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_CONFLICT = 409,
    HTTP_GONE = 410,
    HTTP_TOO_MANY = 429,
};

struct kubeapi_answer {
    /* OK: 200 or 201, and `root` is set. NOT_FOUND: 404; DENIED: 401, 403; TAKEN: 409; INVALID: other
     * permanent refusals; UNAVAILABLE: transient failures */
    dibs_status status;
    int code;                /* of HTTP or of a Status object; 0: no answer */
    int64_t retry_after_ms;  /* 0: not given */
    const jsonr_value *root; /* borrowed during done(); NULL unless OK */
    dibs_err err;            /* when status is not OK */
};

/* kubeapi_ask() copies the strings. */
struct kubeapi_request {
    const char *method;
    const char *path; /* "/api/v1/pods?limit=1" */
    const char *body; /* JSON; NULL: none */
    size_t n_body;
    int64_t timeout_ms;
    void (*done)(void *ctx, const struct kubeapi_answer *answer); /* may start other calls */
    /* Stream mode: called with each piece of a 200 answer; return false to end the stream. It must not
     * start or cancel calls. done() then reports the end, without a root. */
    bool (*chunk)(void *ctx, const char *bytes, size_t n);
    int64_t silence_max_ms;
    void *ctx;
};
/* Start a call. done() reports every failure except lack of memory, which is FAILURE here. */
dibs_status kubeapi_ask(struct kubeapi *api, const struct kubeapi_request *request, struct kubeapi_call **out,
                        dibs_err *err);
void kubeapi_cancel(struct kubeapi_call *call); /* NULL is fine. Does not call done(). */

/* ---- objects (object.c) ---- */
/* Turn a Status object into an error: "pods is forbidden: ...". */
dibs_status kubeapi_refusal(int code, const jsonr_value *status, const char *what, dibs_err *err);
/* Replace each \u0000 in a JSON text by U+FFFD, in place. Jansson rejects \u0000, so one annotation of a
 * pod could make a whole list unreadable. */
void kubeapi_defuse(char *text, size_t n);
/* Percent-encode a value of a query. Return false when it does not fit. */
bool kubeapi_escape(const char *text, char *out, size_t size);
/* Format a time for a Lease or an Event: "2026-01-31T12:00:00.000000Z". */
void kubeapi_time(int64_t wall_ms, char out[40]);
#endif
