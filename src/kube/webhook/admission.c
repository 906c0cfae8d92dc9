/* SPDX-License-Identifier: MIT */
#include "kube/webhook/admission.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "kube/webhook/adopt.h"
#include "kube/webhook/pod_patch.h"

#include "base/banned.h"

enum {
    PATH_MAX_BYTES = 256,
    CODE_BAD_FIELD = 422, /* Kubernetes' code for an invalid field */
    CODE_TAKEN = 409,     /* for a conflict */
    CODE_EXHAUSTED = 403, /* for an exhausted quota */
    CODE_UNAVAILABLE = 503,
    CODE_FAILURE = 500,
};

static int code_of(dibs_status status)
{
    switch (status) {
    case DIBS_INVALID: return CODE_BAD_FIELD;
    case DIBS_TAKEN: return CODE_TAKEN;
    case DIBS_EXHAUSTED: return CODE_EXHAUSTED;
    case DIBS_UNAVAILABLE: return CODE_UNAVAILABLE;
    case DIBS_OK:
    case DIBS_FAILURE:
    case DIBS_NOT_FOUND:
    case DIBS_DENIED: break;
    }
    return CODE_FAILURE;
}

void admission_fail(struct admission *admission, const dibs_err *why)
{
    struct review_verdict *verdict = &admission->verdict;

    admission->status = why->code;
    bytes_done(&verdict->patch);
    verdict->is_allowed = false;
    verdict->code = code_of(why->code);
    (void) snprintf(verdict->message, sizeof verdict->message, "dibs: %s", why->msg);
}

/* Allow the object, or refuse it because of `why`. */
static void decide(struct admission *a, dibs_status s, const dibs_err *why)
{
    a->verdict.is_allowed = s == DIBS_OK;
    if (s != DIBS_OK)
        admission_fail(a, why);
}

/* Add the addresses of other pods. Leave out unknown ones with a warning. */
static void add_addresses(struct admission *a, const struct identity *who, struct pod_edit *out)
{
    const struct workload_discovery *discovery = &a->request.discovery;
    char address[WORKLOAD_ADDRESS_MAX];

    for (size_t i = 0; i < discovery->n_addresses; i++) {
        if (identity_address(a->review.object, who, &discovery->addresses[i], address))
            pod_edit_variable(out, discovery->addresses[i].env, address);
        else
            review_warn(&a->verdict.warnings,
                        "addressRefs[%zu]: the pod is of no RoleInstance, or has no spec.subdomain", i);
    }
}

/* Give a RoleInstance the numbers of its pods. */
static dibs_status edit_instance(struct admission *a, dibs *handle, struct allocation *allocation,
                                 struct pod_edit *edit, dibs_err *err)
{
    *allocation->who = a->instance.whos[0]; /* for the namespace, which all have in common */
    dibs_status s = role_instance_claim(handle, &a->instance, allocation, edit, err);

    return s == DIBS_OK ? pod_patch_annotations(a->review.object, edit, &a->verdict.patch, err) : s;
}

static dibs_status edit_pod(struct admission *a, dibs *handle, struct allocation *allocation,
                            struct pod_edit *edit, dibs_err *err)
{
    const jsonr_value *pod = a->review.object;
    dibs_status s = identity_of_pod(pod, a->review.ns, allocation->who, err);

    if (s == DIBS_OK)
        s = allocation_make(handle, allocation, edit, err);
    if ((s == DIBS_TAKEN || s == DIBS_INVALID) && a->request.required)
        s = adopt_explain(&a->request, s, err);
    if (s != DIBS_OK)
        return s;
    add_addresses(a, allocation->who, edit);
    for (size_t i = 0; i < a->assignment.n; i++) /* host ports that the pod was copied with */
        pod_edit_obsolete(edit, a->assignment.claims[i].port, a->assignment.claims[i].protos);
    return edit->is_lost ? err_set(err, DIBS_FAILURE, "answering a review: out of memory")
                         : pod_patch_write(pod, edit, &a->verdict.patch, err);
}

/* A pod that asks for nothing keeps what it brings, if that can be had. */
static dibs_status claim_brought(struct admission *a, dibs *handle, struct allocation *allocation,
                                 struct pod_edit *edit, dibs_err *err)
{
    dibs_status s = identity_of_pod(a->review.object, a->review.ns, allocation->who, err);

    (void) edit;
    return s == DIBS_OK ? pod_assignment_claim(handle, allocation, err) : s;
}

