/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_KUBEAPI_H
#define DIBS_KUBE_CLIENT_KUBEAPI_H
/* A client of Kubernetes' API server.
 *
 * It never waits by itself: kubeapi_fd() becomes readable when there is something to do, in a loop of ours.
 * Every call ends by its deadline with its done(), unless it is cancelled. One thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/json.h"
#include "kube/client/config.h"

struct kubeapi;
struct kubeapi_call;

/* The configuration is the client's from then on, also on failure. */
dibs_status kubeapi_open(struct kubeapi_config *config, struct kubeapi **out, dibs_err *err);
void kubeapi_close(struct kubeapi *api); /* NULL is fine. Calls under way are cancelled. */
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
    dibs_status status; /* OK: 200 or 201, and `root` is there. NOT_FOUND: 404; DENIED: 401, 403; TAKEN: 409;
                           INVALID: other refusals for good; UNAVAILABLE: whatever may pass */
    int code;           /* HTTP's, or that of a Status; 0: there was no answer */
    int64_t retry_after_ms;  /* 0: it does not say */
    const jsonr_value *root; /* borrowed for the call; NULL unless OK */
    dibs_err err;            /* when status is not OK */
};

/* Strings are copied. */
struct kubeapi_request {
    const char *method;
    const char *path; /* "/api/v1/pods?limit=1" */
    const char *body; /* JSON; NULL: none */
    size_t n_body;
    int64_t timeout_ms;
    void (*done)(void *ctx, const struct kubeapi_answer *answer); /* may start other calls */
    /* A stream instead of an answer: pieces of it, when the server answers 200; false ends it. It may start
     * and cancel nothing. done() tells how it ended, without a root. */
    bool (*chunk)(void *ctx, const char *bytes, size_t n);
    int64_t silence_max_ms;
    void *ctx;
};
/* Start a call. done() gets every failure but that of memory: FAILURE. */
dibs_status kubeapi_ask(struct kubeapi *api, const struct kubeapi_request *request, struct kubeapi_call **out,
                        dibs_err *err);
void kubeapi_cancel(struct kubeapi_call *call); /* NULL is fine. done() is not called. */

/* ---- objects (object.c) ---- */
/* A Status as an error: "pods is forbidden: ...". */
dibs_status kubeapi_refusal(int code, const jsonr_value *status, const char *what, dibs_err *err);
/* Take \u0000 out of a JSON text, which jansson does not read: one annotation of a pod could make a whole
 * list unreadable. In place; U+FFFD stands for each. */
void kubeapi_defuse(char *text, size_t n);
/* Escapes what a query's value cannot have. False: it does not fit. */
bool kubeapi_escape(const char *text, char *out, size_t size);
/* Of a Lease or an Event: "2026-01-31T12:00:00.000000Z". */
void kubeapi_time(int64_t wall_ms, char out[40]);
#endif
