/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CODEC_WIRE_H
#define DIBS_CODEC_WIRE_H
/* JSON forms of the library's values, in both directions, for --json, the daemon's API and libdibs.
 *
 * A written value reads back unchanged. Reading fails with INVALID and the member's name if a member is
 * missing, of another type or out of bounds; *out may then be half filled. Texts that are not UTF-8 (a
 * directory, a command) have a twin NAME_base64. */
#include "base/bytes.h"
#include "codec/json.h"
#include "dibs/dibs.h"

enum wire_source {
    WIRE_ASKED,   /* from a caller or a file: refuse unknown members, control characters, impossible values */
    WIRE_ANSWERED /* from a daemon: a newer one may send more members, and damaged records pass */
};

/* ---- words for tables and JSON ---- */

/* The words of an enum, indexed by its values; the rest is NULL. */
struct words {
    const char *at[13];
};
extern const struct words words_life, words_kind, words_mode, words_holder, words_scope, words_relation;
extern const struct words words_hold, words_trouble, words_reason, words_severity, words_event, words_repair;
/* Return "unknown" for a value outside its enum: no reader accepts that. */
const char *words_at(const struct words *words, unsigned value);
const char *wire_code_text(dibs_status code);        /* "not_found" */
const char *wire_hold_text(const dibs_claim *claim); /* "none", "guard", ... */
/* Write "auto", "off" or the number. */
void wire_band_text(int32_t band, char out[16]);
/* Read such a text; false: invalid. */
bool wire_band_read(const char *text, int32_t *out);
/* Return "can be claimed", ... */
const char *wire_verdict_text(const dibs_port_report *report);

/* ---- claims and events ---- */
void wire_claim(struct jsonw *w, const dibs_claim *claim, bool with_token);
/* Write the members without the braces, for callers that add some. */
void wire_claim_members(struct jsonw *w, const dibs_claim *claim, bool with_token);
/* Read a claim; its token only from WIRE_ANSWERED. */
dibs_status wire_claim_read(const jsonr_value *v, enum wire_source from, dibs_claim *out, dibs_err *err);
void wire_event(struct jsonw *w, const dibs_event *value);
dibs_status wire_event_read(const jsonr_value *v, dibs_event *out, dibs_err *err);

/* ---- requests ---- */

/* Write a request, or a batch, as the body of a claim. It includes those `settings` (may be NULL) that a
 * claim depends on and whose source is not the default. */
void wire_request(struct jsonw *w, const dibs_request *request, const dibs_settings *settings);
void wire_batch(struct jsonw *w, const dibs_batch *batch, const dibs_settings *settings);

struct wire_asked {
    dibs_batch batch;                         /* borrows from the members below */
    const char *settings[DIBS_SETTING_COUNT]; /* as in a settings file; NULL: not given */
    bool has_settings;
    jsonr_doc *doc;
    struct arena *arena;
    dibs_request *requests; /* requests of the batch */
};
/* Write the same settings as a parameter of a query, settings={...}; nothing when there are none. */
void wire_settings_param(struct bytes *to, const dibs_settings *settings);
dibs_status wire_settings_read(const char *text, struct wire_asked *out, dibs_err *err);
/* Parse the whole body. `ttl_ms` is the lease of a request without a holder, unless the settings in the body
 * have another. The caller always ends *out with wire_asked_done(). */
dibs_status wire_request_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out,
                              dibs_err *err);
dibs_status wire_batch_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out,
                            dibs_err *err);
void wire_asked_done(struct wire_asked *asked);

void wire_heir(struct jsonw *w, const dibs_heir *heir);
/* `ttl_ms`: for a lease without a TTL. */
dibs_status wire_heir_read(const jsonr_value *v, int64_t ttl_ms, dibs_heir *out, dibs_err *err);
/* {"ttl":"10m"} */
void wire_ttl(struct jsonw *w, int64_t ttl_ms);
dibs_status wire_ttl_read(const jsonr_value *v, int64_t *ttl_ms, dibs_err *err);

/* ---- paths and queries of requests (wire_query.c) ---- */

