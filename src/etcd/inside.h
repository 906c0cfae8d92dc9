/* SPDX-License-Identifier: MIT */
#ifndef DIBS_ETCD_INSIDE_H
#define DIBS_ETCD_INSIDE_H
/* What the files of this room share. */
#include "base/blocks.h"
#include "base/bytes.h"
#include "etcd/etcd.h"
#include "web/web.h"
#include "json/json.h"

enum {
    /* Of one answer: 12 MiB of values, eight times etcd's largest request. */
    ETCD_ANSWER_MAX_BYTES = 16 << 20,
    /* Of what is read in it: small things grow when they are unpacked. */
    ETCD_MEMORY_MAX_BYTES = 64 << 20,
    ETCD_TOKEN_MAX = 4095, /* a JWT; simple tokens have 20 bytes */
    ETCD_URL_MAX = ETCD_ORIGIN_MAX + 64,
};

/* ---- requests as JSON (write.c) ---- */

/* The path of the gateway, and the text. */
const char *write_op(struct bytes *out, const struct etcd_op *op);
bool op_changes(const struct etcd_op *op); /* it has a put or a delete somewhere */

/* ---- answers (read.c) ---- */

struct reading {
    struct block *memory;
    size_t n_bytes;    /* in it */
    const char *wrong; /* NULL: all well; then nothing more is read */
};
/* Missing fields are zero, as protobuf's JSON has it; 64-bit numbers are strings or numbers. */
int64_t read_int(struct reading *r, const json_value *object, const char *key);
uint64_t read_uint(struct reading *r, const json_value *object, const char *key);
bool read_bool(struct reading *r, const json_value *object, const char *key);
/* "" when missing. */
const char *read_string(struct reading *r, const json_value *object, const char *key);
/* A list's size, and that it is one. */
size_t read_size(struct reading *r, const json_value *object, const char *key, const json_value **list);
struct etcd_kv read_kv(struct reading *r, const json_value *object);
void *read_room(struct reading *r, size_t n, size_t size); /* zeroed, in the memory; NULL: wrong */
/* The answer of etcd_do(), of that kind. NULL, or what is wrong with it; then nothing is to be freed. */
const char *read_answer(const json_value *root, enum etcd_kind kind, struct etcd_answer *out);

/* ---- refusals (refusal.c) ---- */

/* What a gateway says instead of an answer. */
struct refusal {
    int code; /* gRPC's; -1: none */
    char text[256];
    enum etcd_fault fault;
    dibs_status status;
    bool is_final;    /* another endpoint would say the same */
    bool is_not_done; /* certainly */
    bool wants_login; /* the token is missing, old or unknown */
    bool is_open;     /* there are no users in this cluster */
};
void refusal_read(int http_status, const char *body, size_t n, struct refusal *out);

/* ---- metrics (care.c) ---- */

/* The quota in the text of /metrics; false: it is not there, or is no number of bytes. */
bool quota_read(const char *text, size_t n, int64_t *out);

/* ---- endpoints (endpoints.c) ---- */

struct endpoints {
    struct {
        int64_t avoid_until_ms;
        unsigned n_failed;
    } of[ETCD_ENDPOINTS_MAX];
    size_t n, current;
};
void endpoints_begin(struct endpoints *e, size_t n); /* with any of them */
/* The current one if it is well, or the next that is; when none is, the one that failed longest ago. */
size_t endpoints_choose(struct endpoints *e, int64_t now_ms);
void endpoints_failed(struct endpoints *e, size_t which, int64_t now_ms);
void endpoints_well(struct endpoints *e, size_t which);

/* ---- calls (client.c, login.c) ---- */

struct etcd {
    struct etcd_config config;
    struct web *web;
    struct endpoints endpoints;
    char token[ETCD_TOKEN_MAX + 1]; /* "": none */
    bool is_open;                   /* the cluster has no users, so it wants no token */
    int64_t seen_revision;          /* the highest of all answers */
    unsigned n_reads;               /* so far */
};

dibs_status login_open_web(const struct etcd_config *config, struct web **out, dibs_err *err);
void login_write(const struct etcd_config *config, struct bytes *out); /* the body of authenticate */
/* The token of an answer of authenticate; INVALID when there is none. */
dibs_status login_read(const char *body, size_t n, char token[ETCD_TOKEN_MAX + 1], dibs_err *err);

struct post {
    const char *path;
    const char *body;
    size_t n_body;
    bool is_read;
    int endpoint; /* below 0: whichever answers */
    /* Understands an answer; NULL, or what is wrong with it. */
    const char *(*understand)(void *ctx, const json_value *root);
    void *ctx;
};
/* Asks until somebody answers, or a refusal is final, or the deadline has come. */
dibs_status client_post(struct etcd *etcd, struct etcd_call *call, const struct post *post, dibs_err *err);
/* The same for a body that is being written: INVALID or FAILURE when it has grown too large. */
dibs_status client_post_bytes(struct etcd *etcd, struct etcd_call *call, struct post *post,
                              const struct bytes *body, dibs_err *err);
#endif
