/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_REMOTE_H
#define DIBS_LIB_REMOTE_H
/* The library's functions over the Unix socket of a daemon. A request whose answer is lost is sent again
 * within the timeout, because the daemon may have restarted; a claim has a key, so that it is made once. */
#include "base/auto.h"
#include "base/bytes.h"
#include "codec/wire.h"
#include "core/core.h"

struct remote {
    int fd; /* -1: not connected */
    bool is_named;
    const dibs_settings *settings;
    char path[DIBS_SETTING_VALUE_MAX + 1];
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* as the daemon sees it; empty: not known yet */
};

/* Find the daemon to use; false: none, open the ledger. *is_named: a setting names it. */
bool remote_find(const dibs_settings *settings, char out[DIBS_SETTING_VALUE_MAX + 1], bool *is_named);

/* Connect. UNAVAILABLE, with advice, when no daemon answers. `settings` are borrowed until it is closed. */
dibs_status remote_open(const char *path, bool is_named, const dibs_settings *settings, struct remote **out,
                        dibs_err *err);
void remote_close(struct remote *r); /* NULL is fine */
/* Return the command that starts the daemon of this socket: that of the unit which has it, or `dibs serve`.
 */
const char *remote_start_command(const struct remote *r);
DEFINE_AUTO(struct remote, remote_close)

dibs_status remote_daemon(struct remote *r, struct wire_daemon *out, dibs_err *err);

/* ---- a request to the daemon and its answer (remote_exchange.c) ---- */

enum exchange_repeat {
    EXCHANGE_TWICE, /* repeatable: a second request changes nothing */
    EXCHANGE_KEYED, /* repeatable: the daemon recognises its key */
    EXCHANGE_ONCE,  /* never sent again once the daemon may have read it */
};

struct exchange {
    struct remote *r;
    const char *method;
    enum exchange_repeat repeat;
    const char *key;     /* of a keyed request, borrowed; NULL: made */
    int64_t deadline_ms; /* CLOCK_MONOTONIC */
    struct bytes target;
    struct bytes body; /* empty: none */
    size_t most;       /* maximum length of a list in the answer; 0: any */
    jsonr_doc *doc;    /* the answer; its root is NULL without a body */
};

/* Begin an exchange; its deadline starts now. The caller always ends it with exchange_done(). */
struct exchange exchange_begin(struct remote *r, const char *method, enum exchange_repeat repeat);
/* Extend the deadline of a request with many steps: each step has the timeout. */
void exchange_be_patient(struct exchange *exchange);
/* Return the writer of the body. */
struct jsonw exchange_body(struct exchange *exchange);
/* Send the request and fill exchange->doc. Errors of the daemon are returned as they are. */
dibs_status exchange_ask(struct exchange *exchange, dibs_err *err);
const jsonr_value *exchange_root(const struct exchange *exchange);
/* Write the error for an answer that cannot be parsed; `err` has the reason. */
dibs_status exchange_not_understood(const struct exchange *exchange, dibs_err *err);
void exchange_done(struct exchange *exchange);

/* Define read_NAME(), which is wire_NAME_read() for a void pointer. */
#define EXCHANGE_READ(name)                                                        \
    static dibs_status read_##name(const jsonr_value *v, void *out, dibs_err *err) \
    {                                                                              \
        return wire_##name##_read(v, out, err);                                    \
    }

/* The type of an answer: one value, or each item of the list under `key`. */
struct exchange_type {
    dibs_status (*read)(const jsonr_value *v, void *out, dibs_err *err);
    size_t size;
    const char *key;
};
/* Send the request and read the one value of the answer; *out is written only on success. */
dibs_status exchange_ask_value(struct exchange *exchange, const struct exchange_type *type, void *out,
                               dibs_err *err);
/* Send the request and read the whole list of the answer. The caller frees *items, an array of `*n`. */
dibs_status exchange_ask_list(struct exchange *exchange, const struct exchange_type *type, void *items,
                              size_t *n, dibs_err *err);
/* The same, and call fn for each item of the list until it returns false. */
#define EXCHANGE_ASK_EACH(exchange, type, item, fn, ctx, err)                            \
    (__extension__({                                                                     \
        AUTO(free_auto) item *items_ = NULL;                                             \
        size_t n_ = 0;                                                                   \
        dibs_status asked_ = exchange_ask_list((exchange), (type), &items_, &n_, (err)); \
        for (size_t i_ = 0; i_ < n_ && (fn) ((ctx), &items_[i_]); i_++)                  \
            ;                                                                            \
        asked_;                                                                          \
    }))
/* Send the request and read the number under `key` of the answer. `n` may be NULL. */
dibs_status exchange_ask_count(struct exchange *exchange, const char *key, size_t *n, dibs_err *err);
/* Write the error for an answer without the list, or with a list that is too long. */
dibs_status exchange_not_a_list(const struct exchange *exchange, const char *key, dibs_err *err);
dibs_status remote_connect(struct remote *r, int64_t deadline_ms, dibs_err *err);

/* As dibs_claim_ports(); arguments have been checked. */
dibs_status remote_claim(struct remote *r, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
/* Send the request, and read a list of exactly `n` claims. */
dibs_status remote_ask_claims(struct exchange *exchange, size_t n, dibs_claim *out, dibs_err *err);
extern const struct exchange_type remote_claims;
#endif
