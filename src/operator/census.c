/* SPDX-License-Identifier: MIT */
#include "operator/census.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/part.h"
#include "base/text.h"
#include "operator/asking.h"
#include "operator/assigned.h"
#include "operator/refer.h"
#include "operator/service.h"

#include "base/banned.h"

enum { PROTOS = 4 };

/* How many pods that are alive have a claim. */
struct reference {
    struct table_item item; /* by principal and name */
    uint32_t n;
};

struct census {
    struct table objects;
    struct table references;
    struct table keeps;
    uint32_t epochs[CENSUS_SOURCES_MAX];
    uint32_t *used[PROTOS]; /* by protocol and port: how many use it */
    size_t n_pods, n_gone;
    uint64_t n_changes, n_damaged;
};

static const char *text_at(const json_value *object, const char *map, const char *key)
{
    const char *text = "";

    (void) json_get_string(json_get(object, map), key, &text);
    return text;
}

/* ---- counting ---- */

/* A pod that is finished is no pod that has its claims, but it is known that it has come. */
static uint64_t id_hash(const char *principal, const char *id, bool is_finished)
{
    char text[IDENTITY_ID_MAX + 3] = "";

    (void) snprintf(text, sizeof text, "%s%s", is_finished ? "-" : "", id);
    return table_hash(principal, text);
}

/* What a pod says, "NAME/PORT", is also what a claim is called whose name has got another number since. */
static uint64_t claim_hash(const char *principal, const char *name, uint16_t port)
{
    char text[DIBS_NAME_MAX + 8] = "";

    if (part_count(name) > DIBS_NAME_PARTS_MAX)
        return table_hash(principal, name);
    (void) snprintf(text, sizeof text, "%s/%u", name, port);
    return table_hash(principal, text);
}

static struct reference *find_reference(const struct census *c, uint64_t hash)
{
    /* Two names of one hash share a count: then one is kept for longer than it needs to be. */
    return (struct reference *) table_first(&c->references, hash);
}

static bool refer(struct census *c, uint64_t hash)
{
    struct reference *r = find_reference(c, hash);

    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r || !table_add(&c->references, &r->item, hash)) {
            free(r);
            return false;
        }
    }
    r->n++;
    return true;
}

static void unrefer(struct census *c, uint64_t hash)
{
    struct reference *r = find_reference(c, hash);

    if (!r || --r->n > 0)
        return;
    table_remove(&c->references, &r->item);
    free(r);
}

static void count_numbers(const struct census *c, const struct census_object *o, uint32_t step)
{
    for (size_t i = 0; i < o->n_numbers; i++)
        for (unsigned proto = DIBS_TCP; proto < PROTOS; proto++)
            if (o->numbers[i].protos & 1u << proto)
                c->used[proto][o->numbers[i].port] += step;
}

/* ---- one object ---- */

/* What it has. */
static void object_clear(struct census_object *o)
{
    for (size_t i = 0; i < o->n_claims; i++)
        free(o->claims[i].name);
    free(TAKE(o->claims));
    free(TAKE(o->refers));
    free(TAKE(o->numbers));
    free(TAKE(o->keeps));
    free(TAKE(o->place));
    o->n_claims = o->n_refers = o->n_numbers = o->n_keeps = 0;
}

static void object_free(struct census_object *o)
{
    if (!o)
        return;
    object_clear(o);
    free(o->name);
    free(o);
}
DEFINE_AUTO(struct census_object, object_free)

static void uncount(struct census *c, struct census_object *o)
{
    for (size_t i = 0; i < o->n_claims && !o->is_finished; i++)
        unrefer(c, claim_hash(o->principal, o->claims[i].name, o->claims[i].port));
    if (o->id[0])
        unrefer(c, id_hash(o->principal, o->id, o->is_finished));
    if (o->place)
        unrefer(c, table_hash(o->principal, o->place));
    for (size_t i = 0; i < o->n_refers; i++)
        unrefer(c, o->refers[i]);
    for (size_t i = 0; i < o->n_keeps; i++)
        table_remove(&c->keeps, &o->keeps[i].item);
    count_numbers(c, o, UINT32_MAX); /* minus one */
    c->n_pods -= o->kind == CENSUS_POD && !o->is_gone;
    c->n_gone -= o->is_gone;
}

static void unlink_object(struct census *c, struct census_object *o)
{
    table_remove(&c->objects, &o->item);
    uncount(c, o);
    c->n_changes++;
    object_free(o);
}

