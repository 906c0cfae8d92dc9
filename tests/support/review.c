/* SPDX-License-Identifier: MIT */
#include "support/review.h"

#include "kube/webhook/admission.h"
#include "ledger/ledger.h"
#include "lib/connection.h"
#include "net/bindings.h"

static const struct admission_template templates[] = { { "RoleInstance", "spec.components[].template" } };
static struct installation installation = { .id = "test",
                                            .keys = { "0123456789abcdef0123456789abcdef" },
                                            .n_keys = 1 };
struct admission_options options = { .installation = &installation,
                                     .pool = "kube",
                                     .pending_ms = 300000,
                                     .templates = templates,
                                     .n_templates = 1 };
static size_t n_claims;

dibs *open_pool(struct engine *e, const char *ranges)
{
    dibs *handle = NULL;
    dibs_pool pool = { .name = "kube", .ranges = e_ranges(ranges), .order = "stride" };

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    ASSERT_OK(speak_for(handle, "ns:any", &e->err), &e->err);
    ASSERT_OK(dibs_pool_put(handle, &pool, &e->err), &e->err);
    return handle;
}

struct asked *review(dibs *handle, const char *operation, const char *more)
{
    return review_of(handle, "{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"}", operation, more);
}

struct asked *review_of(dibs *handle, const char *kind, const char *operation, const char *more)
{
    static char text[65536];
    struct asked *out = calloc(1, sizeof *out);
    struct admission a = { 0 };
    dibs_err err = { 0 };

    assert_non_null(out);
    int n = snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u-1\","
        "\"kind\":%s,\"namespace\":\"shop\",\"operation\":\"%s\",%s}}",
        kind, operation, more);
    assert_true(n > 0 && (size_t) n < sizeof text);
    ASSERT_OK(admission_begin(&options, text, (size_t) n, &a, &err), &err);
    assert_string_equal(a.review.uid, "u-1");
    if (a.needs_ledger)
        admission_work(&a, &options, handle);
    out->is_allowed = a.verdict.is_allowed;
    out->code = a.verdict.code;
    (void) snprintf(out->message, sizeof out->message, "%s", a.verdict.message);
    for (size_t i = 0; i < a.verdict.warnings.n; i++)
        (void) snprintf(out->warning + strlen(out->warning), sizeof out->warning - strlen(out->warning),
                        "%s%s", i ? "\n" : "", a.verdict.warnings.text[i]);
    if (a.verdict.patch.n > 0)
        (void) snprintf(out->patch, sizeof out->patch, "%.*s", (int) a.verdict.patch.n, a.verdict.patch.at);
    admission_done(&a);
    return out;
}

struct asked *create(dibs *handle, const char *pod)
{
    static char more[60000];

    (void) snprintf(more, sizeof more, "\"object\":%s", pod);
    return review(handle, "CREATE", more);
}

const char *behind(const struct asked *asked, const char *before)
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

const char *variable(const struct asked *asked, const char *name)
{
    char before[128];

    (void) snprintf(before, sizeof before, "{\"name\":\"%s\",\"value\":\"", name);
    return behind(asked, before);
}

const char *claim_id(const struct asked *asked)
{
    return behind(asked, ANNOTATED "dibs.dev~1claim\",\"value\":\"");
}

const char *assigned(const struct asked *asked)
{
    return behind(asked, ANNOTATED "dibs.dev~1assigned\",\"value\":\"");
}

const char *signature(const struct asked *asked)
{
    return behind(asked, ANNOTATED "dibs.dev~1signature\",\"value\":\"");
}

bool count(void *ctx, const dibs_claim *claim)
{
    (void) ctx;
    (void) claim;
    n_claims++;
    return true;
}

size_t count_claims(struct engine *e, dibs *handle)
{
    n_claims = 0;
    ASSERT_OK(dibs_claim_list(handle, &(dibs_filter){ 0 }, count, NULL, &e->err), &e->err);
    return n_claims;
}

void observe(struct engine *e, dibs *handle, uint16_t port, dibs_proto proto)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_request r = { .name = name,
                       .keep = true,
                       .mode = DIBS_DECLARED,
                       .port = port,
                       .pool = "kube",
                       .keeper = "Service/front" };
    dibs_claim out = { 0 };

    (void) snprintf(name, sizeof name, "observed/%s/%u", dibs_proto_text(proto), port);
    ASSERT_OK(bindings_add("*", &proto, 1, r.bindings, &r.n_bindings, &e->err), &e->err);
    ASSERT_OK(speak_for(handle, "kube:observed", &e->err), &e->err);
    ASSERT_OK(dibs_claim_ports(handle, &(dibs_batch){ .requests = &r, .n = 1 }, &out, &e->err), &e->err);
}

void set_quota(struct engine *e, dibs *handle, uint32_t quota)
{
    const struct call call = handle_call(handle);
    struct fact_record fact = { .subject = "ns:shop", .quota = quota };

    ASSERT_OK(ledger_set_quotas(handle_ledger(handle), &call, &fact, 1, &e->err), &e->err);
}
