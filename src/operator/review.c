/* SPDX-License-Identifier: MIT */
#include "operator/review.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

#define API_VERSION "admission.k8s.io/v1"

static const char *text_of(const json_value *object, const char *key)
{
    const char *text = "";

    (void) json_get_string(object, key, &text);
    return text;
}

static const json_value *object_of(const json_value *object, const char *key)
{
    const json_value *v = json_get(object, key);

    return json_is_object(v) ? v : NULL;
}

static enum review_operation operation_of(const char *text)
{
    if (strcmp(text, "CREATE") == 0)
        return REVIEW_CREATE;
    return strcmp(text, "UPDATE") == 0 ? REVIEW_UPDATE : REVIEW_OTHER;
}

static dibs_status read_request(const json_value *root, struct review *out, dibs_err *err)
{
    const json_value *request = object_of(root, "request");
    const json_value *kind = object_of(request, "kind");

    if (strcmp(text_of(root, "apiVersion"), API_VERSION) != 0 ||
        strcmp(text_of(root, "kind"), "AdmissionReview") != 0)
        return err_set(err, DIBS_INVALID, "this is no AdmissionReview of " API_VERSION);
    if (!request)
        return err_set(err, DIBS_INVALID, "request: the review has none");
    out->uid = text_of(request, "uid");
    if (!*out->uid || strlen(out->uid) > REVIEW_UID_MAX)
        return err_set(err, DIBS_INVALID, "request.uid: 1 to %d bytes", REVIEW_UID_MAX);
    if (!kind)
        return err_set(err, DIBS_INVALID, "request.kind: the review does not say what it is about");
    out->group = text_of(kind, "group");
    out->kind = text_of(kind, "kind");
    out->subresource = text_of(request, "subResource");
    out->ns = text_of(request, "namespace");
    out->operation = operation_of(text_of(request, "operation"));
    out->object = object_of(request, "object");
    out->old = object_of(request, "oldObject");
    (void) json_get_bool(request, "dryRun", &out->is_dry_run);
    return DIBS_OK;
}

dibs_status review_parse(const char *text, size_t len, struct review *out, dibs_err *err)
{
    struct review review = { 0 };
    dibs_status s = json_parse(text, len, &review.doc, err);

    if (s == DIBS_OK)
        s = read_request(json_root(review.doc), &review, err);
    if (s == DIBS_OK)
        *out = review;
    else
        json_free(review.doc);
    return s;
}

void review_done(struct review *review)
{
    json_free(review->doc);
    *review = (struct review){ 0 };
}

void review_allow(struct review_verdict *out)
{
    out->is_allowed = true;
}

void review_refuse(struct review_verdict *out, int code, const char *fmt, ...)
{
    va_list args;

    out->is_allowed = false;
    out->code = code;
    va_start(args, fmt);
    (void) vsnprintf(out->message, sizeof out->message, fmt, args);
    va_end(args);
}

static void write_refusal(struct json_writer *w, const struct review_verdict *verdict)
{
    json_key(w, "status");
    json_object(w);
    json_key_int(w, "code", verdict->code);
    json_key_string(w, "message", verdict->message);
    json_end_object(w);
}

void review_write(const char *uid, const struct review_verdict *verdict, struct bytes *out)
{
    struct json_writer w = { 0 };

    json_begin_bytes(&w, out);
    json_object(&w);
    json_key_string(&w, "apiVersion", API_VERSION);
    json_key_string(&w, "kind", "AdmissionReview");
    json_key(&w, "response");
    json_object(&w);
    json_key_string(&w, "uid", uid);
    json_key_bool(&w, "allowed", verdict->is_allowed);
    if (!verdict->is_allowed)
        write_refusal(&w, verdict);
    if (verdict->is_allowed && verdict->patch.n > 0) {
        json_key_string(&w, "patchType", "JSONPatch");
        json_key(&w, "patch");
        json_base64(&w, verdict->patch.at, verdict->patch.n);
    }
    if (verdict->warning[0]) {
        json_key(&w, "warnings");
        json_array(&w);
        json_string(&w, verdict->warning);
        json_end_array(&w);
    }
    json_end_object(&w);
    json_end_object(&w);
    json_finish(&w);
}
