/* SPDX-License-Identifier: MIT */
#include "kube/inject/inject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kube/identity.h"
#include "kube/inject/model.h"
#include "kube/inject/objects.h"
#include "kube/inject/pod_text.h"
#include "kube/inject/splice.h"
#include "workload/workload.h"

#include "base/banned.h"

struct kube_injection {
    const char *text;
    size_t len;
    yaml_text *yaml;
    struct kube_objects objects;
    struct workload_plan *plans; /* how each object's claims were made; NULL before the claim */
};

static dibs_status no_memory(dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "out of memory");
}

static void free_plans(kube_injection *in)
{
    for (size_t i = 0; in->plans && i < in->objects.n; i++)
        workload_plan_free(&in->plans[i]);
    free(in->plans);
    in->plans = NULL;
}

void kube_injection_free(kube_injection *injection)
{
    if (!injection)
        return;
    free_plans(injection);
    kube_objects_free(&injection->objects);
    yaml_free(injection->yaml);
    free(injection);
}

bool kube_injection_is_needed(const kube_injection *injection)
{
    return injection->objects.n > 0;
}

/* ---- edits of a template ---- */

/* Add the value of a reference to another object. */
static dibs_status add_foreign(const kube_injection *in, const struct kube_foreign *foreign,
                               struct pod_edit *out, dibs_err *err)
{
    AUTO(free_auto) struct workload_value *value = NULL;
    const struct kube_object *o = &in->objects.all[foreign->object];
    struct workload_reference reference = foreign->reference;
    const struct workload_component only = { .size = 1, .references = &reference, .n_references = 1 };
    const struct workload_pod pod = { .role = workload_role(o->group, reference.role), .component = &only };
    dibs_status s = workload_values(o->group, &pod, &o->needs, o->ports, &value, err);

    if (s == DIBS_OK)
        pod_edit_variable(out, value->env, value->text);
    return s;
}

/* Return the numbers of one of the pod's own ports. */
static const uint16_t *numbers_of(const struct kube_object *o, const struct workload_value *value)
{
    for (size_t i = 0; i < o->needs.n; i++)
        if (o->needs.all[i].port == value->port && o->needs.all[i].number == 0 && o->ports[i] == value->first)
            return &o->ports[i];
    return NULL;
}

static bool has_pod_scoped(const struct kube_template *t)
{
    const struct workload_component *component = kube_component(t);
    bool is_scoped = false;

    for (size_t p = 0; p < component->n_ports; p++)
        is_scoped = is_scoped || component->ports[p].scope == WORKLOAD_POD_SCOPED;
    return is_scoped;
}

/* Return whether the template's pods share PodScoped ports. */
static bool shares_ports(const struct kube_template *t)
{
    return has_pod_scoped(t) && (uint64_t) t->instances * t->size > 1;
}

/* Return whether the webhook can give the pods of the template just these numbers, whenever and however often
 * they are made: a rollout, more replicas or more nodes make a second pod beside the first. */
static bool keeps_ports(const kube_injection *in, const struct kube_template *t)
{
    return !has_pod_scoped(t) || strcmp(in->objects.all[t->object].kind, "Pod") == 0;
}

/* The same with the numbers that it refers to, which may be those of any template. */
static bool keeps_numbers(const kube_injection *in, const struct kube_template *t)
{
    bool is_kept = keeps_ports(in, t);

    for (size_t i = 0; i < in->objects.n_templates && kube_component(t)->n_references + t->n_foreign > 0; i++)
        is_kept = is_kept && keeps_ports(in, &in->objects.templates[i]);
    return is_kept;
}

