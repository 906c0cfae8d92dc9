/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CODEC_WIRE_H
#define DIBS_CODEC_WIRE_H
/* JSON forms of the library's values, both directions, for --json, the daemon's API and libdibs.
 *
 * A written value reads back as it was. Reading refuses, with INVALID and the member's name, what is missing,
 * of another type or out of bounds; *out may then be half filled. Texts that are no UTF-8 (a directory, a
 * command) have a twin NAME_base64. */
#include "base/bytes.h"
#include "codec/json.h"
#include "dibs/dibs.h"

enum wire_source {
    WIRE_ASKED,   /* from a caller or a file: unknown members, control characters and what cannot be are
                     refused */
    WIRE_ANSWERED /* from a daemon: a newer one may say more, and damaged records pass as they are */
};

/* ---- words that stand in tables and JSON alike ---- */

/* The words of an enum, at the places of its values; the rest is NULL. */
struct words {
    const char *at[12];
};
extern const struct words words_life, words_kind, words_mode, words_holder, words_scope, words_relation;
extern const struct words words_trouble, words_reason, words_severity, words_event, words_repair;
/* "unknown" for a value outside of its enum: no reader takes that. */
const char *words_at(const struct words *words, unsigned value);
const char *wire_code_text(dibs_status code); /* "not_found" */
/* "auto", "off" or the number. */
void wire_band_text(int32_t band, char out[16]);
/* The other way; false when it is none. */
bool wire_band_read(const char *text, int32_t *out);
/* "can be claimed", ... */
const char *wire_verdict_text(const dibs_port_report *report);

/* ---- claims and events ---- */
void wire_claim(struct jsonw *w, const dibs_claim *claim, bool with_token);
/* The members without the braces, for callers that add some. */
void wire_claim_members(struct jsonw *w, const dibs_claim *claim, bool with_token);
/* A token is taken only from WIRE_ANSWERED. */
dibs_status wire_claim_read(const jsonr_value *v, enum wire_source from, dibs_claim *out, dibs_err *err);
void wire_event(struct jsonw *w, const dibs_event *event);
dibs_status wire_event_read(const jsonr_value *v, dibs_event *out, dibs_err *err);

/* ---- requests ---- */

/* A request alone, or a batch, as the body of a claim. `settings` (may be NULL): those that were given
 * (their source is not the default) and that a claim depends on go with it. */
void wire_request(struct jsonw *w, const dibs_request *request, const dibs_settings *settings);
void wire_batch(struct jsonw *w, const dibs_batch *batch, const dibs_settings *settings);

struct wire_asked {
    dibs_batch batch;                         /* borrows from what follows */
    const char *settings[DIBS_SETTING_COUNT]; /* as in a settings file; NULL: not given */
    bool has_settings;
    jsonr_doc *doc;
    struct arena *arena;
    dibs_request *requests; /* those of the batch */
};
/* The same settings as a parameter of a query, settings={...}; nothing when there are none. */
void wire_settings_param(struct bytes *to, const dibs_settings *settings);
dibs_status wire_settings_read(const char *text, struct wire_asked *out, dibs_err *err);
/* Both parse the whole body. `ttl_ms` is the lease of a request that names no holder, unless the settings in
 * the body say another. The caller ends *out with wire_asked_done() in any case. */
dibs_status wire_request_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out,
                              dibs_err *err);
dibs_status wire_batch_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out,
                            dibs_err *err);
void wire_asked_done(struct wire_asked *asked);

void wire_heir(struct jsonw *w, const dibs_heir *heir);
/* `ttl_ms` as above, of a lease without one. */
dibs_status wire_heir_read(const jsonr_value *v, int64_t ttl_ms, dibs_heir *out, dibs_err *err);
/* {"ttl":"10m"} */
void wire_ttl(struct jsonw *w, int64_t ttl_ms);
dibs_status wire_ttl_read(const jsonr_value *v, int64_t *ttl_ms, dibs_err *err);

/* ---- what stands in addresses of requests (query.c) ---- */

/* The i-th value of a key of the query, decoded and borrowed; NULL: there is none. */
typedef const char *(*wire_param_fn)(void *ctx, const char *key, size_t i);
struct wire_params {
    wire_param_fn get;
    void *ctx;
};
/* One parameter more of an address; NULL: none. */
void wire_param(struct bytes *to, const char *key, const char *value);
/* {which} of /v1/claims/{which}, a token or "-", and the query. */
dibs_status wire_which_read(const char *segment, const struct wire_params *params, dibs_which *out,
                            dibs_err *err);
dibs_status wire_release_read(const struct wire_params *params, unsigned *flags, dibs_err *err);
dibs_status wire_filter_read(const struct wire_params *params, dibs_filter *out, dibs_err *err);
dibs_status wire_event_query_read(const struct wire_params *params, dibs_event_query *out, dibs_err *err);
/* /v1/ports/{proto}/{port}: bindings from `binding=PROTO/ADDRESS` if there are any, else each protocol of
 * {proto} and `with` on each `address`. `bindings` is storage. */
dibs_status wire_question_read(const char *proto, const char *port, const struct wire_params *params,
                               dibs_binding bindings[DIBS_BINDINGS_MAX], dibs_port_question *out,
                               dibs_err *err);
/* "true" or "false"; absent: false. */
dibs_status wire_flag_read(const struct wire_params *params, const char *key, bool *out, dibs_err *err);

