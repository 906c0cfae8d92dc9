/* SPDX-License-Identifier: MIT */
#include "kube/controller/inventory.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/name_part.h"
#include "base/text.h"
#include "kube/controller/inventory_object.h"

#include "base/banned.h"

/* Hash the first `n` parts of the name with the slash behind them; 0: the name has no further part. */
static uint64_t head_hash(const dibs_claim *claim, size_t n)
{
    const char *end = name_part_at(claim->name, n);

    return end ? hash_fnv1a(hash_table_hash(claim->principal, NULL), claim->name,
                            (size_t) (end - claim->name))
               : 0;
}

/* ---- objects ---- */

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
    inventory_object_free(o);
}

static struct inventory_object *find_object(const struct inventory *inv, const char *uid)
{
    struct hash_table_item *item = hash_table_first(&inv->objects, hash_table_hash(uid, NULL));

    while (item && strcmp(((struct inventory_object *) item)->uid, uid) != 0)
        item = hash_table_next(item);
    return (struct inventory_object *) item;
}

bool inventory_put(struct inventory *inv, unsigned source, const char *kind, const jsonr_value *object)
{
    AUTO(inventory_object_free_auto) struct inventory_object *o = calloc(1, sizeof *o);
    const char *uid = jsonr_text_at(object, "metadata.uid");

    if (!o || !text_copy(o->uid, sizeof o->uid, uid) || !*uid) {
        inv->n_damaged++;
        return o != NULL;
    }
    o->source = source;
    o->epoch = inv->epochs[source];
    if (!inventory_object_read(inv, o, kind, object))
        return false;
    struct inventory_object *was = find_object(inv, uid);
    o->digest = inventory_object_digest(o);
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
    inventory_object_clear(o);
    o->is_finished = o->is_gone = true;
    /* When memory is short, the pod's claims stay until their lease expires. */
    if (!o->id[0] || !inventory_object_use(o, inventory_id_hash(o->principal, o->id, true)) ||
        !link_object(inv, o))
        inventory_object_free(o);
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

bool inventory_is_copied(const struct inventory *inv, const struct inventory_object *pod)
{
    const struct hash_table_item *own =
        hash_table_first(&inv->uses, inventory_id_hash(pod->principal, pod->id, false));

    return pod->id[0] && own && hash_table_next(own);
}

bool inventory_had_pod(const struct inventory *inv, const dibs_claim *claim)
{
    char id[IDENTITY_ID_MAX + 2] = "";

    return read_id(claim->name, id) && is_in_use(inv, inventory_id_hash(claim->principal, id, true));
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
    return is_in_use(inv, inventory_referred_hash(claim->principal, claim->name));
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
    struct searching s = { .hash = inventory_referred_hash(claim->principal, claim->name) };

    if (is_in_use(inv, s.hash))
        hash_table_each(&inv->objects, find_user, &s);
    return s.found;
}

bool inventory_is_used(const struct inventory *inv, dibs_proto proto, uint16_t port)
{
    return is_in_use(inv, inventory_number_hash(proto, port));
}

static void free_object(void *ctx, struct hash_table_item *item)
{
    (void) ctx;
    inventory_object_free((struct inventory_object *) item);
}

void inventory_done(struct inventory *inv)
{
    hash_table_each(&inv->objects, free_object, NULL);
    hash_table_done(&inv->objects);
    hash_table_done(&inv->uses);
    hash_table_done(&inv->rules);
    *inv = (struct inventory){ .installation = inv->installation };
}
