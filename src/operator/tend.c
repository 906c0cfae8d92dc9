/* SPDX-License-Identifier: MIT */
#include "operator/tend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "lib/handle.h"
#include "net/bindings.h"
#include "net/portbits.h"

#include "base/banned.h"

enum {
    STEP =
        512, /* claims of one transaction: several of etcd's own limit in one request, well within its size */
    LOOK_AGAIN_MS = 1000, /* a claim that could not be written again is tried again after this, */
    AGAIN_MS = 60000,     /* ... and then after this */
    PROTOS = 4,
    FIRST_GENERATION = 1, /* of a claim that nobody else has taken since it was made */
};

/* A claim of the cluster, as it was when it was seen first. */
struct known {
    struct table_item item; /* by principal and name */
    uint64_t id, generation;
    int64_t lease_until_ms; /* by another clock: only compared */
    int64_t over_ms;        /* when its lease is over by ours; 0: it has none */
    int64_t unneeded_ms;    /* since when nobody needs it; 0: somebody does */
    uint64_t pass;
    uint16_t port;
};

/* What is to be written: a claim that a pod has, or a number that somebody uses. */
struct wish {
    struct census_object *object;
    struct census_claim *claim; /* NULL: the number */
    uint16_t port;
    uint8_t protos;
};

struct tend {
    struct tend_options options;
    struct tend_counts counts;
    struct table known;
    struct portbits taken[PROTOS]; /* exclusive claims, by protocol */
    struct portbits ports;         /* any claim of the pool */
    int64_t due_ms;
    /* of one pass */
    int64_t now_ms;
    struct ledger_seen *confirm, *end;
    size_t n_confirm, n_end, max_confirm, max_end;
    struct wish *wishes;
    size_t n_wishes, max_wishes;
    dibs_claim *restore; /* STEP of them */
    dibs_err *refused;   /* the same */
    dibs_status status;
    dibs_err err;
};

/* ---- what the ledger has ---- */

static bool is_clusters(const dibs_claim *claim)
{
    return claim->name[0] && !claim->is_damaged &&
           (strncmp(claim->principal, "ns:", 3) == 0 || strcmp(claim->principal, TEND_PRINCIPAL) == 0);
}

static struct known *find(const struct tend *t, const char *principal, const char *name)
{
    return (struct known *) table_first(&t->known, table_hash(principal, name));
}

static struct known *know(struct tend *t, const dibs_claim *claim)
{
    struct known *k = find(t, claim->principal, claim->name);
    bool is_new = !k;

    if (is_new) {
        k = calloc(1, sizeof *k);
        if (!k || !table_add(&t->known, &k->item, table_hash(claim->principal, claim->name))) {
            free(k);
            return NULL;
        }
    }
    if (is_new || k->id != claim->id || k->generation != claim->generation ||
        k->lease_until_ms != claim->lease_until_ms) {
        /* What was there before us was counted by whoever saw it come. */
        t->counts.n_allocated[claim->kind] +=
            k->id != claim->id && claim->is_exclusive && t->counts.n_passes > 1;
        k->over_ms = claim->holder == DIBS_HELD_BY_LEASE ? t->now_ms + claim->lease_ttl_ms : 0;
        k->unneeded_ms = 0;
    }
    k->id = claim->id;
    k->generation = claim->generation;
    k->lease_until_ms = claim->lease_until_ms;
    k->port = claim->port;
    k->pass = t->counts.n_passes;
    return k;
}

static void note_ports(struct tend *t, const dibs_claim *claim)
{
    for (size_t i = 0; i < claim->n_bindings && claim->is_exclusive; i++)
        portbits_add(&t->taken[claim->bindings[i].proto], claim->port);
    if (dibs_ranges_contain(&t->options.pool->ranges, claim->port))
        portbits_add(&t->ports, claim->port);
}

static bool add_seen(struct ledger_seen **list, size_t *n, size_t *max, const struct known *k)
{
    if (*n == *max) {
        size_t more = *max ? *max * 2 : STEP;
        struct ledger_seen *bigger = realloc(*list, more * sizeof *bigger);

        if (!bigger)
            return false; /* in the next pass */
        *list = bigger;
        *max = more;
    }
    (*list)[(*n)++] =
        (struct ledger_seen){ .id = k->id, .generation = k->generation, .lease_until_ms = k->lease_until_ms };
    return true;
}

static bool is_observed(const dibs_claim *claim)
{
    return strcmp(claim->principal, TEND_PRINCIPAL) == 0;
}

static bool is_needed(const struct tend *t, const dibs_claim *claim)
{
    struct census *c = t->options.census;

    if (is_observed(claim))
        return census_is_used(c, claim->bindings[0].proto, claim->port);
    return census_has_pod(c, claim) || census_is_kept(c, claim);
}

