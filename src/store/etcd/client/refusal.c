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

/* Errors that etcd tells apart by their text alone, because several have the same code; then those that only
 * have a code. What is listed was certainly not done. */
static const struct {
    const char *text;
    int code;
    enum etcd_fault fault;
    dibs_status status;
    bool is_final, wants_login;
} known[] = {
    { "required revision has been compacted", 0, ETCD_FAULT_COMPACTED, DIBS_NOT_FOUND, true, false },
    { "is a future revision", 0, ETCD_FAULT_FUTURE, DIBS_NOT_FOUND, true, false },
    { "requested lease not found", 0, ETCD_FAULT_NO_LEASE, DIBS_NOT_FOUND, true, false },
    { "database space exceeded", 0, ETCD_FAULT_NO_SPACE, DIBS_UNAVAILABLE, true, false },
    { "too many operations", 0, ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, false },
    { "request is too large", 0, ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, false },
    { "received message larger than max", 0, ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, false },
    { "too many requests", 0, ETCD_FAULT_BUSY, DIBS_UNAVAILABLE, false, false },
    { "etcdserver: no leader", 0, ETCD_FAULT_UNREACHABLE, DIBS_UNAVAILABLE, false, false },
    { "invalid user ID or password", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, false },
    { "invalid auth token", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { "user name is empty", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { "revision of auth store is old", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { "auth: revision in header is old", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { NULL, GRPC_INVALID, ETCD_FAULT_OTHER, DIBS_INVALID, true, false },
    { NULL, GRPC_OUT_OF_RANGE, ETCD_FAULT_OTHER, DIBS_INVALID, true, false },
    { NULL, GRPC_PRECONDITION, ETCD_FAULT_OTHER, DIBS_INVALID, true, false },
    { NULL, GRPC_NOT_FOUND, ETCD_FAULT_OTHER, DIBS_NOT_FOUND, true, false },
    { NULL, GRPC_DENIED, ETCD_FAULT_DENIED, DIBS_DENIED, true, false },
    { NULL, GRPC_UNAUTHENTICATED, ETCD_FAULT_DENIED, DIBS_DENIED, true, false },
};

/* Everything else may have been done, and another endpoint may do better. */
static void judge(struct refusal *out)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0] && !out->is_not_done; i++) {
        if (known[i].text ? !strstr(out->text, known[i].text) : out->code != known[i].code)
            continue;
        out->fault = known[i].fault;
        out->status = known[i].status;
        out->is_final = known[i].is_final;
        out->wants_login = known[i].wants_login;
        out->is_not_done = true;
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