void admission_work(struct admission *admission, const struct admission_options *options, dibs *handle)
{
    const struct review *review = &admission->review;
    /* RBG removes this annotation, too. */
    AUTO(pod_edit_done) struct pod_edit edit = { .removed = WORKLOAD_KEY_DISCOVERY };
    struct identity who = { 0 };
    struct allocation allocation = { .installation = options->installation,
                                     .pool = options->pool,
                                     .pending_ms = options->pending_ms,
                                     .is_dry_run = review->is_dry_run,
                                     .has_quota = options->has_quota,
                                     .pod = review->object,
                                     .request = &admission->request,
                                     .assignment = &admission->assignment,
                                     .who = &who,
                                     .warnings = &admission->verdict.warnings };
    dibs_err err = { 0 };

    bytes_done(&admission->verdict.patch);
    admission->verdict.warnings.n = 0;
    dibs_status s = (admission->instance.whos ? edit_instance
                     : port_request_is_some(&admission->request)
                         ? edit_pod
                         : claim_brought)(admission, handle, &allocation, &edit, &err);
    admission->is_early = allocation.is_early;
    admission->status = s;
    decide(admission, s, &err);
}

/* Check that a patch is possible before anything is claimed. */
static dibs_status check_pod(struct admission *a, dibs_err *err)
{
    const struct review *review = &a->review;
    struct pod_edit_pair any = { "DIBS", "" };
    const struct pod_edit edit = { .env = &any, .n_env = 1, .annotations = &any, .n_annotations = 1 };
    struct identity who = { 0 };
    struct bytes patch = { 0 };
    dibs_status s = identity_of_pod(review->object, review->ns, &who, err);

    if (s == DIBS_OK)
        s = pod_patch_write(review->object, &edit, &patch, err);
    if (s == DIBS_OK)
        adopt_numbers(review->object, &who, &a->request);
    bytes_done(&patch);
    return s;
}

static void begin_create(const struct admission_options *options, struct admission *a)
{
    dibs_err err = { 0 };
    dibs_status s = port_request_read(a->review.object, "", &a->request, &err);
    bool is_some = s == DIBS_OK && port_request_is_some(&a->request);

    if (port_request_is_mirror(a->review.object)) {
        if (s != DIBS_OK || is_some)
            review_warn(&a->verdict.warnings, "a static pod gets no ports; it runs as its file says");
        a->verdict.is_allowed = true;
        return;
    }
    if (s == DIBS_OK)
        s = pod_assignment_read(options->installation, &a->review, &a->assignment, &err);
    if (s == DIBS_OK && is_some)
        s = check_pod(a, &err);
    decide(a, s, &err);
    a->needs_ledger = s == DIBS_OK && (is_some || a->assignment.n > 0);
}

/* Refuse a change of the key in `map`, "annotations" or "labels". */
static dibs_status check_same(const struct review *review, const char *map, const char *key, dibs_err *err)
{
    char path[32];
    const char *was = NULL;
    const char *is = NULL;

    (void) snprintf(path, sizeof path, "metadata.%s", map);
    (void) jsonr_get_string(jsonr_at(review->old, path), key, &was);
    (void) jsonr_get_string(jsonr_at(review->object, path), key, &is);
    if (was && is ? strcmp(was, is) == 0 : was == is)
        return DIBS_OK;
    return err_set(err, DIBS_INVALID,
                   "metadata.%s[%s] cannot be changed: the ports of a pod are those it was created with", map,
                   key);
}

/* Refuse updates of the annotations and labels that the ports of running containers depend on. */
static dibs_status check_unchanged(const struct review *review, dibs_err *err)
{
    static const struct {
        const char *map, *key;
        bool needs_ports;
    } fields[] = {
        { "annotations", WORKLOAD_KEY_RBG, false },       { "annotations", WORKLOAD_KEY_OWN, false },
        { "annotations", IDENTITY_KEY_CLAIM, false },     { "annotations", IDENTITY_KEY_ASSIGNED, false },
        { "annotations", IDENTITY_KEY_SIGNATURE, false }, { "labels", IDENTITY_LABEL_GROUP, true },
        { "labels", IDENTITY_LABEL_ROLE, true },
    };
    bool has_ports = port_request_annotation(review->old, IDENTITY_KEY_CLAIM) != NULL;
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < sizeof fields / sizeof *fields && s == DIBS_OK; i++)
        if (has_ports || !fields[i].needs_ports)
            s = check_same(review, fields[i].map, fields[i].key, err);
    return s;
}

/* Add the variable as the old object has it. */
static void keep_variable(const struct review *review, const char *env, struct pod_edit *edit)
{
    const char *value = port_request_variable(review->old, env);

    if (value)
        pod_edit_variable(edit, env, value);
}