/* Nobody needs it: is that certain? */
static void consider(struct tend *t, const dibs_claim *claim, struct known *k)
{
    if (k->unneeded_ms == 0)
        k->unneeded_ms = t->now_ms;
    t->counts.n_unneeded++;
    if (t->now_ms < k->over_ms) {
        t->due_ms = t->due_ms == 0 || k->over_ms < t->due_ms ? k->over_ms : t->due_ms;
        return;
    }
    int64_t since_ms = k->over_ms > k->unneeded_ms ? k->over_ms : k->unneeded_ms;
    if (t->options.is_proven(t->options.ctx, is_observed(claim) ? NULL : claim->command, since_ms))
        (void) add_seen(&t->end, &t->n_end, &t->max_end, k);
}

/* Its pod was there, and is finished or gone: the lease has nobody to wait for. Only while it is the lease of
 * the admission that drew the pod's id: who was asked again has taken it for a pod that is still to come. */
static bool has_come(const struct tend *t, const dibs_claim *claim)
{
    bool is_first = claim->generation == FIRST_GENERATION && claim->changed_ms == claim->created_ms;

    return is_first && census_had_pod(t->options.census, claim);
}

static bool look(void *ctx, const dibs_claim *claim)
{
    struct tend *t = ctx;

    note_ports(t, claim);
    if (!is_clusters(claim))
        return true;
    struct known *k = know(t, claim);
    if (!k) {
        t->status = err_set(&t->err, DIBS_FAILURE, "looking at claims: out of memory");
        return false;
    }
    t->counts.n_claims++;
    t->counts.n_pending += claim->holder == DIBS_HELD_BY_LEASE;
    bool is_wanted = is_needed(t, claim);
    if (is_wanted)
        k->unneeded_ms = 0;
    else
        consider(t, claim, k);
    if (claim->holder == DIBS_HELD_BY_LEASE &&
        (is_wanted ? census_has_pod(t->options.census, claim) : has_come(t, claim)))
        (void) add_seen(&t->confirm, &t->n_confirm, &t->max_confirm, k);
    return true;
}

static void forget(void *ctx, struct table_item *item)
{
    struct tend *t = ctx;
    struct known *k = (struct known *) item;

    if (k->pass == t->counts.n_passes)
        return;
    table_remove(&t->known, item);
    free(k);
}

/* ---- changes ---- */

static struct ledger *ledger_of(const struct tend *t)
{
    struct ledger *ledger = t->options.handle->core->ledger;

    ledger_start_call(ledger);
    return ledger;
}

static struct ledger_actor actor_of(const struct tend *t)
{
    const struct core *core = t->options.handle->core;

    return core_actor(core, core_now(core));
}

static void note_failure(struct tend *t, const dibs_err *err)
{
    t->counts.n_errors++;
    t->status = err->code;
    t->err = *err;
}

static void end_all(struct tend *t, const struct ledger_seen *seen, size_t n, enum ledger_end_how how,
                    uint64_t *counter)
{
    for (size_t i = 0; i < n && t->options.may_change(t->options.ctx); i += STEP) {
        struct ledger_actor actor = actor_of(t);
        struct ledger_ending what = { seen + i, n - i < STEP ? n - i : STEP, how };
        dibs_err err = { 0 };
        size_t ended = 0;

        if (ledger_end(ledger_of(t), &what, &actor, &ended, &err) != DIBS_OK) {
            note_failure(t, &err);
            return;
        }
        *counter += ended;
    }
}

static void complain(struct tend *t, enum tend_complaint what, const struct census_object *object,
                     uint16_t port, const char *text)
{
    t->counts.n_complaints[what]++;
    t->options.complain(t->options.ctx, what, object, port, text);
}

static void tell_restored(struct tend *t, const struct wish *wish, const dibs_err *refused)
{
    char text[256] = "";

    if (!wish->claim)
        return;
    if (refused->code == DIBS_OK) {
        (void) snprintf(text, sizeof text, "Port %u was not allocated; it has been claimed again",
                        wish->port);
        complain(t, TEND_REPAIRED, wish->object, wish->port, text);
        return;
    }
    bool is_first = wish->claim->n_refused++ == 0;
    wish->claim->again_ms = t->now_ms + (is_first ? LOOK_AGAIN_MS : AGAIN_MS);
    if (is_first)
        return; /* the pod may be told of before its claim is: it is looked at once more */
    (void) snprintf(text, sizeof text,
                    "Port %u was assigned to several owners; please recreate the pod: %.150s", wish->port,
                    refused->msg);
    complain(t, TEND_DUPLICATE, wish->object, wish->port, text);
}