static dibs_status plan_edit(const kube_injection *in, const struct kube_template *t, struct pod_edit *out,
                             dibs_err *err)
{
    AUTO(free_auto) struct workload_value *own = NULL;
    const struct kube_object *o = &in->objects.all[t->object];
    const struct workload_pod pod = { .role = t->in, .component = kube_component(t) };
    size_t n_own = pod.component->n_ports + pod.component->n_references;
    dibs_status s = workload_values(o->group, &pod, &o->needs, o->ports, &own, err);

    for (size_t i = 0; i < n_own && s == DIBS_OK; i++) {
        const uint16_t *numbers = own[i].is_reference ? NULL : numbers_of(o, &own[i]);

        if (numbers)
            pod_edit_own_port(out, own[i].port, numbers);
        else
            pod_edit_variable(out, own[i].env, own[i].text);
    }
    for (size_t i = 0; i < t->n_foreign && s == DIBS_OK; i++)
        s = add_foreign(in, &t->foreign[i], out, err);
    /* The webhook of a cluster claims these numbers for the pod. */
    if (n_own + t->n_foreign > 0 && keeps_numbers(in, t))
        pod_edit_annotation(out, IDENTITY_KEY_INJECTED, "true");
    return s == DIBS_OK && out->is_lost ? no_memory(err) : s;
}

/* ---- text ---- */

/* Collect all edits of one text; `objects` are those of that text. */
static dibs_status edit_all(const kube_injection *in, const struct kube_objects *objects, struct splice *s)
{
    for (size_t i = 0; i < objects->n_templates && s->faults.status == DIBS_OK; i++) {
        AUTO(pod_edit_done) struct pod_edit edit = { 0 };

        s->faults.status = plan_edit(in, &in->objects.templates[i], &edit, s->faults.err);
        if (s->faults.status == DIBS_OK)
            pod_text_edit(s, &objects->templates[i], &edit);
    }
    return s->faults.status;
}

/* Return whether the new text contains every edit, so that a second run would change nothing. */
static bool is_as_wanted(const kube_injection *in, const char *text, size_t len, dibs_err *why)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    AUTO(kube_objects_free) struct kube_objects objects = { 0 };
    AUTO(splice_done) struct splice s = { 0 };

    if (yaml_parse(yaml_name(in->yaml), text, len, &yaml, why) != DIBS_OK ||
        kube_objects_find(yaml, false, &objects, why) != DIBS_OK ||
        objects.n_templates != in->objects.n_templates)
        return false;
    splice_begin(&s, yaml, text, len, why);
    return edit_all(in, &objects, &s) == DIBS_OK && s.n_edits == 0 && !s.inserted.is_lost;
}

dibs_status kube_injection_text(const kube_injection *in, char **out, size_t *len, dibs_err *err)
{
    AUTO(splice_done) struct splice s = { 0 };
    AUTO(bytes_done) struct bytes text = { 0 };
    dibs_err why = { 0 };

    splice_begin(&s, in->yaml, in->text, in->len, err);
    dibs_status status = edit_all(in, &in->objects, &s);
    if (status == DIBS_OK)
        status = splice_apply(&s, &text);
    if (status != DIBS_OK)
        return status;
    /* Some ways of writing YAML cannot be edited as text: fail rather than damage the file. */
    if (s.n_edits > 0 && !is_as_wanted(in, text.at, text.n, &why))
        return yaml_error(
            in->yaml, in->objects.templates[0].at, err,
            "the ports cannot be written into this text; write its pods in plain block style%s%s",
            why.msg[0] ? ": " : "", why.msg);
    *len = text.n;
    *out = TAKE(text.at);
    return DIBS_OK;
}

/* ---- reading ---- */

/* Make up claims, so that the edits can be tried before anything is claimed. */
static dibs_status make_up(kube_injection *in, dibs_err *err)
{
    uint16_t port = 0;

    for (size_t i = 0; i < in->objects.n; i++) {
        struct kube_object *o = &in->objects.all[i];
        dibs_status s = workload_needs_all(o->group, &o->needs, err);

        if (s != DIBS_OK)
            return s;
        o->ports = calloc(o->needs.n + 1, sizeof *o->ports);
        if (!o->ports)
            return no_memory(err);
        for (size_t k = 0; k < o->needs.n; k++) {
            port = (uint16_t) (port % DIBS_PORT_MAX + 1);
            o->ports[k] = port;
        }
    }
    return DIBS_OK;
}