/* What it says of itself is counted; what cannot be counted is taken off it. */
static bool count_references(struct census *c, struct census_object *o)
{
    size_t n = 0;

    while (!o->is_finished && n < o->n_claims &&
           refer(c, claim_hash(o->principal, o->claims[n].name, o->claims[n].port)))
        n++;
    bool is_whole = o->is_finished || n == o->n_claims;
    while (!o->is_finished && o->n_claims > n)
        free(o->claims[--o->n_claims].name);
    if (o->id[0] && !refer(c, id_hash(o->principal, o->id, o->is_finished))) {
        o->id[0] = '\0';
        is_whole = false;
    }
    if (o->place && !refer(c, table_hash(o->principal, o->place))) {
        free(TAKE(o->place));
        is_whole = false;
    }
    for (n = 0; n < o->n_refers && refer(c, o->refers[n]);)
        n++;
    is_whole = is_whole && n == o->n_refers;
    o->n_refers = n;
    return is_whole;
}

/* All of it, or as if it had never been there. */
static bool link_object(struct census *c, struct census_object *o)
{
    size_t n = 0;

    if (!table_add(&c->objects, &o->item, table_hash(o->uid, NULL))) {
        object_free(o);
        return false;
    }
    bool is_whole = count_references(c, o);
    while (n < o->n_keeps && table_add(&c->keeps, &o->keeps[n].item,
                                       table_hash(o->keeps[n].keep.principal, o->keeps[n].keep.keeper)))
        n++;
    is_whole = is_whole && n == o->n_keeps;
    o->n_keeps = n;
    count_numbers(c, o, 1);
    c->n_pods += o->kind == CENSUS_POD;
    c->n_changes++;
    if (!is_whole)
        unlink_object(c, o);
    return is_whole;
}

static bool is_same_claim(const struct census_claim *a, const struct census_claim *b)
{
    return a->port == b->port && a->protos == b->protos && strcmp(a->name, b->name) == 0 &&
           strcmp(a->keeper, b->keeper) == 0;
}

static bool is_same_number(const struct census_number *a, const struct census_number *b)
{
    return a->port == b->port && a->protos == b->protos;
}

static bool is_same_keep(const struct identity_keep *a, const struct identity_keep *b)
{
    return a->first == b->first && a->n == b->n && strcmp(a->principal, b->principal) == 0 &&
           strcmp(a->keeper, b->keeper) == 0 && strcmp(a->prefix, b->prefix) == 0 &&
           strcmp(a->instance, b->instance) == 0 && strcmp(a->port, b->port) == 0;
}

/* Of one uid: does it still say the same? */
static bool is_same_object(const struct census_object *a, const struct census_object *b)
{
    bool is_same = a->is_finished == b->is_finished && a->is_gone == b->is_gone &&
                   a->n_claims == b->n_claims && a->n_numbers == b->n_numbers && a->n_keeps == b->n_keeps &&
                   a->n_refers == b->n_refers && strcmp(a->id, b->id) == 0 &&
                   strcmp(a->place ? a->place : "", b->place ? b->place : "") == 0;

    for (size_t i = 0; is_same && i < a->n_claims; i++)
        is_same = is_same_claim(&a->claims[i], &b->claims[i]);
    for (size_t i = 0; is_same && i < a->n_refers; i++)
        is_same = a->refers[i] == b->refers[i];
    for (size_t i = 0; is_same && i < a->n_numbers; i++)
        is_same = is_same_number(&a->numbers[i], &b->numbers[i]);
    for (size_t i = 0; is_same && i < a->n_keeps; i++)
        is_same = is_same_keep(&a->keeps[i].keep, &b->keeps[i].keep);
    return is_same;
}

static struct census_object *find_object(const struct census *c, const char *uid)
{
    struct table_item *item = table_first(&c->objects, table_hash(uid, NULL));

    while (item && strcmp(((struct census_object *) item)->uid, uid) != 0)
        item = table_next(item);
    return (struct census_object *) item;
}

/* ---- reading ---- */

static bool has_claim(const struct census_object *o, uint16_t port)
{
    for (size_t i = 0; i < o->n_claims; i++)
        if (o->claims[i].port == port)
            return true;
    return false;
}

/* Those that are no claims of the object's own. */
static bool read_numbers(struct census_object *o, const struct number *all, size_t n)
{
    if (n == 0)
        return true;
    o->numbers = calloc(n, sizeof *o->numbers);
    for (size_t i = 0; o->numbers && i < n; i++)
        if (!has_claim(o, all[i].port))
            o->numbers[o->n_numbers++] =
                (struct census_number){ .port = all[i].port, .protos = all[i].protos };
    return o->numbers != NULL;
}

