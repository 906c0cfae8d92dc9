/* SPDX-License-Identifier: MIT */
#include "kube/controller/inventory.h"

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

/* A finished pod gets another hash: it has no claims any more, but it shows that the pod arrived. */
static uint64_t id_hash(const char *principal, const char *id, bool is_finished)
{
    return hash_of(principal, "%s%s", is_finished ? "-" : "", id);
}

uint64_t inventory_claim_hash(const char *principal, const char *name, uint16_t port)
{
    bool has_port = name_part_count(name) > DIBS_NAME_PARTS_MAX;

    return has_port ? hash_table_hash(principal, name) : hash_of(principal, "%s/%u", name, port);
}

/* Hash a name that a pod may refer to: of all numbers of a port, PORT and PORT.1 on, that of the first. */
static uint64_t referred_hash(const char *principal, const char *name)
{
    const char *port = strrchr(name, '/');
    int n = port ? (int) ((size_t) (port - name) + strcspn(port, ".")) : 0;

    return hash_of(principal, "?%.*s", n, name);
}

/* A number used without a claim belongs to no namespace. */
static uint64_t number_hash(unsigned proto, uint16_t port)
{
    return hash_of("", "%u/%u", proto, port);
}

/* Hash the first `n` parts of the name with the slash behind them; 0: the name has no further part. */
static uint64_t head_hash(const dibs_claim *claim, size_t n)
{
    const char *end = name_part_at(claim->name, n);

    return end ? hash_fnv1a(hash_table_hash(claim->principal, NULL), claim->name,
                            (size_t) (end - claim->name))
               : 0;
}

/* ---- one object ---- */

static void object_clear(struct inventory_object *o)
{
    assigned_free(TAKE(o->claims), o->n_claims);
    free(TAKE(o->uses));
    free(TAKE(o->numbers.all));
    free(TAKE(o->rules));
    o->numbers = (struct numbers){ 0 };
    o->n_claims = o->n_uses = o->max_uses = o->n_rules = o->max_rules = 0;
}

static void object_free(struct inventory_object *o)
{
    if (!o)
        return;
    object_clear(o);
    free(o->name);
    free(o);
}
DEFINE_AUTO(struct inventory_object, object_free)

static bool add_use(struct inventory_object *o, uint64_t hash)
{
    if (!grow((void **) &o->uses, o->n_uses, &o->max_uses, sizeof *o->uses))
        return false;
    o->uses[o->n_uses++] = (struct hash_table_item){ .hash = hash };
    return true;
}

static void unlink_object(struct inventory *inv, struct inventory_object *o)
{
    inv->n_pods -= o->is_pod && !o->is_gone;
    inv->n_missed -= o->has_missed && !o->is_gone;
    hash_table_remove(&inv->objects, &o->item);
    for (size_t i = 0; i < o->n_uses; i++)
        hash_table_remove(&inv->uses, &o->uses[i]);
    for (size_t i = 0; i < o->n_rules; i++)
        hash_table_remove(&inv->rules, &o->rules[i].item);
}

/* Return false when memory is short; the object is then in no table. */
static bool link_object(struct inventory *inv, struct inventory_object *o)
{
    bool is_whole = hash_table_add(&inv->objects, &o->item, hash_table_hash(o->uid, NULL));

    inv->n_pods += o->is_pod && !o->is_gone;
    inv->n_missed += o->has_missed && !o->is_gone;
    for (size_t i = 0; i < o->n_uses && is_whole; i++)
        is_whole = hash_table_add(&inv->uses, &o->uses[i], o->uses[i].hash);
    for (size_t i = 0; i < o->n_rules && is_whole; i++)
        is_whole = hash_table_add(&inv->rules, &o->rules[i].item, o->rules[i].item.hash);
    if (!is_whole)
        unlink_object(inv, o);
    return is_whole;
}

static void remove_object(struct inventory *inv, struct inventory_object *o)
{
    unlink_object(inv, o);
    object_free(o);
}

/* ---- comparing ---- */

static uint64_t add_text(uint64_t hash, const char *text)
{
    return hash_fnv1a(hash, text, strlen(text) + 1);
}

static uint64_t add_number(uint64_t hash, uint64_t number)
{
    return hash_fnv1a(hash, &number, sizeof number);
}

