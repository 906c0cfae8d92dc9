/* SPDX-License-Identifier: MIT */
/* Errors of the gateway, and whether the client retries, logs in or gives up. */
#include <string.h>

#include "base/auto.h"
#include "base/text.h"
#include "store/etcd/client/internal.h"

#include "base/banned.h"

enum { /* gRPC's codes */
       GRPC_INVALID = 3,
       GRPC_NOT_FOUND = 5,
       GRPC_DENIED = 7,
       GRPC_EXHAUSTED = 8,
       GRPC_PRECONDITION = 9,
       GRPC_OUT_OF_RANGE = 11,
       GRPC_UNAUTHENTICATED = 16,
       HTTP_NOT_FOUND = 404,
       HTTP_TOO_MANY = 429,
};

/* Two forms: {"error": TEXT, "message": TEXT, "code": N}, and in a stream {"error": {"grpc_code": N,
 * "message": TEXT}}. False: none of them. */
static bool read_text(const jsonr_value *root, struct refusal *out)
{
    const jsonr_value *error = jsonr_get(root, "error");
    const char *text = "";
    int64_t code = -1;

    if (jsonr_is_object(error)) {
        (void) jsonr_get_string(error, "message", &text);
        (void) jsonr_get_int(error, "grpc_code", &code);
    } else {
        (void) jsonr_as_string(error, &text);
        (void) jsonr_get_int(root, "code", &code);
    }
    if (!*text && code < 0)
        return false;
    (void) text_safe(text, out->text, sizeof out->text);
    out->code = code >= 0 && code <= GRPC_UNAUTHENTICATED ? (int) code : -1;
    return true;
}

/* Errors that etcd tells apart by their text alone: several have the same code. */
static const struct {
    const char *text;
    enum etcd_fault fault;
    dibs_status status;
    bool is_final, is_not_done, wants_login;
} words[] = {
    { "required revision has been compacted", ETCD_FAULT_COMPACTED, DIBS_NOT_FOUND, true, true, false },
    { "is a future revision", ETCD_FAULT_FUTURE, DIBS_NOT_FOUND, true, true, false },
    { "requested lease not found", ETCD_FAULT_NO_LEASE, DIBS_NOT_FOUND, true, true, false },
    { "database space exceeded", ETCD_FAULT_NO_SPACE, DIBS_UNAVAILABLE, true, true, false },
    { "too many operations", ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, true, false },
    { "request is too large", ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, true, false },
    { "received message larger than max", ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, true, false },
    { "too many requests", ETCD_FAULT_BUSY, DIBS_UNAVAILABLE, false, true, false },
    { "etcdserver: no leader", ETCD_FAULT_UNREACHABLE, DIBS_UNAVAILABLE, false, true, false },
    { "invalid user ID or password", ETCD_FAULT_DENIED, DIBS_DENIED, true, true, false },
    { "invalid auth token", ETCD_FAULT_DENIED, DIBS_DENIED, true, true, true },
    { "user name is empty", ETCD_FAULT_DENIED, DIBS_DENIED, true, true, true },
    { "revision of auth store is old", ETCD_FAULT_DENIED, DIBS_DENIED, true, true, true },
    { "auth: revision in header is old", ETCD_FAULT_DENIED, DIBS_DENIED, true, true, true },
};

static void judge(struct refusal *out)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(out->text, words[i].text)) {
            out->fault = words[i].fault;
            out->status = words[i].status;
            out->is_final = words[i].is_final;
            out->is_not_done = words[i].is_not_done;
            out->wants_login = words[i].wants_login;
            return;
        }
    }
    switch (out->code) {
    case GRPC_INVALID:
    case GRPC_OUT_OF_RANGE:
    case GRPC_PRECONDITION:
        out->status = DIBS_INVALID;
        out->is_final = out->is_not_done = true;
        break;
    case GRPC_NOT_FOUND:
        out->status = DIBS_NOT_FOUND;
        out->is_final = out->is_not_done = true;
        break;
    case GRPC_DENIED:
    case GRPC_UNAUTHENTICATED:
        out->status = DIBS_DENIED;
        out->fault = ETCD_FAULT_DENIED;
        out->is_final = out->is_not_done = true;
        break;
    default: break; /* everything else may have been done, and another endpoint may do better */
    }
}

/* etcd refuses in plain text a client certificate whose CN could be mistaken for the user of a login. */
static const struct refusal refused_name = {
    .code = GRPC_UNAUTHENTICATED,
    .text = "where it has users its gateway takes client certificates without a common name (CN) only",
    .fault = ETCD_FAULT_DENIED,
    .status = DIBS_DENIED,
    .is_final = true,
    .is_not_done = true,
};

void refusal_read(int http_status, const char *body, size_t n, struct refusal *out)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;

    *out = (struct refusal){ .code = -1, .status = DIBS_UNAVAILABLE, .fault = ETCD_FAULT_OTHER };
    if (n > 0 && jsonr_parse(body, n, &doc, NULL) == DIBS_OK && read_text(jsonr_root(doc), out)) {
        out->is_open = strstr(out->text, "authentication is not enabled") != NULL;
        judge(out);
        return;
    }
    char start[100] = "";
    if (n > 0)
        memcpy(start, body, n < sizeof start - 1 ? n : sizeof start - 1);
    if (strstr(start, "CommonName of client")) {
        *out = refused_name;
        return;
    }
    (void) text_safe(start, out->text, sizeof out->text);
    /* This answer is not from etcd's gateway, so etcd did not get the request. */
    out->is_not_done = http_status == HTTP_NOT_FOUND || http_status == HTTP_TOO_MANY;
}
