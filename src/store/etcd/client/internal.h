/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_CLIENT_INTERNAL_H
#define DIBS_STORE_ETCD_CLIENT_INTERNAL_H
/* Declarations shared by the files of the client. */
#include "base/arena.h"
#include "base/bytes.h"
#include "codec/json.h"
#include "http/client.h"
#include "store/etcd/client/watch.h"

enum {
    /* Bytes of one answer: 12 MiB of values, eight times etcd's largest request. */
    ETCD_ANSWER_MAX_BYTES = 16 << 20,
    /* Memory for one decoded answer, which is larger than its JSON. */
    ETCD_MEMORY_MAX_BYTES = 64 << 20,
    ETCD_TOKEN_MAX = 4095, /* a JWT; simple tokens have 20 bytes */
    ETCD_URL_MAX = ETCD_ORIGIN_MAX + 64,
};

/* ---- requests as JSON (gateway.c) ---- */

/* Write the body of a request, and return its path at the gateway. */
const char *write_op(struct bytes *out, const struct etcd_op *op);
bool op_changes(const struct etcd_op *op); /* it contains a put or a delete */

/* ---- answers (gateway.c) ---- */

struct reading {
    struct arena *memory;
    size_t n_bytes;    /* used so far */
    const char *wrong; /* NULL: no error; after an error nothing more is read */
};
/* Read a member. Missing ones are zero, as in protobuf's JSON; 64-bit numbers are strings or numbers. */
int64_t read_int(struct reading *r, const jsonr_value *object, const char *key);
uint64_t read_uint(struct reading *r, const jsonr_value *object, const char *key);
bool read_bool(struct reading *r, const jsonr_value *object, const char *key);
/* "" when missing. */
const char *read_string(struct reading *r, const jsonr_value *object, const char *key);
/* Return the size of a list; a value that is not a list is an error. */
size_t read_size(struct reading *r, const jsonr_value *object, const char *key, const jsonr_value **list);
struct etcd_kv read_kv(struct reading *r, const jsonr_value *object);
void *read_room(struct reading *r, size_t n, size_t size); /* zeroed; NULL: r->wrong is set */
/* Read the answer to etcd_do() of that kind. Return NULL, or an error text; then nothing is to be freed. */
const char *read_answer(const jsonr_value *root, enum etcd_kind kind, struct etcd_answer *out);

/* ---- refusals (client.c) ---- */

/* An error that the gateway reports instead of an answer. */
struct refusal {
    int code; /* gRPC code; -1: none */
    char text[256];
    enum etcd_fault fault;
    dibs_status status;
    bool is_final;    /* another endpoint would refuse as well */
    bool is_not_done; /* certainly not done */
    bool wants_login; /* the token is missing, expired or unknown */
    bool is_open;     /* this cluster has no users */
};
void refusal_read(int http_status, const char *body, size_t n, struct refusal *out);

/* ---- messages of a watch: a stream of JSON objects, one per line (watch.c) ---- */

struct message {
    int64_t revision; /* of the store */
    uint64_t cluster; /* id of the cluster */
    bool is_created, is_cancelled;
    bool is_others;            /* for another watch */
    bool is_part;              /* more of the same revisions follows */
    int64_t compact_revision;  /* 0: not cancelled by a compaction */
    struct etcd_event *events; /* in order */
    size_t n_events;
    struct refusal refusal; /* set when the stream has failed */
    bool is_refused;
    struct arena *memory;
};

/* Return NULL, or an error text; then nothing is to be freed. */
const char *message_read(const char *line, size_t n, struct message *out);
void message_done(struct message *message);

/* ---- metrics (members.c) ---- */

/* Read the quota from the text of /metrics; false: missing, or not a number of bytes. */
bool quota_read(const char *text, size_t n, int64_t *out);

/* ---- calls (client.c) ---- */

struct etcd {
    struct etcd_config config;
    struct web *web;
    size_t current; /* index of the endpoint that answered last, or of the next one after a failure */
    char token[ETCD_TOKEN_MAX + 1]; /* "": none */
    bool is_open;                   /* the cluster has no users, so it needs no token */
    int64_t seen_revision;          /* highest revision of all answers */
    uint64_t cluster;               /* id of the cluster that answered last; 0: none did */
    unsigned n_reads;               /* number of reads so far */
};

dibs_status login_open_web(const struct etcd_config *config, struct web **out, dibs_err *err);
void login_write(const struct etcd_config *config, struct bytes *out); /* writes the body of authenticate */
/* Read the token from the answer of authenticate; UNAVAILABLE when it has none. */
dibs_status login_read(const char *body, size_t n, char token[ETCD_TOKEN_MAX + 1], dibs_err *err);

struct post {
    const char *path;
    const char *body;
    size_t n_body;
    bool is_read;
    int endpoint; /* below 0: any */
    /* Decode an answer; return NULL or an error text. */
    const char *(*understand)(void *ctx, const jsonr_value *root);
    void *ctx;
};
/* Ask the endpoints in turn until one answers, a refusal is final, or the deadline has passed. */
dibs_status client_post(struct etcd *etcd, struct etcd_call *call, const struct post *post, dibs_err *err);
#endif