dibs_status kube_injection_read(const char *name, const char *text, size_t len, bool is_release,
                                kube_injection **out, dibs_err *err)
{
    AUTO(kube_injection_free_auto) kube_injection *in = calloc(1, sizeof *in);
    AUTO(free_auto) char *trial = NULL;
    size_t n = 0;

    if (!in)
        return no_memory(err);
    in->text = text;
    in->len = len;
    dibs_status s = yaml_parse(name, text, len, &in->yaml, err);

    if (s == DIBS_OK)
        s = kube_objects_find(in->yaml, is_release, &in->objects, err);
    if (s == DIBS_OK)
        s = kube_model_build(in->yaml, &in->objects, err);
    if (s == DIBS_OK)
        s = make_up(in, err);
    if (s == DIBS_OK)
        s = kube_injection_text(in, &trial, &n, err);
    if (s == DIBS_OK)
        *out = TAKE(in);
    return s;
}

static void note_at(const kube_injection *in, const yaml_node *node, const char *text, kube_note_fn note,
                    void *ctx)
{
    dibs_err line = { 0 };

    (void) yaml_error(in->yaml, node, &line, "%s", text);
    note(ctx, line.msg);
}

void kube_injection_notes(const kube_injection *in, kube_note_fn note, void *ctx)
{
    size_t n_shown = in->objects.n_strays < KUBE_STRAYS_MAX ? in->objects.n_strays : KUBE_STRAYS_MAX;
    char more[64] = "";

    for (size_t i = 0; i < n_shown; i++)
        note_at(in, in->objects.strays[i],
                "an annotation that asks for ports is not used here; it belongs to the metadata of its pod "
                "template",
                note, ctx);
    (void) snprintf(more, sizeof more, "%zu more annotations are not used", in->objects.n_strays - n_shown);
    if (in->objects.n_strays > n_shown)
        note(ctx, more);
    for (size_t i = 0; i < in->objects.n_templates; i++) {
        const struct kube_template *t = &in->objects.templates[i];

        if (t->n_addresses > 0)
            note_at(in, t->discovery,
                    "addressRefs are left out: which service and instance the pods belong to is known in the "
                    "cluster only",
                    note, ctx);
        if (shares_ports(t))
            note_at(in, t->at,
                    "all pods of this template get the same PodScoped ports, which is fine because each "
                    "has a network of its own",
                    note, ctx);
    }
}

/* ---- claiming ---- */

/* Claim for all objects in one batch (INV-4). */
static dibs_status sync_all(kube_injection *in, dibs *handle, bool is_dry_run, dibs_err *err)
{
    AUTO(free_auto)
    const struct workload_group **groups = calloc(in->objects.n + 1, sizeof(struct workload_group *));

    free_plans(in);
    in->plans = calloc(in->objects.n + 1, sizeof *in->plans);
    if (!in->plans || !groups) {
        (void) no_memory(err);
        return DIBS_FAILURE;
    }
    for (size_t i = 0; i < in->objects.n; i++)
        groups[i] = in->objects.all[i].group;
    return workload_sync_all(handle, groups, in->objects.n, is_dry_run, in->plans, err);
}

static bool is_settled(const kube_injection *in)
{
    for (size_t i = 0; i < in->objects.n; i++)
        if (in->plans[i].count[WORKLOAD_KEEP] < in->plans[i].n)
            return false;
    return true;
}

dibs_status kube_injection_claim(kube_injection *in, dibs *handle, dibs_err *err)
{
    dibs_status s = sync_all(in, handle, true, err); /* a dry run first: existing claims then cost no write */

    if (s == DIBS_OK && !is_settled(in))
        s = sync_all(in, handle, false, err);
    for (size_t i = 0; i < in->objects.n && s == DIBS_OK; i++)
        for (size_t k = 0; k < in->objects.all[i].needs.n; k++) /* the claims come first, in this order */
            in->objects.all[i].ports[k] = in->plans[i].changes[k].claim.port;
    return s;
}

dibs_status kube_injection_undo(kube_injection *in, dibs *handle, dibs_err *err)
{
    dibs_status s = in->plans ? workload_undo(handle, in->plans, in->objects.n, err) : DIBS_OK;

    free_plans(in);
    return s;
}

size_t kube_injection_count(const kube_injection *in, enum workload_change_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; in->plans && i < in->objects.n; i++)
        n += in->plans[i].count[kind];
    return n;
}