/* The same as addresses. `verb` is "" or "/renew", ...; what cannot be a token goes as one that is none. */
void wire_which_path(struct bytes *to, const dibs_which *which, const char *verb);
void wire_release_path(struct bytes *to, const dibs_which *which, unsigned flags);
void wire_filter_path(struct bytes *to, const dibs_filter *filter);
void wire_event_path(struct bytes *to, const dibs_event_query *query);
void wire_question_path(struct bytes *to, const dibs_port_question *question);
/* /v1/nodes/-/claims, of these hosts; `which` (may be NULL) by its name. */
void wire_hosts_path(struct bytes *to, const dibs_which *which, const char *const *hosts, size_t n);
/* /v1/nodes/NAME, with DIBS_NODE_FORCE. */
void wire_node_path(struct bytes *to, const char *name, unsigned flags);
void wire_pool_path(struct bytes *to, const char *name, const char *verb);
void wire_name_path(struct bytes *to, const char *name, const char *project);

/* ---- pools and snapshots ---- */
/* `usage` may be NULL. */
void wire_pool(struct jsonw *w, const dibs_pool *pool, const dibs_pool_usage *usage);
dibs_status wire_pool_read(const jsonr_value *v, enum wire_source from, dibs_pool *out, dibs_err *err);
void wire_node(struct jsonw *w, const dibs_node *node);
dibs_status wire_node_read(const jsonr_value *v, dibs_node *out, dibs_err *err);
void wire_usage(struct jsonw *w, const dibs_pool_usage *usage);
dibs_status wire_usage_read(const jsonr_value *v, dibs_pool_usage *out, dibs_err *err);

#define WIRE_SNAPSHOT_VERSION 1 /* of the full format; another one is refused */
struct wire_snapshot {
    dibs_pool *pools;
    size_t n_pools;
    dibs_claim *claims;
    size_t n_claims;
};
/* Without tokens. */
void wire_snapshot(struct jsonw *w, const dibs_snapshot *snapshot);
/* The caller ends *out with wire_snapshot_done() in any case. */
dibs_status wire_snapshot_read(const jsonr_value *v, struct wire_snapshot *out, dibs_err *err);
void wire_snapshot_done(struct wire_snapshot *snapshot);

#define WIRE_RANGE_BYTES_MAX 8192 /* a bit for each of 65536 ports */
/* Kubernetes' range snapshot: {"range":"..","data":base64}, as members. */
void wire_range_members(struct jsonw *w, const dibs_range_snapshot *snapshot);
/* out->range is borrowed from `v`, out->bytes is `bytes`. */
dibs_status wire_range_read(const jsonr_value *v, uint8_t bytes[WIRE_RANGE_BYTES_MAX],
                            dibs_range_snapshot *out, dibs_err *err);

/* ---- observations ---- */
void wire_socket(struct jsonw *w, const dibs_socket *socket);
void wire_socket_members(struct jsonw *w, const dibs_socket *socket);
dibs_status wire_socket_read(const jsonr_value *v, dibs_socket *out, dibs_err *err);
void wire_report(struct jsonw *w, uint16_t port, const dibs_port_report *report);
/* Its list of claims alone: a key and its value. */
void wire_report_claims(struct jsonw *w, const dibs_port_report *report);
dibs_status wire_report_read(const jsonr_value *v, dibs_port_report *out, dibs_err *err);

void wire_repair_item(struct jsonw *w, const dibs_repair_item *item);
dibs_status wire_repair_item_read(const jsonr_value *v, dibs_repair_item *out, dibs_err *err);
void wire_finding(struct jsonw *w, const dibs_finding *finding);
dibs_status wire_finding_read(const jsonr_value *v, dibs_finding *out, dibs_err *err);

/* More than every port in three protocols on an address: not one host's list. */
#define WIRE_OBSERVED_MAX 262144
/* `localhost` and "*" are understood, a name may have its leading slash; the caller frees *list, which is
 * NULL when it is empty. */
dibs_status wire_observed_read(const jsonr_value *array, dibs_observed **list, size_t *n, dibs_err *err);
/* One entry by its words, appended. `name` may be NULL. */
struct wire_observed {
    dibs_observed *item;
    size_t n, capacity;
};
dibs_status wire_observed_add(struct wire_observed *list, const char *proto, const char *address,
                              uint16_t port, const char *name, dibs_err *err);

void wire_repair_plan(struct jsonw *w, const dibs_repair_plan *plan);
struct wire_plan {
    dibs_repair_plan plan; /* borrows from what follows */
    jsonr_doc *doc;
    dibs_observed *observed;
};
dibs_status wire_plan_read(const char *text, size_t n, struct wire_plan *out, dibs_err *err);
void wire_plan_done(struct wire_plan *plan);

/* ---- the daemon ---- */
struct wire_daemon {
    char version[32];
    int32_t pid;
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* whose claims the asker makes */
    bool is_admin;
    int64_t boot_ms;
    char degraded[DIBS_ERR_MSG_MAX]; /* why it works without its ledger; empty: it has it */
    char ledger[DIBS_SETTING_VALUE_MAX + 1];
};
void wire_daemon(struct jsonw *w, const struct wire_daemon *daemon);
dibs_status wire_daemon_read(const jsonr_value *v, struct wire_daemon *out, dibs_err *err);

/* ---- errors: RFC 9457 ---- */
int wire_http_status(const dibs_err *err);
/* `status` is that of the answer: of its code, unless HTTP has a better one (405, 429, ...). */
void wire_problem(struct jsonw *w, const dibs_err *err, int status);
/* Fill *out and return true when `v` is a problem of ours. */
bool wire_problem_read(const jsonr_value *v, dibs_err *out);
/* A key and its value. */
void wire_blocker(struct jsonw *w, const dibs_blocker *blocker);
#endif