/* Keep the variables and annotations that were written with the ports. A manifest that is applied once more
 * may have values of its own under these names. */
static void keep_given(struct admission *a)
{
    const struct review *review = &a->review;
    AUTO(pod_edit_done) struct pod_edit edit = { 0 };
    struct port_request request = { 0 };
    const struct workload_component *config =
        port_request_annotation(review->old, IDENTITY_KEY_CLAIM) &&
                port_request_read(review->old, "", &request, NULL) == DIBS_OK
            ? request.config
            : NULL;

    for (size_t i = 0; config && i < config->n_ports; i++) {
        const char *key = config->ports[i].annotation;
        const char *value = key ? port_request_annotation(review->old, key) : NULL;

        keep_variable(review, config->ports[i].env, &edit);
        if (value)
            pod_edit_annotation(&edit, key, value);
    }
    for (size_t i = 0; config && i < config->n_references; i++)
        keep_variable(review, config->references[i].env, &edit);
    if (config && !edit.is_lost) /* the API server refuses what cannot be patched */
        (void) !pod_patch_write(review->object, &edit, &a->verdict.patch, NULL);
    if (a->verdict.patch.n > 0)
        review_warn(&a->verdict.warnings, "the ports of a pod are those it was created with: its variables "
                                          "and annotations of them stay as they are");
    port_request_done(&request);
}

static void begin_update(struct admission *a)
{
    dibs_err err = { 0 };

    decide(a, check_unchanged(&a->review, &err), &err);
    if (a->verdict.is_allowed)
        keep_given(a);
}

/* Check every value along the path, "[]" being each item of a list; `where` is the path so far. */
static dibs_status check_along(const jsonr_value *value, const char *path, const char *where, dibs_err *err)
{
    size_t len = strcspn(path, ".[");
    bool is_list = strncmp(path + len, "[]", 2) == 0;
    const char *rest = path + len + (is_list ? 2 : 0);
    char key[PATH_MAX_BYTES];
    char at[PATH_MAX_BYTES];
    struct port_request request = { 0 };
    dibs_status s = DIBS_OK;

    if (!*path) {
        s = port_request_read(value, where, &request, err);
        port_request_done(&request);
        return s;
    }
    (void) snprintf(key, sizeof key, "%.*s", (int) len, path);
    const jsonr_value *next = jsonr_get(value, key);
    rest += *rest == '.';
    if (!is_list) {
        (void) snprintf(at, sizeof at, "%s%s.", where, key);
        return next ? check_along(next, rest, at, err) : DIBS_OK;
    }
    for (size_t i = 0; i < jsonr_array_size(next) && s == DIBS_OK; i++) {
        (void) snprintf(at, sizeof at, "%s%s[%zu].", where, key, i);
        s = check_along(jsonr_array_at(next, i), rest, at, err);
    }
    return s;
}

static void begin_template(const struct admission_options *options, struct admission *a)
{
    dibs_err err = { 0 };
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < options->n_templates && s == DIBS_OK; i++)
        if (strcmp(options->templates[i].kind, a->review.kind) == 0)
            s = check_along(a->review.object, options->templates[i].path, "", &err);
    if (s == DIBS_OK && strcmp(a->review.kind, "RoleInstance") == 0 &&
        strcmp(a->review.group, "workloads.x-k8s.io") == 0)
        s = role_instance_read(&a->review, &a->instance, &a->request, &a->verdict.warnings, &err);
    decide(a, s, &err);
    a->needs_ledger = s == DIBS_OK && port_request_is_some(&a->request);
}

dibs_status admission_begin(const struct admission_options *options, const char *text, size_t len,
                            struct admission *out, dibs_err *err)
{
    struct admission a = { 0 };
    dibs_status s = review_parse(text, len, &a.review, err);

    if (s != DIBS_OK)
        return s;
    bool is_pod = strcmp(a.review.kind, "Pod") == 0 && !*a.review.group;
    bool is_written = !*a.review.subresource && a.review.object && a.review.operation != REVIEW_OTHER;
    if (!is_written)
        a.verdict.is_allowed = true;
    else if (!is_pod)
        begin_template(options, &a);
    else if (a.review.operation == REVIEW_CREATE)
        begin_create(options, &a);
    else
        begin_update(&a);
    *out = a;
    return DIBS_OK;
}

void admission_done(struct admission *admission)
{
    port_request_done(&admission->request);
    pod_assignment_done(&admission->assignment);
    role_instance_done(&admission->instance);
    bytes_done(&admission->verdict.patch);
    review_done(&admission->review);
}
