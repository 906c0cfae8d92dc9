/* SPDX-License-Identifier: MIT */
#include "kube/webhook/review.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

#define API_VERSION "admission.k8s.io/v1"

static const jsonr_value *object_of(const jsonr_value *object, const char *key)
{
    const jsonr_value *v = jsonr_get(object, key);

    return jsonr_is_object(v) ? v : NULL;
}

static enum review_operation operation_of(const char *text)
{
    if (strcmp(text, "CREATE") == 0)
        return REVIEW_CREATE;
    return strcmp(text, "UPDATE") == 0 ? REVIEW_UPDATE : REVIEW_OTHER;
}

static dibs_status read_request(const jsonr_value *root, struct review *out, dibs_err *err)
{
    const jsonr_value *request = object_of(root, "request");
    const jsonr_value *kind = object_of(request, "kind");

    if (strcmp(jsonr_text_at(root, "apiVersion"), API_VERSION) != 0 ||
        strcmp(jsonr_text_at(root, "kind"), "AdmissionReview") != 0)
        return err_set(err, DIBS_INVALID, "this is not an AdmissionReview of " API_VERSION);
    if (!request)
        return err_set(err, DIBS_INVALID, "the review has no request");
    out->uid = jsonr_text_at(request, "uid");
    if (!*out->uid || strlen(out->uid) > REVIEW_UID_MAX)
        return err_set(err, DIBS_INVALID, "request.uid: 1 to %d bytes", REVIEW_UID_MAX);
    if (!kind)
        return err_set(err, DIBS_INVALID, "request.kind: the review does not say what it is about");
    out->group = jsonr_text_at(kind, "group");
    out->kind = jsonr_text_at(kind, "kind");
    out->subresource = jsonr_text_at(request, "subResource");
    out->ns = jsonr_text_at(request, "namespace");
    out->operation = operation_of(jsonr_text_at(request, "operation"));
    out->object = object_of(request, "object");
    out->old = object_of(request, "oldObject");
    (void) jsonr_get_bool(request, "dryRun", &out->is_dry_run);
    return DIBS_OK;
}

dibs_status review_parse(const char *text, size_t len, struct review *out, dibs_err *err)
{
    struct review review = { 0 };
    dibs_status s = jsonr_parse(text, len, &review.doc, err);

    if (s == DIBS_OK)
        s = read_request(jsonr_root(review.doc), &review, err);
    if (s == DIBS_OK)
        *out = review;
    else
        jsonr_free(review.doc);
    return s;
}

void review_done(struct review *review)
{
    jsonr_free(review->doc);
    *review = (struct review){ 0 };
}

void review_warn(struct review_warnings *warnings, const char *fmt, ...)
{
    static const char prefix[] = "dibs: ";
    va_list args;

    if (warnings->n == REVIEW_WARNINGS_MAX)
        return;
    char *text = warnings->text[warnings->n++];
    memcpy(text, prefix, sizeof prefix);
    va_start(args, fmt);
    (void) vsnprintf(text + strlen(prefix), REVIEW_WARNING_MAX - strlen(prefix), fmt, args);
    va_end(args);
}

/* Return the reason by which clients of the API server tell refusals apart (metav1.StatusReason). */
static const char *reason_of(int code)
{
    switch (code) {
    case 403: return "Forbidden";
    case 409: return "Conflict";
    case 422: return "Invalid";
    case 503: return "ServiceUnavailable";
    default: return "InternalError";
    }
}

void review_write(const char *uid, const struct review_verdict *verdict, struct bytes *out)
{
    struct jsonw w = { 0 };

    jsonw_begin_bytes(&w, out);
    jsonw_object(&w);
    jsonw_key_string(&w, "apiVersion", API_VERSION);
    jsonw_key_string(&w, "kind", "AdmissionReview");
    jsonw_key_object(&w, "response");
    jsonw_key_string(&w, "uid", uid);
    jsonw_key_bool(&w, "allowed", verdict->is_allowed);
    if (!verdict->is_allowed) {
        jsonw_key_object(&w, "status");
        jsonw_key_string(&w, "status", "Failure");
        jsonw_key_string(&w, "reason", reason_of(verdict->code));
        jsonw_key_int(&w, "code", verdict->code);
        jsonw_key_string(&w, "message", verdict->message);
        jsonw_end_object(&w);
    } else if (verdict->patch.n > 0) {
        jsonw_key_string(&w, "patchType", "JSONPatch");
        jsonw_key(&w, "patch");
        jsonw_base64(&w, verdict->patch.at, verdict->patch.n);
    }
    if (verdict->warnings.n > 0) {
        jsonw_key_array(&w, "warnings");
        for (size_t i = 0; i < verdict->warnings.n; i++)
            jsonw_string(&w, verdict->warnings.text[i]);
        jsonw_end_array(&w);
    }
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    jsonw_finish(&w);
}
