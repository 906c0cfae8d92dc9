/* SPDX-License-Identifier: MIT */
#include "operator/admission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "operator/patch.h"
#include "operator/unchanged.h"

#include "base/banned.h"

DEFINE_AUTO(json_doc, json_free)

enum {
    PATH_MAX_BYTES = 256,
    PROTOS = DIBS_SCTP,
    CODE_BAD_FIELD = 422, /* what Kubernetes answers for a field that makes no sense, */
    CODE_TAKEN = 409,     /* ... for what others have, */
    CODE_EXHAUSTED = 403, /* ... for a quota that is used up, */
    CODE_UNAVAILABLE = 503,
    CODE_FAILURE = 500,
};

static const char *const proto_names[PROTOS + 1] = { "", "TCP", "UDP", "SCTP" };

/* ---- refusals ---- */

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
    admission->status = why->code;
    bytes_done(&admission->verdict.patch);
    review_refuse(&admission->verdict, code_of(why->code), "dibs: %s", why->msg);
}

/* ---- what the pod is told ---- */

struct telling {
    const struct admission *admission;
    const struct identity *who;
    const struct grant *grant;
    struct patch_pair *pairs; /* variables, then annotations */
    char (*values)[8 * WORKLOAD_COUNT_MAX];
    char (*addresses)[WORKLOAD_ADDRESS_MAX];
    struct patch_port *ports, *obsolete;
    size_t n_env, n_annotations, n_ports, n_obsolete;
    struct bytes assigned;
};

static void telling_done(struct telling *t)
{
    free(t->pairs);
    free(t->values);
    free(t->addresses);
    free(t->ports);
    free(t->obsolete);
    bytes_done(&t->assigned);
}

/* Bits of the port's protocols. */
static unsigned protos_of(const struct workload_port *port)
{
    size_t n = 0;
    const dibs_binding *bindings = workload_bindings(port, &n);
    unsigned protos = 0;

    for (size_t i = 0; i < n; i++)
        protos |= 1u << bindings[i].proto;
    return protos;
}

/* All that the pod has, for who has to know it when the ledger is lost. */
static void write_assigned(struct telling *t)
{
    const struct workload_component *config = t->admission->asking.config;
    struct json_writer w = { 0 };
    size_t n = 0;

    json_begin_bytes(&w, &t->assigned);
    json_array(&w);
    for (size_t i = 0; i < config->n_ports; i++) {
        const struct workload_port *port = &config->ports[i];

        for (uint32_t number = 0; number < port->count; number++, n++) {
            char name[DIBS_NAME_MAX + 1];

            identity_claim_name(t->who, port, number, name);
            json_object(&w);
            json_key_string(&w, "claim", name);
            json_key_int(&w, "port", t->grant->own[n]);
            json_key(&w, "protocols");
            json_array(&w);
            for (unsigned proto = DIBS_TCP; proto <= PROTOS; proto++)
                if (protos_of(port) & 1u << proto)
                    json_string(&w, proto_names[proto]);
            json_end_array(&w);
            json_key_string(&w, "kind",
                            port->scope == WORKLOAD_ROLE_SCOPED ? t->who->role_keeper : t->who->keeper);
            json_end_object(&w);
        }
    }
    json_end_array(&w);
    bytes_add(&t->assigned, "", 1);
}

static void tell_env(struct telling *t)
{
    const struct workload_component *config = t->admission->asking.config;
    size_t n = 0;
    size_t at = 0;

    for (size_t i = 0; i < config->n_ports; i++, n++) {
        workload_value_text(&config->ports[i], t->grant->own + at, t->values[n], sizeof t->values[n]);
        t->pairs[n] = (struct patch_pair){ config->ports[i].env, t->values[n] };
        at += config->ports[i].count;
    }
    for (size_t i = 0; i < config->n_references; i++, n++) {
        const struct grant_numbers *referred = &t->grant->referred[i];

        workload_value_text(&referred->shape, referred->ports, t->values[n], sizeof t->values[n]);
        t->pairs[n] = (struct patch_pair){ config->references[i].env, t->values[n] };
    }
    t->n_env = n;
}

/* What nobody can say yet is left out, and told to who creates the pod. */
static void tell_addresses(struct telling *t, char *warning, size_t size)
{
    const struct workload_discovery *discovery = &t->admission->asking.discovery;

    for (size_t i = 0; i < discovery->n_addresses; i++) {
        if (identity_address(t->admission->review.object, t->who, &discovery->addresses[i], t->addresses[i]))
            t->pairs[t->n_env++] = (struct patch_pair){ discovery->addresses[i].env, t->addresses[i] };
        else
            (void) snprintf(warning, size,
                            "dibs: addressRefs[%zu]: the pod is of no RoleInstance, or has no spec.subdomain",
                            i);
    }
}

