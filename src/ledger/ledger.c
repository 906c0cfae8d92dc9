/* SPDX-License-Identifier: MIT */
/* Opens ledgers, finds and lists claims; pools, sightings and upkeep. The decisions: claim.c and change.c. */
#include "ledger/ledger.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/step.h"
#include "net/portbits.h"

#include "base/banned.h"

const struct store_ops *ledger_backend(const char *uri, const char **rest)
{
    for (size_t i = 0; store_backends[i]; i++) {
        size_t n = strlen(store_backends[i]->scheme);

        if (strncmp(uri, store_backends[i]->scheme, n) == 0 && uri[n] == ':') {
            *rest = uri + n + 1;
            return store_backends[i];
        }
    }
    return NULL;
}

static dibs_status unknown_scheme(const char *uri, dibs_err *err)
{
    return err_set(err, DIBS_INVALID,
                   "ledger '%.200s': expected sqlite:PATH, etcd://HOST... or memory:", uri);
}

dibs_status ledger_check(const char *uri, dibs_err *err)
{
    const char *rest = NULL;
    const struct store_ops *ops = ledger_backend(uri, &rest);

    if (!ops)
        return unknown_scheme(uri, err);
    return ops->check(uri, err);
}

dibs_status ledger_open(const char *uri, const struct ledger_options *options, struct ledger **out,
                        dibs_err *err)
{
    AUTO(free_auto) struct ledger *self = calloc(1, sizeof *self);
    const char *rest = NULL;
    dibs_status s = ledger_check(uri, err);

    if (s != DIBS_OK)
        return s;
    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->options = *options;
    s = ledger_backend(uri, &rest)->open(rest, options, &self->store, err);
    if (s == DIBS_OK)
        *out = TAKE(self);
    return s;
}

void ledger_close(struct ledger *ledger)
{
    if (ledger && ledger->store)
        ledger->store->ops->close(ledger->store);
    free(ledger);
}

dibs_status ledger_start_background(struct ledger *ledger, dibs_err *err)
{
    return ledger->store->ops->start_background(ledger->store, err);
}

void ledger_have_process(void)
{
    store_have_process();
}

uint64_t ledger_salt(const struct ledger *ledger)
{
    return ledger->store->salt;
}

dibs_status ledger_salvage(const char *uri, const struct call *call, struct ledger_salvaged *out,
                           dibs_err *err)
{
    const char *rest = NULL;
    const struct store_ops *ops = ledger_backend(uri, &rest);

    if (!ops)
        return unknown_scheme(uri, err);
    dibs_event event = {
        .time_ms = call->now.wall_ms, .kind = DIBS_EV_REPAIRED, .actor_uid = call->uid, .actor_pid = call->pid
    };
    (void) text_copy(event.principal, sizeof event.principal, call->principal);
    return ops->salvage(rest, &event, out, err);
}

dibs_status ledger_writable(struct ledger *ledger, dibs_err *err)
{
    return ledger->store->ops->writable(ledger->store, err);
}

dibs_status ledger_health(struct ledger *ledger, struct ledger_health *out, dibs_err *err)
{
    return ledger->store->ops->health(ledger->store, out, err);
}

/* ---- finding ---- */

static dibs_status get_claim(struct ledger *ledger, const struct call *call, uint64_t id,
                             struct claim_record *row, dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    if (s == DIBS_OK)
        s = store_get_claim(step.store, id, row, err);
    return s == DIBS_NOT_FOUND ? err_set(err, s, "no such claim") : s;
}

dibs_status ledger_find_token(struct ledger *ledger, const struct call *call, const char *token,
                              dibs_claim *out, dibs_err *err)
{
    struct record_token parsed = { 0 };
    struct claim_record row = { 0 };

    if (!record_token_parse(token, &parsed))
        return err_set(err, DIBS_INVALID, "that is not a token");
    dibs_status s = get_claim(ledger, call, parsed.id, &row, err);
    if (s != DIBS_OK)
        return s;
    if (row.claim.generation != parsed.generation || !record_secret_equal(row.secret, parsed.secret))
        return err_set(err, DIBS_NOT_FOUND, "no such claim: the token is old or wrong");
    *out = row.claim;
    record_token_format(&row, out->token);
    return DIBS_OK;
}

