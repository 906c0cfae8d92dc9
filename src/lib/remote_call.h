/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_REMOTE_CALL_H
#define DIBS_LIB_REMOTE_CALL_H
/* A question to the daemon and its answer. */
#include "base/bytes.h"
#include "lib/remote.h"
#include "wire/wire.h"

struct remote {
    int fd; /* -1: not connected */
    bool is_named;
    bool is_known; /* `principal` was asked for */
    const dibs_settings *settings;
    char path[DIBS_SETTING_VALUE_MAX + 1];
    char principal[DIBS_PRINCIPAL_MAX + 1];
};

enum remote_repeat {
    REMOTE_TWICE, /* asking again changes nothing more */
    REMOTE_KEYED, /* the same, by the key that is sent along */
    REMOTE_ONCE,  /* not again, once the daemon may have read it */
};

struct call {
    const char *method;
    enum remote_repeat repeat;
    int64_t deadline_ms; /* CLOCK_MONOTONIC */
    struct bytes target;
    struct bytes body; /* empty: none */
    json_doc *doc;     /* the answer; its root is NULL when it has no body */
};

/* A call whose deadline begins now; it is ended with call_done() in any case. */
struct call call_begin(const struct remote *r, const char *method, enum remote_repeat repeat);
/* The writer of its body. */
struct json_writer call_body(struct call *call);
/* Asks, and fills call->doc. Errors of the daemon come out as they were there. */
dibs_status remote_ask(struct remote *r, struct call *call, dibs_err *err);
const json_value *call_root(const struct call *call);
/* What was answered cannot be what it should be; takes what err says of it. */
dibs_status remote_not_understood(const struct remote *r, dibs_err *err);
void call_done(struct call *call);

/* Asks, and takes the number that is answered under `key`. `n` may be NULL. */
dibs_status remote_ask_count(struct remote *r, struct call *call, const char *key, size_t *n, dibs_err *err);
/* A list of exactly `n` claims. */
dibs_status remote_read_claims(const struct remote *r, const json_value *list, size_t n, dibs_claim *out,
                               dibs_err *err);
dibs_status remote_connect(struct remote *r, int64_t deadline_ms, dibs_err *err);
#endif