static void tell_annotations(struct telling *t)
{
    const struct workload_component *config = t->admission->asking.config;
    struct patch_pair *annotations = t->pairs + t->n_env;
    size_t n = 0;

    for (size_t i = 0; i < config->n_ports; i++)
        if (config->ports[i].annotation)
            annotations[n++] = (struct patch_pair){ config->ports[i].annotation, t->values[i] };
    annotations[n++] = (struct patch_pair){ IDENTITY_KEY_CLAIM, t->grant->id };
    annotations[n++] = (struct patch_pair){ IDENTITY_KEY_ASSIGNED, t->assigned.at };
    t->n_annotations = n;
}

static void tell_ports(struct telling *t)
{
    const struct workload_component *config = t->admission->asking.config;
    size_t n = 0;

    for (size_t i = 0; i < config->n_ports; i++)
        for (uint32_t number = 0; number < config->ports[i].count; number++, n++)
            for (unsigned proto = DIBS_TCP; proto <= PROTOS; proto++)
                if (protos_of(&config->ports[i]) & 1u << proto)
                    t->ports[t->n_ports++] = (struct patch_port){ t->grant->own[n], proto_names[proto] };
}

/* Ports that it says it has from an earlier life. The text is foreign: what is not understood is passed over.
 */
static void find_obsolete(struct telling *t)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    const char *text = asking_annotation(t->admission->review.object, IDENTITY_KEY_ASSIGNED);

    if (!text || json_parse(text, strlen(text), &doc, NULL) != DIBS_OK)
        return;
    const json_value *all = json_root(doc);
    for (size_t i = 0; i < json_array_size(all) && i < ASKING_PORTS_MAX; i++) {
        const json_value *protocols = json_get(json_array_at(all, i), "protocols");
        int64_t port = 0;
        const char *name = NULL;

        if (!json_get_int(json_array_at(all, i), "port", &port) || port < 1 || port > DIBS_PORT_MAX)
            continue;
        for (size_t k = 0; k < json_array_size(protocols) && k < PROTOS; k++)
            for (unsigned proto = DIBS_TCP; proto <= PROTOS; proto++)
                if (json_as_string(json_array_at(protocols, k), &name) &&
                    strcmp(name, proto_names[proto]) == 0)
                    t->obsolete[t->n_obsolete++] = (struct patch_port){ (uint16_t) port, proto_names[proto] };
    }
}

static dibs_status tell(struct admission *a, const struct identity *who, const struct grant *grant,
                        dibs_err *err)
{
    const struct workload_component *config = a->asking.config;
    size_t n = config->n_ports + config->n_references;
    size_t n_addresses = a->asking.discovery.n_addresses;
    struct telling t = { .admission = a, .who = who, .grant = grant };
    dibs_status s = DIBS_OK;

    t.pairs = calloc(n + n_addresses + config->n_ports + 2, sizeof *t.pairs);
    t.values = calloc(n + 1, sizeof *t.values);
    t.addresses = calloc(n_addresses + 1, sizeof *t.addresses);
    t.ports = calloc(PROTOS * grant->n_own + 1, sizeof *t.ports);
    t.obsolete = calloc((size_t) PROTOS * ASKING_PORTS_MAX, sizeof *t.obsolete);
    write_assigned(&t);
    if (!t.pairs || !t.values || !t.addresses || !t.ports || !t.obsolete || t.assigned.is_lost)
        s = err_set(err, DIBS_FAILURE, "answering a review: out of memory");
    if (s == DIBS_OK) {
        tell_env(&t);
        tell_addresses(&t, a->verdict.warning, sizeof a->verdict.warning);
        tell_annotations(&t);
        tell_ports(&t);
        find_obsolete(&t);
        const struct patch_plan plan = { .env = t.pairs,
                                         .n_env = t.n_env,
                                         .annotations = t.pairs + t.n_env,
                                         .n_annotations = t.n_annotations,
                                         .gone = WORKLOAD_KEY_DISCOVERY, /* as RBG does */
                                         .ports = t.ports,
                                         .n_ports = t.n_ports,
                                         .obsolete = t.obsolete,
                                         .n_obsolete = t.n_obsolete };
        s = patch_write(a->review.object, &plan, &a->verdict.patch, err);
    }
    telling_done(&t);
    return s;
}

/* ---- the ledger's part ---- */

