/* SPDX-License-Identifier: MIT */
#include "kube/controller/inventory_object.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/name_part.h"
#include "base/text.h"
#include "kube/protocol.h"
#include "kube/webhook/port_request.h"
#include "kube/webhook/reference.h"

#include "base/banned.h"

/* ---- hashes ---- */

DIBS_PRINTF(2, 3)
static uint64_t hash_of(const char *principal, const char *fmt, ...)
{
    char text[DIBS_NAME_MAX + 8] = "";
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return hash_table_hash(principal, text);
}

uint64_t inventory_id_hash(const char *principal, const char *id, bool is_finished)
{
    return hash_of(principal, "%s%s", is_finished ? "-" : "", id);
}

uint64_t inventory_claim_hash(const char *principal, const char *name, uint16_t port)
{
    bool has_port = name_part_count(name) > DIBS_NAME_PARTS_MAX;

    return has_port ? hash_table_hash(principal, name) : hash_of(principal, "%s/%u", name, port);
}

uint64_t inventory_referred_hash(const char *principal, const char *name)
{
    const char *port = strrchr(name, '/');
    int n = port ? (int) ((size_t) (port - name) + strcspn(port, ".")) : 0;

    return hash_of(principal, "?%.*s", n, name);
}

uint64_t inventory_number_hash(unsigned proto, uint16_t port)
{
    return hash_of("", "%u/%u", proto, port);
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    return hash_fnv1a(hash, text, strlen(text) + 1);
}

static uint64_t add_number(uint64_t hash, uint64_t number)
{
    return hash_fnv1a(hash, &number, sizeof number);
}

uint64_t inventory_object_digest(const struct inventory_object *o)
{
    uint64_t hash = add_number(add_number(HASH_FNV_BASIS, o->is_finished), o->has_quota ? o->quota + 1 : 0);

    hash = add_number(add_number(hash, o->has_missed), o->is_signed);
    for (size_t i = 0; i < o->n_uses; i++)
        hash = add_number(hash, o->uses[i].hash);
    for (size_t i = 0; i < o->n_claims; i++) /* names and ports are among the uses */
        hash = add_number(add_text(hash, o->claims[i].keeper), o->claims[i].protos);
    for (size_t i = 0; i < o->n_rules; i++) {
        const struct keeper_rule *rule = &o->rules[i].rule;

        hash = add_text(add_number(hash, o->rules[i].item.hash), rule->keeper);
        hash = add_text(add_text(hash, rule->instance), rule->port);
        hash = add_number(add_number(hash, rule->first), rule->n);
    }
    return hash;
}

/* ---- memory ---- */

void inventory_object_clear(struct inventory_object *o)
{
    assigned_free(TAKE(o->claims), o->n_claims);
    free(TAKE(o->uses));
    free(TAKE(o->numbers.all));
    free(TAKE(o->rules));
    o->numbers = (struct numbers){ 0 };
    o->n_claims = o->n_uses = o->max_uses = o->n_rules = o->max_rules = 0;
}

void inventory_object_free(struct inventory_object *o)
{
    if (!o)
        return;
    inventory_object_clear(o);
    free(o->name);
    free(o);
}
bool inventory_object_use(struct inventory_object *o, uint64_t hash)
{
    if (!grow((void **) &o->uses, o->n_uses, &o->max_uses, sizeof *o->uses))
        return false;
    o->uses[o->n_uses++] = (struct hash_table_item){ .hash = hash };
    return true;
}

/* ---- reading ---- */

static bool has_claim(const struct inventory_object *o, uint16_t port)
{
    for (size_t i = 0; i < o->n_claims; i++)
        if (o->claims[i].port == port)
            return true;
    return false;
}