/* Return the i-th value of a key of the query, decoded and borrowed; NULL: none. */
typedef const char *(*wire_param_fn)(void *ctx, const char *key, size_t i);
struct wire_params {
    wire_param_fn get;
    void *ctx;
};
/* Append a parameter; NULL: nothing. */
void wire_param(struct bytes *to, const char *key, const char *value);
/* Read {which} of /v1/claims/{which}, a token or "-", and the query. */
dibs_status wire_which_read(const char *segment, const struct wire_params *params, dibs_which *out,
                            dibs_err *err);
dibs_status wire_release_read(const struct wire_params *params, unsigned *flags, dibs_err *err);
dibs_status wire_filter_read(const struct wire_params *params, dibs_filter *out, dibs_err *err);
dibs_status wire_event_query_read(const struct wire_params *params, dibs_event_query *out, dibs_err *err);
/* Read /v1/ports/{proto}/{port}: bindings from `binding=PROTO/ADDRESS` if there are any, else each protocol
 * of {proto} and `with` on each `address`. `bindings` is storage. */
dibs_status wire_question_read(const char *proto, const char *port, const struct wire_params *params,
                               dibs_binding bindings[DIBS_BINDINGS_MAX], dibs_port_question *out,
                               dibs_err *err);
/* Read "true" or "false"; absent: false. */
dibs_status wire_flag_read(const struct wire_params *params, const char *key, bool *out, dibs_err *err);

/* Write paths. `verb` is "" or "/renew", ...; a text that cannot be a token is sent as an invalid one. */
void wire_which_path(struct bytes *to, const dibs_which *which, const char *verb);
void wire_release_path(struct bytes *to, const dibs_which *which, unsigned flags);
void wire_filter_path(struct bytes *to, const dibs_filter *filter);
void wire_event_path(struct bytes *to, const dibs_event_query *query);
void wire_question_path(struct bytes *to, const dibs_port_question *question);
/* Write /v1/nodes/-/claims for these hosts; `which` (may be NULL) by its name. */
void wire_hosts_path(struct bytes *to, const dibs_which *which, const char *const *hosts, size_t n);
/* Write /v1/nodes/NAME, with DIBS_NODE_FORCE. */
void wire_node_path(struct bytes *to, const char *name, unsigned flags);
void wire_pool_path(struct bytes *to, const char *name, const char *verb);
void wire_name_path(struct bytes *to, const char *name, const char *project);

/* ---- pools and snapshots ---- */
/* `usage` may be NULL. */
void wire_pool(struct jsonw *w, const dibs_pool *pool, const dibs_pool_usage *usage);
dibs_status wire_pool_read(const jsonr_value *v, enum wire_source from, dibs_pool *out, dibs_err *err);
void wire_node(struct jsonw *w, const dibs_node *value);
dibs_status wire_node_read(const jsonr_value *v, dibs_node *out, dibs_err *err);
void wire_usage(struct jsonw *w, const dibs_pool_usage *value);
dibs_status wire_usage_read(const jsonr_value *v, dibs_pool_usage *out, dibs_err *err);

#define WIRE_SNAPSHOT_VERSION 1 /* of the full format; other versions are refused */
struct wire_snapshot {
    dibs_pool *pools;
    size_t n_pools;
    dibs_claim *claims;
    size_t n_claims;
};
/* Write a snapshot without tokens. */
void wire_snapshot(struct jsonw *w, const dibs_snapshot *snapshot);
/* The caller always ends *out with wire_snapshot_done(). */
dibs_status wire_snapshot_read(const jsonr_value *v, struct wire_snapshot *out, dibs_err *err);
void wire_snapshot_done(struct wire_snapshot *snapshot);

#define WIRE_RANGE_BYTES_MAX 8192 /* a bit for each of 65536 ports */
/* Write the members of Kubernetes' range snapshot: {"range":"..","data":base64}. */
void wire_range_members(struct jsonw *w, const dibs_range_snapshot *snapshot);
/* out->range is borrowed from `v`; out->bytes is `bytes`. */
dibs_status wire_range_read(const jsonr_value *v, uint8_t bytes[WIRE_RANGE_BYTES_MAX],
                            dibs_range_snapshot *out, dibs_err *err);