void admission_work(struct admission *admission, const struct admission_options *options, dibs *handle)
{
    const struct grant_options how = { .pool = options->pool,
                                       .pending_ms = options->pending_ms,
                                       .is_dry_run = admission->review.is_dry_run };
    const struct review *review = &admission->review;
    struct identity who = { 0 };
    struct grant grant = { 0 };
    dibs_err err = { 0 };

    bytes_done(&admission->verdict.patch);
    admission->verdict.warning[0] = '\0';
    admission->is_early = false;
    dibs_status s = identity_of_pod(review->object, review->ns, &who, &err);
    if (s == DIBS_OK)
        s = grant_make(
            handle, &how,
            &(struct grant_question){ review->object, &admission->asking, &who, &admission->is_early },
            &grant, &err);
    if (s == DIBS_OK)
        s = tell(admission, &who, &grant, &err);
    if (grant.warning[0])
        (void) text_copy(admission->verdict.warning, sizeof admission->verdict.warning, grant.warning);
    grant_done(&grant);
    admission->status = s;
    if (s == DIBS_OK)
        review_allow(&admission->verdict);
    else
        admission_fail(admission, &err);
}

/* ---- pods ---- */

/* A patch must be possible before anything is claimed. */
static dibs_status check_pod(const struct review *review, dibs_err *err)
{
    const struct patch_pair any = { "DIBS", "" };
    const struct patch_plan plan = { .env = &any, .n_env = 1, .annotations = &any, .n_annotations = 1 };
    struct identity who = { 0 };
    struct bytes patch = { 0 };
    dibs_status s = identity_of_pod(review->object, review->ns, &who, err);

    if (s == DIBS_OK)
        s = patch_write(review->object, &plan, &patch, err);
    bytes_done(&patch);
    return s;
}

/* A node runs a static pod as its file says, and shows it to the API server afterwards: nobody can be told
 * anything any more. */
static bool is_mirror(const json_value *pod)
{
    return asking_annotation(pod, "kubernetes.io/config.mirror") != NULL;
}

static void begin_create(struct admission *a)
{
    dibs_err err = { 0 };
    dibs_status s = asking_read(a->review.object, "", &a->asking, &err);

    if (s == DIBS_OK && !asking_is_some(&a->asking)) {
        review_allow(&a->verdict);
        return;
    }
    if (is_mirror(a->review.object)) {
        (void) text_copy(a->verdict.warning, sizeof a->verdict.warning,
                         "dibs: a static pod gets no ports; it runs as its file says");
        review_allow(&a->verdict);
        return;
    }
    if (s == DIBS_OK)
        s = check_pod(&a->review, &err);
    a->needs_ledger = s == DIBS_OK;
    if (s != DIBS_OK)
        admission_fail(a, &err);
}

static void begin_update(struct admission *a)
{
    dibs_err err = { 0 };

    if (unchanged_check(a->review.old, a->review.object, &err) == DIBS_OK)
        review_allow(&a->verdict);
    else
        admission_fail(a, &err);
}

/* ---- templates ---- */

/* Every value along the path, "[]" being each of a list; `where` is the path as it is there. */
static dibs_status check_along(const json_value *value, const char *path, const char *where, dibs_err *err)
{
    size_t len = strcspn(path, ".[");
    bool is_list = strncmp(path + len, "[]", 2) == 0;
    const char *rest = path + len + (is_list ? 2 : 0);
    char key[PATH_MAX_BYTES];
    char at[PATH_MAX_BYTES];
    struct asking asking = { 0 };
    dibs_status s = DIBS_OK;

    if (!*path) {
        s = asking_read(value, where, &asking, err);
        asking_done(&asking);
        return s;
    }
    (void) snprintf(key, sizeof key, "%.*s", (int) len, path);
    const json_value *next = json_get(value, key);
    rest += *rest == '.';
    if (!is_list) {
        (void) snprintf(at, sizeof at, "%s%s.", where, key);
        return next ? check_along(next, rest, at, err) : DIBS_OK;
    }
    for (size_t i = 0; i < json_array_size(next) && s == DIBS_OK; i++) {
        (void) snprintf(at, sizeof at, "%s%s[%zu].", where, key, i);
        s = check_along(json_array_at(next, i), rest, at, err);
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
    if (s == DIBS_OK)
        review_allow(&a->verdict);
    else
        admission_fail(a, &err);
}

/* ---- the whole ---- */

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
        review_allow(&a.verdict);
    else if (!is_pod)
        begin_template(options, &a);
    else if (a.review.operation == REVIEW_CREATE)
        begin_create(&a);
    else
        begin_update(&a);
    *out = a;
    return DIBS_OK;
}

void admission_done(struct admission *admission)
{
    asking_done(&admission->asking);
    bytes_done(&admission->verdict.patch);
    review_done(&admission->review);
}
