/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_REMOTE_EXCHANGE_H
#define DIBS_LIB_REMOTE_EXCHANGE_H
/* A request to the daemon and its answer. */
#include "base/bytes.h"
#include "codec/wire.h"
#include "lib/remote.h"

struct remote {
    int fd; /* -1: not connected */
    bool is_named;
    bool is_known; /* `principal` was asked for */
    const dibs_settings *settings;
    char path[DIBS_SETTING_VALUE_MAX + 1];
    char principal[DIBS_PRINCIPAL_MAX + 1];
};

enum remote_repeat {
    REMOTE_TWICE, /* a repeated request changes nothing more */
    REMOTE_KEYED, /* the same, by the key that is sent along */
    REMOTE_ONCE,  /* not again, once the daemon may have read it */
};

struct remote_exchange {
    struct remote *r;
    const char *method;
    enum remote_repeat repeat;
    int64_t deadline_ms; /* CLOCK_MONOTONIC */
    struct bytes target;
    struct bytes body; /* empty: none */
    size_t most;       /* items that a list of the answer may have; 0: any number */
    jsonr_doc *doc;    /* the answer; its root is NULL when it has no body */
};

/* An exchange whose deadline begins now; it is ended with exchange_done() in any case. */
struct remote_exchange exchange_begin(struct remote *r, const char *method, enum remote_repeat repeat);
/* The writer of its body. */
struct jsonw exchange_body(struct remote_exchange *exchange);
/* Send the request and fill exchange->doc. Errors of the daemon come out as they were there. */
dibs_status remote_ask(struct remote_exchange *exchange, dibs_err *err);
const jsonr_value *exchange_root(const struct remote_exchange *exchange);
/* The error for an answer that cannot be read; `err` has the reason. */
dibs_status remote_not_understood(const struct remote *r, dibs_err *err);
void exchange_done(struct remote_exchange *exchange);

/* The target of an answer: one value, or each item of the list under `key`. */
struct remote_type {
    dibs_status (*read)(const jsonr_value *v, void *out, dibs_err *err);
    size_t size;
    const char *key;
};
extern const struct remote_type remote_claims;
/* Send the request and read the one value of the answer; *out is written only on success. */
dibs_status remote_ask_value(struct remote_exchange *exchange, const struct remote_type *type, void *out,
                             dibs_err *err);
/* Send the request and read the whole list of the answer. The caller frees *items, an array of `*n`. */
dibs_status remote_ask_list(struct remote_exchange *exchange, const struct remote_type *type, void *items,
                            size_t *n, dibs_err *err);
/* Send the request and read the number under `key` of the answer. `n` may be NULL. */
dibs_status remote_ask_count(struct remote_exchange *exchange, const char *key, size_t *n, dibs_err *err);
/* The error for a list that is none, or longer than was asked for. */
dibs_status remote_not_a_list(const struct remote *r, const char *key, dibs_err *err);
dibs_status remote_connect(struct remote *r, int64_t deadline_ms, dibs_err *err);
#endif