static void bind(dibs_claim *c, uint8_t protos)
{
    dibs_proto all[PROTOS];
    size_t n = 0;

    for (unsigned proto = DIBS_TCP; proto < PROTOS; proto++)
        if (protos & 1u << proto)
            all[n++] = (dibs_proto) proto;
    (void) !bindings_add("*", all, n, c->bindings, &c->n_bindings, NULL); /* "*" is an address */
}

static void name_number(const struct wish *wish, char out[DIBS_NAME_MAX + 1])
{
    unsigned proto = DIBS_TCP;

    while (proto + 1 < PROTOS && wish->protos != 1u << proto)
        proto++;
    (void) snprintf(out, DIBS_NAME_MAX + 1, "observed/%s/%u", dibs_proto_text((dibs_proto) proto),
                    wish->port);
}

static void fill(const struct tend *t, const struct wish *wish, dibs_claim *c)
{
    const struct census_object *o = wish->object;

    *c = (dibs_claim){ .is_kept = true, .port = wish->port };
    (void) text_copy(c->pool, sizeof c->pool, t->options.pool->name);
    bind(c, wish->protos);
    if (wish->claim) {
        c->kind = DIBS_DYNAMIC;
        c->is_exclusive = true;
        (void) text_copy(c->principal, sizeof c->principal, o->principal);
        (void) text_copy(c->name, sizeof c->name, wish->claim->name);
        (void) text_copy(c->command, sizeof c->command, wish->claim->keeper);
        return;
    }
    c->kind = DIBS_STATIC;
    (void) text_copy(c->principal, sizeof c->principal, TEND_PRINCIPAL);
    name_number(wish, c->name);
    (void) snprintf(c->command, sizeof c->command, "%s/%.40s", o->kind == CENSUS_POD ? "Pod" : "Service",
                    o->name);
}

static void restore_step(struct tend *t, const struct wish *wishes, size_t n)
{
    struct ledger_actor actor = actor_of(t);
    size_t restored = 0;
    dibs_err err = { 0 };

    for (size_t i = 0; i < n; i++) {
        fill(t, &wishes[i], &t->restore[i]);
        t->refused[i] = (dibs_err){ 0 };
    }
    if (ledger_restore(ledger_of(t), &(dibs_snapshot){ .claims = t->restore, .n = n }, &actor, &restored,
                       t->refused, &err) != DIBS_OK) {
        note_failure(t, &err);
        return;
    }
    t->counts.n_restored += restored;
    for (size_t i = 0; i < n; i++)
        tell_restored(t, &wishes[i], &t->refused[i]);
}

static int by_port(const void *a, const void *b)
{
    return (int) ((const struct wish *) a)->port - (int) ((const struct wish *) b)->port;
}

/* By their numbers: neighbours are one block of a ledger in etcd, which is written once for all of them. */
static void restore_all(struct tend *t)
{
    if (t->n_wishes > 0)
        qsort(t->wishes, t->n_wishes, sizeof *t->wishes, by_port);
    for (size_t i = 0; i < t->n_wishes && t->status == DIBS_OK && t->options.may_change(t->options.ctx);
         i += STEP)
        restore_step(t, t->wishes + i, t->n_wishes - i < STEP ? t->n_wishes - i : STEP);
}

static void add_wish(struct tend *t, struct wish wish)
{
    if (t->n_wishes == t->max_wishes) {
        size_t more = t->max_wishes ? t->max_wishes * 2 : STEP;
        struct wish *bigger = realloc(t->wishes, more * sizeof *bigger);

        if (!bigger) {
            t->status = err_set(&t->err, DIBS_FAILURE, "restoring claims: out of memory");
            return;
        }
        t->wishes = bigger;
        t->max_wishes = more;
    }
    t->wishes[t->n_wishes++] = wish;
}

/* ---- what the cluster has ---- */

static void miss(struct tend *t, struct census_object *o, struct census_claim *claim)
{
    char text[160] = "";

    bool is_outside = !dibs_ranges_contain(&t->options.pool->ranges, claim->port);
    if (claim->again_ms == INT64_MAX ? is_outside : t->now_ms < claim->again_ms)
        return;
    if (is_outside) {
        claim->again_ms = INT64_MAX; /* not before the pool has changed */
        (void) snprintf(text, sizeof text,
                        "Port %u is not within the range of the pool '%.63s'; please recreate the pod",
                        claim->port, t->options.pool->name);
        complain(t, TEND_OUTSIDE, o, claim->port, text);
        return;
    }
    add_wish(t, (struct wish){ o, claim, claim->port, claim->protos });
}

/* Its name has another number since, for the pod that comes next; its own is kept beside that. */
static bool has_moved(const struct tend *t, const struct census_object *o, const struct census_claim *claim)
{
    char name[DIBS_NAME_MAX + 8] = "";

    (void) snprintf(name, sizeof name, "%s/%u", claim->name, claim->port);
    return find(t, o->principal, name) != NULL;
}