/* Hash everything the inventory uses of an object: most changes concern only a pod's status. */
static uint64_t digest_of(const struct inventory_object *o)
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

static struct inventory_object *find_object(const struct inventory *inv, const char *uid)
{
    struct hash_table_item *item = hash_table_first(&inv->objects, hash_table_hash(uid, NULL));

    while (item && strcmp(((struct inventory_object *) item)->uid, uid) != 0)
        item = hash_table_next(item);
    return (struct inventory_object *) item;
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
                is_whole = add_use(o, number_hash(proto, o->numbers.all[i].port));
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
            is_whole = add_use(o, referred_hash(o->principal, names[k]));
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
    return add_use(o, hash_table_hash(o->principal, name));
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
    if ((asks && !o->id[0]) || identity_of_pod(pod, NULL, &who, NULL) != DIBS_OK)
        return true;
    return (!who.is_named || add_place(o, &who)) && (!o->id[0] || read_references(o, pod, &who));
}

/* Use the pod's claims. A finished pod has none, but its id shows that it arrived. */
static bool read_claims(struct inventory_object *o)
{
    bool is_whole = !o->id[0] || add_use(o, id_hash(o->principal, o->id, o->is_finished));

    for (size_t i = 0; i < o->n_claims && is_whole && !o->is_finished; i++)
        is_whole = add_use(o, inventory_claim_hash(o->principal, o->claims[i].name, o->claims[i].port));
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

bool inventory_put(struct inventory *inv, unsigned source, const char *kind, const jsonr_value *object)
{
    AUTO(object_free_auto) struct inventory_object *o = calloc(1, sizeof *o);
    const char *uid = jsonr_text_at(object, "metadata.uid");
    bool is_read = false;

    if (!o || !text_copy(o->uid, sizeof o->uid, uid) || !*uid) {
        inv->n_damaged++;
        return o != NULL;
    }
    o->source = source;
    o->epoch = inv->epochs[source];
    (void) snprintf(o->principal, sizeof o->principal, "ns:%.63s",
                    jsonr_text_at(object, "metadata.namespace"));
    o->name = strdup(jsonr_text_at(object, "metadata.name"));
    if (strcmp(kind, "Pod") == 0)
        is_read = o->name && read_pod(inv, o, object);
    else if (strcmp(kind, "Namespace") == 0)
        is_read = o->name && read_namespace(inv, o, object);
    else if (strcmp(kind, "Service") == 0)
        is_read = o->name && service_numbers(object, &o->numbers) && read_numbers(o);
    else
        is_read = o->name && read_keeper(o, kind, object);
    if (!is_read)
        return false;
    struct inventory_object *was = find_object(inv, uid);
    o->digest = digest_of(o);
    if (was && !was->is_gone && was->digest == o->digest) {
        was->epoch = o->epoch;
        return true;
    }
    /* Store all pods, for their count, but other objects only with rules or numbers. */
    bool is_stored = o->is_pod || o->has_quota || o->numbers.n > 0 || o->n_rules > 0;
    inv->n_changes += was || is_stored;
    if (was)
        remove_object(inv, was);
    if (is_stored && !link_object(inv, o))
        return false;
    if (is_stored)
        o = NULL; /* now owned by the table */
    return true;
}

/* Remove an object. Remember the id of a pod: the next pass may not have seen the pod. */
static void drop_object(struct inventory *inv, struct inventory_object *o)
{
    inv->n_changes++;
    unlink_object(inv, o);
    object_clear(o);
    o->is_finished = o->is_gone = true;
    /* When memory is short, the pod's claims stay until their lease expires. */
    if (!o->id[0] || !add_use(o, id_hash(o->principal, o->id, true)) || !link_object(inv, o))
        object_free(o);
}

void inventory_drop(struct inventory *inv, const jsonr_value *object)
{
    struct inventory_object *o = find_object(inv, jsonr_text_at(object, "metadata.uid"));

    if (o && !o->is_gone)
        drop_object(inv, o);
}

/* ---- lists ---- */

void inventory_begin(struct inventory *inv, unsigned source)
{
    inv->epochs[source]++;
}

struct sweeping {
    struct inventory *inventory;
    unsigned source;
};

static void sweep(void *ctx, struct hash_table_item *item)
{
    struct sweeping *s = ctx;
    struct inventory_object *o = (struct inventory_object *) item;

    if (o->source == s->source && o->epoch != s->inventory->epochs[s->source] && !o->is_gone)
        drop_object(s->inventory, o);
}

void inventory_end(struct inventory *inv, unsigned source)
{
    hash_table_each(&inv->objects, sweep, &(struct sweeping){ inv, source });
}

/* ---- queries ---- */

static bool is_in_use(const struct inventory *inv, uint64_t hash)
{
    return hash_table_first(&inv->uses, hash) != NULL;
}

/* Extract the pod id of an unnamed instance: GROUP/ROLE/~ID/COMPONENT/PORT. */
static bool read_id(const char *name, char out[IDENTITY_ID_MAX + 2])
{
    const char *instance = name_part_at(name, 2);
    size_t n = instance ? strcspn(instance, "/") : 0;

    if (n != IDENTITY_ID_MAX + 1 || instance[0] != '~')
        return false;
    (void) text_copy(out, n + 1, instance);
    return true;
}

bool inventory_has_pod(const struct inventory *inv, const dibs_claim *claim)
{
    char id[IDENTITY_ID_MAX + 2] = "";

    if (is_in_use(inv, inventory_claim_hash(claim->principal, claim->name, claim->port)))
        return true;
    /* A pod with this id has the claim, whatever its dibs.dev/assigned says. */
    return read_id(claim->name, id) && is_in_use(inv, hash_table_hash(claim->principal, id));
}

bool inventory_had_pod(const struct inventory *inv, const dibs_claim *claim)
{
    char id[IDENTITY_ID_MAX + 2] = "";

    return read_id(claim->name, id) && is_in_use(inv, id_hash(claim->principal, id, true));
}

static void forget(void *ctx, struct hash_table_item *item)
{
    struct inventory_object *o = (struct inventory_object *) item;

    if (o->is_gone)
        remove_object(ctx, o);
}

void inventory_forget(struct inventory *inv)
{
    hash_table_each(&inv->objects, forget, inv);
}

bool inventory_is_referred(const struct inventory *inv, const dibs_claim *claim)
{
    return is_in_use(inv, referred_hash(claim->principal, claim->name));
}

bool inventory_is_kept(const struct inventory *inv, const dibs_claim *claim)
{
    /* A present pod has this instance. Claims shared by a role have no instance. */
    bool has_place = is_in_use(inv, head_hash(claim, DIBS_NAME_PARTS_MAX - 1));

    /* The target is gone. A reservation whose target is still to come has a lease. */
    if (!claim->keeper[0] && claim->holder == DIBS_HELD_BY_NOBODY && inventory_is_referred(inv, claim))
        return true;
    if (has_place || name_part_count(claim->name) > DIBS_NAME_PARTS_MAX)
        return false;
    for (struct hash_table_item *item = hash_table_first(&inv->rules, head_hash(claim, 2)); item;
         item = hash_table_next(item))
        if (keeper_rule_covers(&((struct inventory_rule *) item)->rule, claim))
            return true;
    return false;
}

struct searching {
    uint64_t hash;
    const struct inventory_object *found;
};

static void find_user(void *ctx, struct hash_table_item *item)
{
    const struct inventory_object *o = (const struct inventory_object *) item;
    struct searching *s = ctx;

    for (size_t i = 0; i < o->n_uses && !s->found; i++)
        if (o->uses[i].hash == s->hash)
            s->found = o;
}

const struct inventory_object *inventory_referrer(struct inventory *inv, const dibs_claim *claim)
{
    struct searching s = { .hash = referred_hash(claim->principal, claim->name) };

    if (is_in_use(inv, s.hash))
        hash_table_each(&inv->objects, find_user, &s);
    return s.found;
}

bool inventory_is_used(const struct inventory *inv, dibs_proto proto, uint16_t port)
{
    return is_in_use(inv, number_hash(proto, port));
}

static void free_object(void *ctx, struct hash_table_item *item)
{
    (void) ctx;
    object_free((struct inventory_object *) item);
}

void inventory_done(struct inventory *inv)
{
    hash_table_each(&inv->objects, free_object, NULL);
    hash_table_done(&inv->objects);
    hash_table_done(&inv->uses);
    hash_table_done(&inv->rules);
    *inv = (struct inventory){ .installation = inv->installation };
}