/* Use the object's numbers that are not its proven claims; remove the others. False: out of memory. */
static bool read_numbers(struct inventory_object *o)
{
    bool is_whole = true;
    size_t n = 0;

    for (size_t i = 0; i < o->numbers.n; i++)
        if (!o->is_signed || !has_claim(o, o->numbers.all[i].port))
            o->numbers.all[n++] = o->numbers.all[i];
    o->numbers.n = n;
    for (size_t i = 0; i < n; i++)
        for (unsigned proto = DIBS_TCP; proto < PROTOCOLS_END && is_whole; proto++)
            if (o->numbers.all[i].protos & 1u << proto)
                is_whole = inventory_object_use(o, inventory_number_hash(proto, o->numbers.all[i].port));
    return is_whole;
}

static bool is_finished(const jsonr_value *pod)
{
    const char *phase = jsonr_text_at(pod, "status.phase");

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* Use the names that the targets of the pod's references have or would have. False: out of memory. */
static bool read_references(struct inventory_object *o, const jsonr_value *pod, const struct identity *who)
{
    struct port_request request = { 0 };
    dibs_status s = port_request_read(pod, "", &request, NULL);
    bool is_whole = true;

    for (size_t i = 0; s == DIBS_OK && request.config && i < request.config->n_references && is_whole; i++) {
        char names[REFERENCE_NAMES_MAX][DIBS_NAME_MAX + 1];
        size_t n = reference_names(&request, who, i, names);

        for (size_t k = 0; k < n && is_whole; k++)
            is_whole = inventory_object_use(o, inventory_referred_hash(o->principal, names[k]));
    }
    port_request_done(&request);
    return is_whole;
}

/* Return whether the webhook would have given the pod ports, or refused it. */
static bool asks_for_ports(const jsonr_value *pod)
{
    struct port_request request = { 0 };
    dibs_status s = port_request_read(pod, "", &request, NULL);
    bool asks = s == DIBS_INVALID || (s == DIBS_OK && port_request_is_some(&request));

    port_request_done(&request);
    return asks;
}

static bool add_place(struct inventory_object *o, const struct identity *who)
{
    static const struct workload_port any = { .name = "-", .scope = WORKLOAD_POD_SCOPED };
    char name[DIBS_NAME_MAX + 1] = "";

    identity_claim_name(who, &any, 0, name);
    name[strrchr(name, '/') - name + 1] = '\0';
    return inventory_object_use(o, hash_table_hash(o->principal, name));
}

/* Use the instance of a pod that has succeeded and is not replaced: it gives up its claims, which its Job
 * would keep. False: out of memory. */
static bool read_finished(struct inventory_object *o, const jsonr_value *pod)
{
    struct identity who = { 0 };

    if (strcmp(jsonr_text_at(pod, "status.phase"), "Succeeded") != 0 ||
        identity_of_pod(pod, NULL, &who, NULL) != DIBS_OK)
        return true;
    return !who.runs_once || add_place(o, &who);
}

/* Use the pod's instance, if it is named, and its references. A pod that requests ports but has no id
 * bypassed the webhook. False: out of memory. */
static bool read_place(struct inventory_object *o, const jsonr_value *pod)
{
    struct identity who = { 0 };
    bool asks =
        port_request_annotation(pod, WORKLOAD_KEY_OWN) || port_request_annotation(pod, WORKLOAD_KEY_RBG);

    o->has_missed = asks && !o->id[0] && asks_for_ports(pod);
    o->is_mirror = port_request_is_mirror(pod);
    if ((asks && !o->id[0]) || identity_of_pod(pod, NULL, &who, NULL) != DIBS_OK)
        return true;
    return (!who.is_named || add_place(o, &who)) && (!o->id[0] || read_references(o, pod, &who));
}

/* Use the pod's claims. A finished pod has none, but its id shows that it arrived. */
static bool read_claims(struct inventory_object *o)
{
    bool is_whole =
        !o->id[0] || inventory_object_use(o, inventory_id_hash(o->principal, o->id, o->is_finished));

    for (size_t i = 0; i < o->n_claims && is_whole && !o->is_finished; i++)
        is_whole =
            inventory_object_use(o, inventory_claim_hash(o->principal, o->claims[i].name, o->claims[i].port));
    return is_whole;
}

static bool read_pod(struct inventory *inv, struct inventory_object *o, const jsonr_value *pod)
{
    const char *assigned = NULL;
    const char *id = NULL;
    const char *signature = NULL;
    const jsonr_value *annotations = jsonr_at(pod, "metadata.annotations");

    o->is_pod = true;
    o->created_ms = clock_wall_parse(jsonr_text_at(pod, "metadata.creationTimestamp"));
    o->is_finished = is_finished(pod);
    if (jsonr_get_string(annotations, IDENTITY_KEY_CLAIM, &id) && identity_is_id(id))
        (void) snprintf(o->id, sizeof o->id, "~%s", id);
    if (jsonr_get_string(annotations, IDENTITY_KEY_ASSIGNED, &assigned)) {
        dibs_status s = assigned_read(assigned, &o->claims, &o->n_claims, NULL);

        if (s == DIBS_FAILURE)
            return false;
        inv->n_damaged += s != DIBS_OK; /* affects only this pod (INV-6) */
        (void) jsonr_get_string(annotations, IDENTITY_KEY_SIGNATURE, &signature);
        o->is_signed = s == DIBS_OK && id && inv->installation &&
                       installation_has_signed(inv->installation,
                                               &(struct installation_statement){ o->principal, id, assigned },
                                               signature);
    }
    if (!read_claims(o))
        return false;
    if (o->is_finished)
        return read_finished(o, pod);
    return read_place(o, pod) && pod_numbers(pod, &o->numbers) && read_numbers(o);
}

static void add_rule(void *ctx, const struct keeper_rule *rule)
{
    struct inventory_object *o = ctx;

    o->is_lost = o->is_lost || !grow((void **) &o->rules, o->n_rules, &o->max_rules, sizeof *o->rules);
    if (!o->is_lost)
        o->rules[o->n_rules++] =
            (struct inventory_rule){ .item.hash = hash_table_hash(rule->principal, rule->prefix),
                                     .rule = *rule };
}

/* Skip the ReplicaSets of a Deployment, which keeps the claims itself: they are many. */
static bool has_controller(const jsonr_value *object)
{
    const jsonr_value *owners = jsonr_at(object, "metadata.ownerReferences");

    return jsonr_array_size(owners) > 0;
}

static bool read_keeper(struct inventory_object *o, const char *kind, const jsonr_value *object)
{
    if (strcmp(kind, "ReplicaSet") != 0 || !has_controller(object))
        keeper_rules_of(kind, object, add_rule, o);
    return !o->is_lost;
}

/* Read the quota of a Namespace. One that is not a number of ports counts as none. */
static bool read_namespace(struct inventory *inv, struct inventory_object *o, const jsonr_value *object)
{
    const char *text = NULL;
    uint64_t quota = 0;

    (void) snprintf(o->principal, sizeof o->principal, "ns:%.63s", o->name);
    if (!jsonr_get_string(jsonr_at(object, "metadata.annotations"), IDENTITY_KEY_QUOTA, &text))
        return true;
    o->has_quota = text_number(text, strlen(text), DIBS_PORT_MAX, &quota);
    inv->n_damaged += !o->has_quota;
    o->quota = (uint32_t) quota;
    return true;
}

bool inventory_object_read(struct inventory *inv, struct inventory_object *o, const char *kind,
                           const jsonr_value *object)
{
    (void) snprintf(o->principal, sizeof o->principal, "ns:%.63s",
                    jsonr_text_at(object, "metadata.namespace"));
    o->name = strdup(jsonr_text_at(object, "metadata.name"));
    if (!o->name)
        return false;
    if (strcmp(kind, "Pod") == 0)
        return read_pod(inv, o, object);
    if (strcmp(kind, "Namespace") == 0)
        return read_namespace(inv, o, object);
    if (strcmp(kind, "Service") == 0)
        return service_numbers(object, &o->numbers) && read_numbers(o);
    return read_keeper(o, kind, object);
}