dibs_status ledger_find_id(struct ledger *ledger, const struct call *call, uint64_t id, dibs_claim *out,
                           dibs_err *err)
{
    struct claim_record row = { 0 };
    dibs_status s = get_claim(ledger, call, id, &row, err);

    if (s == DIBS_OK)
        *out = row.claim;
    return s;
}

dibs_status ledger_find_name(struct ledger *ledger, const struct call *call, const char *name,
                             dibs_claim *out, uint16_t *remembered, dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    struct name_record found = { 0 };
    struct claim_record row;
    dibs_status s = step_read(&step, ledger, call, err);

    if (s == DIBS_OK)
        s = store_find_named(step.store, call->principal, name, &found, &row, err);
    if (remembered)
        *remembered = found.port;
    if (s == DIBS_OK && !record_is_named(&row.claim, call->principal, name))
        s = DIBS_NOT_FOUND; /* a damaged name must not lead to another user's claim (INV-3) */
    if (s == DIBS_NOT_FOUND)
        return err_set(err, s, "no claim is named '%s'", name);
    if (s == DIBS_OK)
        *out = row.claim;
    return s;
}

dibs_status ledger_remember_name(struct ledger *ledger, const struct call *call, const char *name,
                                 uint16_t port, dibs_err *err)
{
    dibs_claim of = { .port = port };
    struct name_record known = { 0 };
    dibs_status s = DIBS_OK;

    (void) text_copy(of.principal, sizeof of.principal, call->principal);
    (void) text_copy(of.name, sizeof of.name, name);
    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);) {
        s = store_get_name(step.store, of.principal, of.name, &known, err);
        if (s == DIBS_OK && known.claim_id != 0)
            return err_set(err, DIBS_TAKEN, "name '%s' has a claim", of.name);
        if (s == DIBS_OK || s == DIBS_NOT_FOUND)
            s = step_put_name(&step, &of, 0, err);
    }
    return s;
}

dibs_status ledger_first_name(struct ledger *ledger, const struct call *call,
                              const struct ledger_names *among, char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    if (s == DIBS_OK)
        s = step.store->ops->name_first(step.store, among, out, err);
    return s == DIBS_NOT_FOUND ? err_set(err, s, "no such name") : s;
}

/* ---- listing ---- */

struct listing {
    const struct ledger_filter *filter;
    bool (*fn)(void *, const dibs_claim *);
    void *ctx;
    size_t n;
};

static bool has_prefix(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(name, prefix, n) == 0 && (name[n] == '\0' || name[n] == '/');
}

static bool matches(const struct ledger_filter *f, const dibs_claim *c)
{
    bool has_proto = f->proto == 0;

    for (size_t i = 0; i < c->n_bindings; i++)
        has_proto = has_proto || c->bindings[i].proto == f->proto;
    return has_proto && (!f->port || c->port == f->port) && (!f->pool || strcmp(c->pool, f->pool) == 0) &&
           (!f->principal || strcmp(c->principal, f->principal) == 0) &&
           (!f->project || (c->name[0] && strcmp(c->project, f->project) == 0)) &&
           (!f->held_only || c->holder != DIBS_HELD_BY_NOBODY) &&
           (!f->name_prefix || has_prefix(c->name, f->name_prefix));
}

static bool list_one(void *ctx, const struct claim_record *row)
{
    struct listing *l = ctx;

    if (!matches(l->filter, &row->claim))
        return true;
    l->n++;
    return l->fn(l->ctx, &row->claim) && (l->filter->limit == 0 || l->n < l->filter->limit);
}

static bool note_id(void *ctx, const struct ledger_slot *slot)
{
    return id_list_add(ctx, slot->claim_id);
}

static bool add_lost(void *ctx, const struct ledger_slot *slot)
{
    struct claim_record *lost = ctx;

    if (slot->claim_id == lost->claim.id)
        record_add_binding(&lost->claim, slot);
    return true;
}