static bool is_finished(const json_value *pod)
{
    const char *phase = text_at(pod, "status", "phase");

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* The instance that it is, if it has a name; a pod that asks for ports and was not given any says nothing: a
 * webhook was passed by. False: out of memory. */
static bool read_place(struct census_object *o, const json_value *pod)
{
    static const struct workload_port any = { .name = "-", .scope = WORKLOAD_POD_SCOPED };
    struct identity who = { 0 };
    char name[DIBS_NAME_MAX + 1] = "";
    bool asks = asking_annotation(pod, WORKLOAD_KEY_OWN) || asking_annotation(pod, WORKLOAD_KEY_RBG);

    if ((asks && !o->id[0]) || identity_of_pod(pod, NULL, &who, NULL) != DIBS_OK || !who.is_named)
        return true;
    identity_claim_name(&who, &any, 0, name);
    name[strrchr(name, '/') - name + 1] = '\0';
    o->place = strdup(name);
    return o->place != NULL;
}

static uint64_t referred_hash(const char *principal, const char *name)
{
    char text[DIBS_NAME_MAX + 2] = "";

    (void) snprintf(text, sizeof text, "?%s", name);
    return table_hash(principal, text);
}

/* What it refers to, under the name that its target would have, and that of its role. False: out of memory.
 */
static bool read_refers(struct census_object *o, const json_value *pod)
{
    struct asking asking = { 0 };
    struct identity who = { 0 };
    bool is_read = o->id[0] && asking_read(pod, "", &asking, NULL) == DIBS_OK &&
                   identity_of_pod(pod, NULL, &who, NULL) == DIBS_OK;
    size_t n = is_read && asking.config ? asking.config->n_references : 0;

    o->refers = n > 0 ? calloc(2 * n, sizeof *o->refers) : NULL;
    for (size_t i = 0; i < n && o->refers; i++) {
        char own[DIBS_NAME_MAX + 1];
        char shared[DIBS_NAME_MAX + 1];

        refer_names(&asking, &who, i, own, shared);
        o->refers[o->n_refers++] = referred_hash(o->principal, own);
        o->refers[o->n_refers++] = referred_hash(o->principal, shared);
    }
    asking_done(&asking);
    return n == 0 || o->refers;
}

static bool read_pod(struct census *c, struct census_object *o, const json_value *pod)
{
    AUTO(free_auto) struct number *numbers = calloc(NUMBERS_MAX, sizeof *numbers);
    const char *assigned = NULL;
    const char *id = NULL;
    const json_value *annotations = json_get(json_get(pod, "metadata"), "annotations");

    if (!numbers)
        return false;
    o->kind = CENSUS_POD;
    o->is_finished = is_finished(pod);
    if (json_get_string(annotations, IDENTITY_KEY_CLAIM, &id) && identity_is_id(id))
        (void) snprintf(o->id, sizeof o->id, "~%s", id);
    if (json_get_string(annotations, IDENTITY_KEY_ASSIGNED, &assigned)) {
        dibs_status s = assigned_read(assigned, &o->claims, &o->n_claims, NULL);

        if (s == DIBS_FAILURE)
            return false;
        c->n_damaged += s != DIBS_OK; /* it harms that pod alone (INV-6) */
    }
    return o->is_finished || (read_place(o, pod) && read_refers(o, pod) &&
                              read_numbers(o, numbers, pod_numbers(pod, numbers, NUMBERS_MAX)));
}

static bool read_service(struct census_object *o, const json_value *service)
{
    AUTO(free_auto) struct number *numbers = calloc(NUMBERS_MAX, sizeof *numbers);

    o->kind = CENSUS_SERVICE;
    return numbers && read_numbers(o, numbers, service_numbers(service, numbers, NUMBERS_MAX));
}

struct keeping {
    struct census_object *object;
    bool is_lost;
};

static void add_keep(void *ctx, const struct identity_keep *keep)
{
    struct keeping *k = ctx;
    struct census_object *o = k->object;
    struct census_keep *more = realloc(o->keeps, (o->n_keeps + 1) * sizeof *more);

    k->is_lost = k->is_lost || !more;
    if (!more)
        return;
    o->keeps = more;
    o->keeps[o->n_keeps++] = (struct census_keep){ .keep = *keep };
}

/* A Deployment's ReplicaSets keep nothing: it does. There are many of them. */
static bool has_controller(const json_value *object)
{
    const json_value *owners = json_get(json_get(object, "metadata"), "ownerReferences");

    return json_array_size(owners) > 0;
}

static bool read_keeper(struct census_object *o, const char *kind, const json_value *object)
{
    struct keeping k = { .object = o };

    o->kind = CENSUS_KEEPER;
    if (strcmp(kind, "ReplicaSet") != 0 || !has_controller(object))
        identity_of_object(kind, object, add_keep, &k);
    return !k.is_lost;
}

bool census_put(struct census *c, unsigned source, const char *kind, const json_value *object)
{
    AUTO(object_free_auto) struct census_object *o = calloc(1, sizeof *o);
    const char *uid = text_at(object, "metadata", "uid");
    bool is_read = false;

    if (!o || !text_copy(o->uid, sizeof o->uid, uid) || !*uid) {
        c->n_damaged++;
        return o != NULL;
    }
    o->epoch = c->epochs[source];
    (void) snprintf(o->principal, sizeof o->principal, "ns:%.63s", text_at(object, "metadata", "namespace"));
    o->name = strdup(text_at(object, "metadata", "name"));
    if (strcmp(kind, "Pod") == 0)
        is_read = o->name && read_pod(c, o, object);
    else if (strcmp(kind, "Service") == 0)
        is_read = o->name && read_service(o, object);
    else
        is_read = o->name && read_keeper(o, kind, object);
    if (!is_read)
        return false;
    struct census_object *was = find_object(c, uid);
    if (was && is_same_object(was, o)) { /* most changes are of a pod's state */
        was->epoch = o->epoch;
        return true;
    }
    if (was)
        unlink_object(c, was);
    /* What is nobody's business costs nothing, but for pods, which are counted. */
    if (o->kind != CENSUS_POD && o->n_numbers == 0 && o->n_keeps == 0)
        return true;
    return link_object(c, TAKE(o));
}

/* It is gone. A pod may not have been looked at before: of that its id is remembered. */
static void drop_object(struct census *c, struct census_object *o)
{
    if (!o->id[0]) {
        unlink_object(c, o);
        return;
    }
    uncount(c, o);
    object_clear(o);
    o->is_finished = o->is_gone = true;
    c->n_gone++;
    c->n_changes++;
    if (!refer(c, id_hash(o->principal, o->id, true))) { /* then its claims wait for their lease */
        o->id[0] = '\0';
        unlink_object(c, o);
    }
}

void census_drop(struct census *c, unsigned source, const json_value *object)
{
    struct census_object *o = find_object(c, text_at(object, "metadata", "uid"));

    (void) source;
    if (o && !o->is_gone)
        drop_object(c, o);
}

/* ---- lists ---- */

/* An epoch says its source, so that the lists of two do not end each other's objects. */
static uint32_t first_epoch(unsigned source)
{
    return source;
}

void census_begin(struct census *c, unsigned source)
{
    c->epochs[source] += CENSUS_SOURCES_MAX;
}

struct sweeping {
    struct census *census;
    unsigned source;
};

static void sweep(void *ctx, struct table_item *item)
{
    struct sweeping *s = ctx;
    struct census_object *o = (struct census_object *) item;

    if (o->epoch % CENSUS_SOURCES_MAX == s->source && o->epoch != s->census->epochs[s->source] && !o->is_gone)
        drop_object(s->census, o);
}

void census_end(struct census *c, unsigned source)
{
    table_each(&c->objects, sweep, &(struct sweeping){ c, source });
}

/* ---- asking ---- */

/* The instance of a name, if it is a pod's id: GROUP/ROLE/~ID/COMPONENT/PORT. */
static bool read_id(const char *name, char out[IDENTITY_ID_MAX + 2])
{
    const char *role = strchr(name, '/');
    const char *instance = role ? strchr(role + 1, '/') : NULL;
    size_t n = instance ? strcspn(instance + 1, "/") : 0;

    if (n != IDENTITY_ID_MAX + 1 || instance[1] != '~')
        return false;
    (void) text_copy(out, n + 1, instance + 1);
    return true;
}

bool census_has_pod(const struct census *c, const dibs_claim *claim)
{
    char id[IDENTITY_ID_MAX + 2] = "";

    if (find_reference(c, claim_hash(claim->principal, claim->name, claim->port)))
        return true;
    /* A pod that has the id has the claim, whatever its other annotation says. */
    return read_id(claim->name, id) && find_reference(c, table_hash(claim->principal, id));
}

bool census_had_pod(const struct census *c, const dibs_claim *claim)
{
    char id[IDENTITY_ID_MAX + 2] = "";

    return read_id(claim->name, id) && find_reference(c, id_hash(claim->principal, id, true));
}

static void forget(void *ctx, struct table_item *item)
{
    struct census_object *o = (struct census_object *) item;

    if (o->is_gone)
        unlink_object(ctx, o);
}

void census_forget(struct census *c)
{
    uint64_t n_changes = c->n_changes;

    if (c->n_gone > 0)
        table_each(&c->objects, forget, c);
    c->n_changes = n_changes; /* nobody is told anything else by that */
}

/* Is the instance of the claim a pod that is there? What is shared is no instance's. */
static bool has_place(const struct census *c, const dibs_claim *claim)
{
    char place[DIBS_NAME_MAX + 1] = "";
    const char *end = claim->name;

    for (int part = 0; part < DIBS_NAME_PARTS_MAX - 1 && end; part++) {
        end = strchr(end, '/');
        end = end ? end + 1 : NULL;
    }
    if (!end)
        return false;
    (void) text_copy(place, (size_t) (end - claim->name) + 1, claim->name);
    return find_reference(c, table_hash(claim->principal, place)) != NULL;
}

struct seeking {
    dibs_claim claim;
    bool is_found;
};

static void seek(void *ctx, struct table_item *item)
{
    const struct identity_keep *keep = &((const struct census_keep *) item)->keep;
    struct seeking *s = ctx;

    (void) text_copy(s->claim.command, sizeof s->claim.command, keep->keeper);
    s->is_found = s->is_found || identity_keeps(keep, &s->claim);
}

/* Of a claim that was made for who refers to it, before its own pod came: whichever object has the instance.
 */
static bool is_kept_by_any(struct census *c, const dibs_claim *claim)
{
    struct seeking s = { .claim = *claim };

    table_each(&c->keeps, seek, &s);
    return s.is_found;
}

bool census_is_kept(struct census *c, const dibs_claim *claim)
{
    struct table_item *item = table_first(&c->keeps, table_hash(claim->principal, claim->command));

    if (has_place(c, claim) || part_count(claim->name) > DIBS_NAME_PARTS_MAX)
        return false;
    if (!claim->command[0])
        return find_reference(c, referred_hash(claim->principal, claim->name)) || is_kept_by_any(c, claim);
    for (; item; item = table_next(item))
        if (identity_keeps(&((const struct census_keep *) item)->keep, claim))
            return true;
    return false;
}

bool census_is_used(const struct census *c, dibs_proto proto, uint16_t port)
{
    return c->used[proto][port] > 0;
}

struct telling {
    census_fn *fn;
    void *ctx;
};

static void tell(void *ctx, struct table_item *item)
{
    const struct telling *t = ctx;
    struct census_object *o = (struct census_object *) item;

    if (o->kind != CENSUS_KEEPER && !o->is_gone)
        t->fn(t->ctx, o);
}

void census_each(struct census *c, census_fn *fn, void *ctx)
{
    table_each(&c->objects, tell, &(struct telling){ fn, ctx });
}

size_t census_pods(const struct census *c)
{
    return c->n_pods;
}

uint64_t census_changes(const struct census *c)
{
    return c->n_changes;
}

uint64_t census_damaged(const struct census *c)
{
    return c->n_damaged;
}

/* ---- life ---- */

dibs_status census_open(struct census **out, dibs_err *err)
{
    struct census *c = calloc(1, sizeof *c);

    for (unsigned i = 0; c && i < CENSUS_SOURCES_MAX; i++)
        c->epochs[i] = first_epoch(i);
    for (unsigned proto = DIBS_TCP; c && proto < PROTOS; proto++) {
        c->used[proto] = calloc(DIBS_PORT_MAX + 1, sizeof *c->used[proto]);
        if (!c->used[proto]) {
            census_close(c);
            c = NULL;
        }
    }
    if (!c)
        return err_set(err, DIBS_FAILURE, "counting pods: out of memory");
    *out = c;
    return DIBS_OK;
}

static void free_object(void *ctx, struct table_item *item)
{
    (void) ctx;
    object_free((struct census_object *) item);
}

static void free_reference(void *ctx, struct table_item *item)
{
    (void) ctx;
    free((struct reference *) item);
}

void census_close(struct census *c)
{
    if (!c)
        return;
    table_each(&c->objects, free_object, NULL);
    table_each(&c->references, free_reference, NULL);
    table_done(&c->objects);
    table_done(&c->references);
    table_done(&c->keeps);
    for (unsigned proto = DIBS_TCP; proto < PROTOS; proto++)
        free(c->used[proto]);
    free(c);
}
