/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_REVIEW_H
#define DIBS_TESTS_REVIEW_H
/* Admission reviews on a real ledger: pods that ask, and what they are answered. */
#include "lib/handle.h"
#include "operator/admission.h"
#include "support/core.h"

#define OWNER(kind, name) \
    "\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" name "\",\"controller\":true}]"
#define HTTP "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}]}"
#define BODY "\"spec\":{\"containers\":[{\"name\":\"main\"}]}"

static const struct admission_template templates[] = { { "RoleInstance", "spec.components[].template" } };
static const struct admission_options options = {
    .pool = "kube", .pending_ms = 300000, .templates = templates, .n_templates = 1
};

struct asked {
    bool is_allowed;
    int code;
    char message[DIBS_ERR_MSG_MAX];
    char warning[256];
    char patch[16384];
};

__attribute__((unused)) static dibs *open_pool(struct engine *e, const char *ranges)
{
    dibs *handle = NULL;
    dibs_pool pool = { .name = "kube", .ranges = e_ranges(ranges), .order = "stride" };

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    ASSERT_OK(handle_speak_for(handle, "ns:any", "", &e->err), &e->err);
    ASSERT_OK(dibs_pool_put(handle, &pool, &e->err), &e->err);
    return handle;
}

/* `more`: further members of the request. */
__attribute__((unused)) static struct asked *review(dibs *handle, const char *operation, const char *more)
{
    static char text[65536];
    struct asked *out = calloc(1, sizeof *out);
    struct admission a = { 0 };
    dibs_err err = { 0 };

    assert_non_null(out);
    int n = snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u-1\","
        "\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"namespace\":\"shop\","
        "\"operation\":\"%s\",%s}}",
        operation, more);
    assert_true(n > 0 && (size_t) n < sizeof text);
    ASSERT_OK(admission_begin(&options, text, (size_t) n, &a, &err), &err);
    assert_string_equal(a.review.uid, "u-1");
    if (a.needs_ledger)
        admission_work(&a, &options, handle);
    out->is_allowed = a.verdict.is_allowed;
    out->code = a.verdict.code;
    (void) snprintf(out->message, sizeof out->message, "%s", a.verdict.message);
    (void) snprintf(out->warning, sizeof out->warning, "%s", a.verdict.warning);
    if (a.verdict.patch.n > 0)
        (void) snprintf(out->patch, sizeof out->patch, "%.*s", (int) a.verdict.patch.n, a.verdict.patch.at);
    admission_done(&a);
    return out;
}

__attribute__((unused)) static struct asked *create(dibs *handle, const char *pod)
{
    static char more[60000];

    (void) snprintf(more, sizeof more, "\"object\":%s", pod);
    return review(handle, "CREATE", more);
}

/* The value that follows `before` in the patch, up to the next quote that is not escaped; "" when it is not
 * there. */
__attribute__((unused)) static const char *behind(const struct asked *asked, const char *before)
{
    static char out[8][4096];
    static size_t turn;
    char *to = out[turn++ % 8];
    const char *at = strstr(asked->patch, before);
    size_t n = 0;

    if (at)
        for (at += strlen(before); *at && n < sizeof out[0] - 2 && *at != '"'; at++) {
            if (*at == '\\')
                to[n++] = *at++;
            to[n++] = *at;
        }
    to[n] = '\0';
    return to;
}

__attribute__((unused)) static const char *variable(const struct asked *asked, const char *name)
{
    char before[128];

    (void) snprintf(before, sizeof before, "{\"name\":\"%s\",\"value\":\"", name);
    return behind(asked, before);
}

#define ANNOTATED "\"path\":\"/metadata/annotations/"
__attribute__((unused)) static const char *claim_id(const struct asked *asked)
{
    return behind(asked, ANNOTATED "dibs.dev~1claim\",\"value\":\"");
}

__attribute__((unused)) static const char *assigned(const struct asked *asked)
{
    return behind(asked, ANNOTATED "dibs.dev~1assigned\",\"value\":\"");
}

#define ASSERT_ALLOWED(asked)                                    \
    do {                                                         \
        if (!(asked)->is_allowed)                                \
            fail_msg("%d: %s", (asked)->code, (asked)->message); \
    } while (0)
#define ASSERT_REFUSED(asked, with, text)                                                        \
    do {                                                                                         \
        if ((asked)->is_allowed || (asked)->code != (with) || !strstr((asked)->message, (text))) \
            fail_msg("%d: %s", (asked)->code, (asked)->message);                                 \
        assert_string_equal((asked)->patch, "");                                                 \
    } while (0)

/* A pod with the annotation of either key. */
#define POD(metadata, key, config) \
    "{\"metadata\":{" metadata ",\"annotations\":{\"" key "\":\"" config "\"}}," BODY "}"
#define OWN(metadata, config) POD(metadata, "dibs.dev/ports", config)
#define SET(n) "\"name\":\"web-" #n "\"," OWNER("StatefulSet", "web")

static size_t n_claims;
__attribute__((unused)) static bool count(void *ctx, const dibs_claim *claim)
{
    (void) ctx;
    (void) claim;
    n_claims++;
    return true;
}

__attribute__((unused)) static size_t count_claims(struct engine *e, dibs *handle)
{
    n_claims = 0;
    ASSERT_OK(dibs_claim_list(handle, &(dibs_filter){ 0 }, count, NULL, &e->err), &e->err);
    return n_claims;
}
#endif