/* Report a slot whose record is missing. */
static dibs_status find_lost(struct step *step, uint64_t id, uint16_t port, struct claim_record *out,
                             dibs_err *err)
{
    dibs_status s = DIBS_OK;

    record_make_lost(out, id, port);
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK; proto++)
        s = step->store->ops->slots(step->store, proto, port, add_lost, out, err);
    return s;
}

/* List one port through its slots, with the damaged and missing records that also block it. */
static dibs_status list_port(struct step *step, struct listing *l, dibs_err *err)
{
    AUTO(id_list_auto) struct id_list ids = { 0 };
    dibs_status s = DIBS_OK;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK; proto++)
        s = step->store->ops->slots(step->store, proto, l->filter->port, note_id, &ids, err);
    if (s == DIBS_OK && ids.is_failed)
        return err_set(err, DIBS_FAILURE, "listing the claims on port %u: out of memory", l->filter->port);
    id_list_sort(&ids);
    for (size_t i = 0; i < ids.n && s == DIBS_OK; i++) {
        struct claim_record row;

        if (ids.id[i] <= l->filter->after_id)
            continue;
        s = store_get_claim(step->store, ids.id[i], &row, err);
        if (s == DIBS_NOT_FOUND)
            s = find_lost(step, ids.id[i], l->filter->port, &row, err);
        if (s == DIBS_OK && row.claim.is_damaged)
            row.claim.port = l->filter->port;
        if (s == DIBS_OK && !list_one(l, &row))
            break;
    }
    return s;
}

dibs_status ledger_list(struct ledger *ledger, const struct call *call, const struct ledger_filter *filter,
                        bool (*fn)(void *, const dibs_claim *), void *ctx, dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    struct listing listing = { .filter = filter, .fn = fn, .ctx = ctx };
    dibs_status s = step_read(&step, ledger, call, err);

    if (s != DIBS_OK)
        return s;
    if (filter->port)
        return list_port(&step, &listing, err);
    return step.store->ops->claims(step.store, filter, list_one, &listing, err);
}

dibs_status ledger_slots(struct ledger *ledger, const struct call *call, const struct portbits *ports,
                         ledger_slot_fn fn, void *ctx, dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    if (s == DIBS_OK && !ports)
        return step.store->ops->slots(step.store, 0, 0, fn, ctx, err);
    for (size_t word = 0; word < PORTBITS_WORDS && s == DIBS_OK; word++)
        for (uint64_t bits = ports->word[word]; bits && s == DIBS_OK; bits &= bits - 1) {
            uint16_t port = (uint16_t) (word * 64 + (size_t) __builtin_ctzll(bits));

            for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && s == DIBS_OK; proto++)
                s = step.store->ops->slots(step.store, proto, port, fn, ctx, err);
        }
    return s;
}

dibs_status ledger_tail(struct ledger *ledger, const struct call *call, uint64_t *seq, uint64_t *cursor,
                        dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    return s == DIBS_OK ? step.store->ops->tail(step.store, seq, cursor, err) : s;
}

dibs_status ledger_events(struct ledger *ledger, const struct call *call, const struct ledger_feed *feed,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    return s == DIBS_OK ? step.store->ops->events(step.store, &feed->query, feed->oldest, fn, ctx, err) : s;
}

/* ---- pools ---- */

dibs_status ledger_pool_get(struct ledger *ledger, const struct call *call, const char *name, dibs_pool *out,
                            dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    if (s == DIBS_OK)
        s = store_get_pool(step.store, name, out, err);
    return s == DIBS_NOT_FOUND ? err_set(err, s, "there is no pool '%s'", name) : s;
}

dibs_status ledger_pool_put(struct ledger *ledger, const struct call *call, const dibs_pool *pool,
                            dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, true, &s, err);)
        s = step_pool_put(&step, pool, err);
    return s;
}

static bool count_one(void *ctx, const struct claim_record *row)
{
    (void) row;
    ++*(size_t *) ctx;
    return true;
}