static void check_claims(struct tend *t, struct census_object *o)
{
    for (size_t i = 0; i < o->n_claims; i++) {
        struct census_claim *claim = &o->claims[i];
        const struct known *k = find(t, o->principal, claim->name);
        char text[160] = "";

        if (!k) {
            miss(t, o, claim);
        } else if (k->port != claim->port && t->now_ms >= claim->again_ms && !has_moved(t, o, claim)) {
            claim->again_ms = t->now_ms + AGAIN_MS;
            (void) snprintf(text, sizeof text,
                            "Port %u is not the pod's any more, which has %u by now; please recreate it",
                            claim->port, k->port);
            complain(t, TEND_DUPLICATE, o, claim->port, text);
        }
    }
}

static void observe(struct tend *t, struct census_object *o, struct census_number *number, unsigned proto)
{
    struct wish wish = { o, NULL, number->port, (uint8_t) (1u << proto) };
    char name[DIBS_NAME_MAX + 1] = "";
    char text[160] = "";

    name_number(&wish, name);
    if (portbits_has(&t->taken[proto], number->port) && !number->is_told) {
        number->is_told = true;
        (void) snprintf(text, sizeof text,
                        "Port %u (%s) was assigned to a pod by dibs; please use another one", number->port,
                        dibs_proto_text((dibs_proto) proto));
        complain(t, TEND_DUPLICATE, o, number->port, text);
    }
    if (!find(t, TEND_PRINCIPAL, name))
        add_wish(t, wish);
}

static void check_object(void *ctx, struct census_object *o)
{
    struct tend *t = ctx;

    if (o->is_finished)
        return;
    check_claims(t, o);
    for (size_t i = 0; i < o->n_numbers; i++)
        for (unsigned proto = DIBS_TCP; proto < PROTOS; proto++)
            if (o->numbers[i].protos & 1u << proto &&
                dibs_ranges_contain(&t->options.pool->ranges, o->numbers[i].port))
                observe(t, o, &o->numbers[i], proto);
}

/* ---- a pass ---- */

static void begin(struct tend *t, int64_t now_ms)
{
    t->now_ms = now_ms;
    t->counts.n_passes++;
    t->counts.n_claims = t->counts.n_pending = t->counts.n_unneeded = 0;
    t->counts.n_size = dibs_ranges_count(&t->options.pool->ranges);
    t->n_confirm = t->n_end = t->n_wishes = 0;
    t->due_ms = 0;
    t->status = DIBS_OK;
    t->err = (dibs_err){ 0 };
    memset(t->taken, 0, sizeof t->taken);
    t->ports = (struct portbits){ 0 };
}

dibs_status tend_pass(struct tend *t, int64_t now_ms, dibs_err *err)
{
    begin(t, now_ms);
    dibs_status s =
        ledger_list(ledger_of(t), &(struct ledger_filter){ .pool = t->options.pool->name }, look, t, err);
    if (s == DIBS_OK && t->status != DIBS_OK) {
        if (err)
            *err = t->err;
        s = t->status;
    }
    if (s != DIBS_OK) {
        t->counts.n_errors++;
        return s;
    }
    table_each(&t->known, forget, t);
    t->counts.n_ports = portbits_count(&t->ports);
    end_all(t, t->confirm, t->n_confirm, LEDGER_END_UNHOLD, &t->counts.n_confirmed);
    census_each(t->options.census, check_object, t);
    restore_all(t);
    end_all(t, t->end, t->n_end, LEDGER_END_GONE, &t->counts.n_ended);
    if (t->status == DIBS_OK)
        census_forget(t->options.census);
    else if (err)
        *err = t->err;
    return t->status;
}

const struct tend_counts *tend_count(const struct tend *t)
{
    return &t->counts;
}

int64_t tend_due_ms(const struct tend *t)
{
    return t->due_ms;
}

dibs_status tend_open(const struct tend_options *options, struct tend **out, dibs_err *err)
{
    struct tend *t = calloc(1, sizeof *t);

    if (t)
        t->restore = calloc(STEP, sizeof *t->restore);
    if (t)
        t->refused = calloc(STEP, sizeof *t->refused);
    if (!t || !t->restore || !t->refused) {
        tend_close(t);
        return err_set(err, DIBS_FAILURE, "tending claims: out of memory");
    }
    t->options = *options;
    *out = t;
    return DIBS_OK;
}

static void free_known(void *ctx, struct table_item *item)
{
    (void) ctx;
    free((struct known *) item);
}

void tend_close(struct tend *t)
{
    if (!t)
        return;
    table_each(&t->known, free_known, NULL);
    table_done(&t->known);
    free(t->confirm);
    free(t->end);
    free(t->wishes);
    free(t->restore);
    free(t->refused);
    free(t);
}