/* ---- observations ---- */
/* What a socket is to the claims of its port; the last one that fits counts. */
enum wire_relation {
    WIRE_UNCLAIMED,
    WIRE_FOREIGN,
    WIRE_SAME_USER,
    WIRE_PROJECT,    /* of a kept claim's user, in its project */
    WIRE_DESCENDANT, /* of the holder */
    WIRE_HOLDER,
};
const char *wire_relation_text(enum wire_relation relation);
void wire_socket(struct jsonw *w, const dibs_socket *value);
void wire_socket_members(struct jsonw *w, const dibs_socket *socket);
dibs_status wire_socket_read(const jsonr_value *v, dibs_socket *out, dibs_err *err);
void wire_report(struct jsonw *w, uint16_t port, const dibs_port_report *report);
/* Write only the key and list of its claims. */
void wire_report_claims(struct jsonw *w, const dibs_port_report *report);
void wire_report_nat(struct jsonw *w, const dibs_port_report *report);
dibs_status wire_report_read(const jsonr_value *v, dibs_port_report *out, dibs_err *err);

void wire_repair_item(struct jsonw *w, const dibs_repair_item *value);
dibs_status wire_repair_item_read(const jsonr_value *v, dibs_repair_item *out, dibs_err *err);
void wire_finding(struct jsonw *w, const dibs_finding *value);
dibs_status wire_finding_read(const jsonr_value *v, dibs_finding *out, dibs_err *err);

/* More than every port in three protocols on one address: not the list of one host. */
#define WIRE_OBSERVED_MAX 262144
/* Read a list; addresses may be `localhost` and "*", and names may begin with a slash. The caller frees
 * *list. */
dibs_status wire_observed_read(const jsonr_value *array, dibs_observed **list, size_t *n, dibs_err *err);
/* Append one entry, given as texts. `name` may be NULL. */
struct wire_observed {
    dibs_observed *item;
    size_t n, capacity;
};
dibs_status wire_observed_add(struct wire_observed *list, const char *proto, const char *address,
                              uint16_t port, const char *name, dibs_err *err);

void wire_repair_plan(struct jsonw *w, const dibs_repair_plan *plan);
struct wire_plan {
    dibs_repair_plan plan; /* borrows from the members below */
    jsonr_doc *doc;
    dibs_observed *observed;
};
dibs_status wire_plan_read(const char *text, size_t n, struct wire_plan *out, dibs_err *err);
void wire_plan_done(struct wire_plan *plan);

/* ---- the daemon ---- */
struct wire_daemon {
    char version[32];
    int32_t pid;
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* the principal of the caller's claims */
    bool is_admin;
    int64_t boot_ms;
    char ledger[DIBS_SETTING_VALUE_MAX + 1];
    bool enforces; /* the kernel refuses claimed ports to others */
};
void wire_daemon(struct jsonw *w, const struct wire_daemon *value);
dibs_status wire_daemon_read(const jsonr_value *v, struct wire_daemon *out, dibs_err *err);

/* ---- the numbers of a command ---- */
enum { WIRE_ADDRESSES_MAX = 60 }; /* of a host; as the kernel's programs can compare */
struct wire_numbers {
    int32_t pid;
    uint32_t n;
    dibs_number number[DIBS_NUMBERS_MAX];
    /* Addresses of the caller's host: a connection to one of them is one to itself. */
    uint32_t n_addresses;
    dibs_address address[WIRE_ADDRESSES_MAX];
};
void wire_numbers(struct jsonw *w, const struct wire_numbers *value);
dibs_status wire_numbers_read(const jsonr_value *v, struct wire_numbers *out, dibs_err *err);

/* ---- errors: RFC 9457 ---- */
int wire_http_status(const dibs_err *err);
/* `status` is the HTTP status: that of the code, unless HTTP has a better one (405, 429, ...). */
void wire_problem(struct jsonw *w, const dibs_err *err, int status);
/* Fill *out and return true when `v` is a problem document of dibs. */
bool wire_problem_read(const jsonr_value *v, dibs_err *out);
/* Write key and value. */
void wire_blocker(struct jsonw *w, const dibs_blocker *blocker);
#endif