dibs_status ledger_pool_remove(struct ledger *ledger, const struct call *call, const char *name,
                               dibs_err *err)
{
    struct ledger_filter filter = { .pool = name };
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, true, &s, err);) {
        dibs_pool pool;
        size_t n = 0;

        s = store_get_pool(step.store, name, &pool, err);
        if (s == DIBS_NOT_FOUND)
            return err_set(err, s, "there is no pool '%s'", name);
        if (s == DIBS_OK)
            s = step.store->ops->claims(step.store, &filter, count_one, &n, err);
        if (s == DIBS_OK && n > 0 && strcmp(name, "default") != 0)
            return err_set(err, DIBS_TAKEN, "pool '%s' still has %zu claim%s; release %s first", name, n,
                           n == 1 ? "" : "s", n == 1 ? "it" : "them");
        if (s == DIBS_OK)
            s = step.store->ops->erase(step.store, POOLS, &pool, err);
        if (s == DIBS_OK)
            s = step_pool_event(&step, name, err);
    }
    return s;
}

struct pool_reader {
    dibs_pool_fn fn;
    void *ctx;
};

static bool pass_pool(void *ctx, const void *record)
{
    const struct pool_reader *reader = ctx;

    return reader->fn(reader->ctx, record);
}

dibs_status ledger_pools(struct ledger *ledger, const struct call *call, dibs_pool_fn fn, void *ctx,
                         dibs_err *err)
{
    struct pool_reader reader = { fn, ctx };
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    return s == DIBS_OK ? step.store->ops->all(step.store, POOLS, pass_pool, &reader, err) : s;
}

/* ---- sightings and upkeep ---- */

/* The boot clock starts again with each boot. Then the time since an earlier sighting comes out too short,
 * never too long; a sighting in the future counts from now on. */
dibs_status ledger_sighted(struct ledger *ledger, const struct call *call, struct sighting_record *rows,
                           size_t n, dibs_err *err)
{
    int64_t now_ms = call->now.boot_ms;
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);)
        for (size_t i = 0; i < n && s == DIBS_OK; i++) {
            struct sighting_record known = { .seen = rows[i].seen };

            s = step.store->ops->get(step.store, SIGHTINGS, &known, err);
            bool is_known = s == DIBS_OK && known.seen.generation == rows[i].seen.generation;
            bool has_time = is_known && known.since_ms != 0 && known.since_ms <= now_ms;
            rows[i].count = is_known ? known.count + 1 : 1;
            rows[i].since_ms = has_time ? known.since_ms : now_ms;
            if (s == DIBS_OK || s == DIBS_NOT_FOUND)
                s = step.store->ops->put(step.store, SIGHTINGS, &rows[i], err);
        }
    return s;
}

dibs_status ledger_not_leaked(struct ledger *ledger, const struct call *call, const uint64_t *ids, size_t n,
                              dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);)
        for (size_t i = 0; i < n && s == DIBS_OK; i++)
            s = step.store->ops->erase(step.store, SIGHTINGS, &(struct sighting_record){ .seen.id = ids[i] },
                                       err);
    return s;
}

static bool count_damaged(void *ctx, const struct claim_record *row)
{
    *(size_t *) ctx += row->claim.is_damaged;
    return true;
}

dibs_status ledger_upkeep(struct ledger *ledger, const struct call *call, size_t *n_damaged, dibs_err *err)
{
    struct ledger_filter all = { 0 };
    dibs_status s = DIBS_OK;
    size_t n = 0;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);) {
        n = 0;
        s = step_trim(&step, err);
        if (s == DIBS_OK && n_damaged)
            s = step.store->ops->claims(step.store, &all, count_damaged, &n, err);
    }
    if (s == DIBS_OK && n_damaged)
        *n_damaged = n;
    return s;
}

dibs_status ledger_flaws(struct ledger *ledger, const struct call *call, store_flaw_fn fn, void *ctx,
                         dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    return s == DIBS_OK ? store_flaws(step.store, fn, ctx, err) : s;
}
