/* SPDX-License-Identifier: MIT */
/* Opening, looking things up, pools, sightings and upkeep. The larger decisions are in claim.c and end.c. */
#include "ledger/ledger.h"

#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/rows.h"
#include "net/portbits.h"

#include "base/banned.h"

const struct rows_ops *const rows_backends[] = { &rows_sqlite_ops, &rows_memory_ops, &rows_etcd_ops, NULL };

static const struct rows_ops *backend_for(const char *uri, const char **rest)
{
    for (size_t i = 0; rows_backends[i]; i++) {
        size_t n = strlen(rows_backends[i]->scheme);

        if (strncmp(uri, rows_backends[i]->scheme, n) == 0 && uri[n] == ':') {
            *rest = uri + n + 1;
            return rows_backends[i];
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
    const struct rows_ops *ops = backend_for(uri, &rest);

    if (!ops)
        return unknown_scheme(uri, err);
    return ops->check ? ops->check(uri, err) : DIBS_OK;
}

dibs_status ledger_open(const char *uri, const struct ledger_options *options, struct ledger **out,
                        dibs_err *err)
{
    const char *rest = NULL;
    const struct rows_ops *ops = backend_for(uri, &rest);

    if (!ops)
        return unknown_scheme(uri, err);
    AUTO(free_auto) struct ledger *self = calloc(1, sizeof *self);
    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->options = *options;
    dibs_status s = ops->open(rest, options, &self->rows, err);
    if (s != DIBS_OK)
        return s;
    assert(self->rows->ops == ops);
    *out = TAKE(self);
    return DIBS_OK;
}

dibs_status ledger_cluster(const char *uri, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err)
{
    const char *rest = NULL;
    const struct rows_ops *ops = backend_for(uri, &rest);

    if (!ops || !ops->cluster)
        return err_set(err, DIBS_INVALID, "ledger '%.200s' is no cluster's", uri);
    return ops->cluster(rest, timeout_ms, out, err);
}

void ledger_close(struct ledger *ledger)
{
    if (ledger && ledger->rows)
        ledger->rows->ops->close(ledger->rows);
    free(ledger);
}

dibs_status ledger_care_beside(struct ledger *ledger, dibs_err *err)
{
    return ledger->rows->ops->care_beside ? ledger->rows->ops->care_beside(ledger->rows, err) : DIBS_OK;
}

int ledger_notices(const struct ledger *ledger)
{
    return ledger->rows->ops->notices ? ledger->rows->ops->notices(ledger->rows) : -1;
}

uint64_t ledger_heed(struct ledger *ledger)
{
    return ledger->rows->ops->heed ? ledger->rows->ops->heed(ledger->rows) : 0;
}

void ledger_doubt(struct ledger *ledger)
{
    if (ledger->rows->ops->doubt)
        ledger->rows->ops->doubt(ledger->rows);
}

bool ledger_changed_elsewhere(struct ledger *ledger, struct portbits *out)
{
    if (ledger->rows->ops->changed_elsewhere)
        return ledger->rows->ops->changed_elsewhere(ledger->rows, out);
    memset(out, 0, sizeof *out);
    return true;
}

dibs_status ledger_join(struct ledger *ledger, int64_t ttl_ms, const char *boot_id, dibs_err *err)
{
    const struct rows_ops *ops = ledger->rows->ops;

    return ops->join ? ops->join(ledger->rows, ttl_ms, boot_id, err) : DIBS_OK;
}

void ledger_lease(const struct ledger *ledger, struct ledger_lease *out)
{
    *out = (struct ledger_lease){ 0 };
    if (ledger && ledger->rows->ops->lease)
        ledger->rows->ops->lease(ledger->rows, out);
}

void ledger_start_call(struct ledger *ledger)
{
    if (ledger)
        ledger->rows->ops->start_call(ledger->rows);
}

uint64_t ledger_salt(const struct ledger *ledger)
{
    return ledger->rows->ops->salt(ledger->rows);
}

dibs_status ledger_rebuild(const char *uri, const struct ledger_actor *actor, struct ledger_rebuilt *out,
                           dibs_err *err)
{
    const char *rest = NULL;
    const struct rows_ops *ops = backend_for(uri, &rest);

    if (!ops)
        return unknown_scheme(uri, err);
    if (!ops->rebuild)
        return err_set(err, DIBS_INVALID, "ledger '%.200s' has no file that could be damaged", uri);
    return ops->rebuild(rest, actor, out, err);
}

dibs_status ledger_health(struct ledger *ledger, struct ledger_health *out, dibs_err *err)
{
    return ledger->rows->ops->health(ledger->rows, out, err);
}

/* ---- finding ---- */

static dibs_status get_claim(struct ledger *ledger, uint64_t id, struct row_claim *row, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    if (s == DIBS_OK)
        s = tx.rows->ops->claim_get(tx.rows, id, row, err);
    return s == DIBS_NOT_FOUND ? err_set(err, s, "no such claim") : s;
}

dibs_status ledger_find_token(struct ledger *ledger, const char *token, dibs_claim *out, dibs_err *err)
{
    struct codec_token parsed = { 0 };
    struct row_claim row = { 0 };

    if (!codec_token_parse(token, &parsed))
        return err_set(err, DIBS_INVALID, "that is not a token");
    dibs_status s = get_claim(ledger, parsed.id, &row, err);
    if (s != DIBS_OK)
        return s;
    if (row.claim.generation != parsed.generation || !codec_secret_equal(row.secret, parsed.secret))
        return err_set(err, DIBS_NOT_FOUND, "no such claim: the token is old or wrong");
    *out = row.claim;
    codec_token_format(&row, out->token);
    return DIBS_OK;
}

dibs_status ledger_find_id(struct ledger *ledger, uint64_t id, dibs_claim *out, dibs_err *err)
{
    struct row_claim row = { 0 };
    dibs_status s = get_claim(ledger, id, &row, err);

    if (s == DIBS_OK)
        *out = row.claim;
    return s;
}

dibs_status ledger_find_name(struct ledger *ledger, const char *principal, const char *name, dibs_claim *out,
                             uint16_t *remembered, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct row_name found = { 0 };
    struct row_claim row;
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    if (s == DIBS_OK)
        s = rows_find_named(tx.rows, principal, name, &found, &row, err);
    if (remembered)
        *remembered = found.port;
    if (s == DIBS_OK && !codec_is_named(&row.claim, principal, name))
        s = DIBS_NOT_FOUND; /* a damaged name must not lead to somebody else's claim (INV-3) */
    if (s == DIBS_NOT_FOUND)
        return err_set(err, s, "no claim is named '%s'", name);
    if (s == DIBS_OK)
        *out = row.claim;
    return s;
}

dibs_status ledger_first_name(struct ledger *ledger, const struct ledger_names *among,
                              char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    if (s == DIBS_OK)
        s = tx.rows->ops->name_first(tx.rows, among, out, err);
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

static bool list_one(void *ctx, const struct row_claim *row)
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
    struct row_claim *lost = ctx;

    if (slot->claim_id == lost->claim.id)
        codec_add_binding(&lost->claim, slot);
    return true;
}

/* A slot whose record is gone. */
static dibs_status find_lost(struct ledger_tx *tx, uint64_t id, uint16_t port, struct row_claim *out,
                             dibs_err *err)
{
    dibs_status s = DIBS_OK;

    codec_make_lost(out, id, port);
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && s == DIBS_OK; proto++)
        s = tx->rows->ops->slots(tx->rows, proto, port, add_lost, out, err);
    return s;
}

/* One port: through its slots, not through every claim. What blocks the port is listed, whatever its record
 * says, and without one too: who looks must see what a claim of the port runs into. */
static dibs_status list_port(struct ledger_tx *tx, struct listing *l, dibs_err *err)
{
    AUTO(id_list_auto) struct id_list ids = { 0 };
    dibs_status s = DIBS_OK;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && s == DIBS_OK; proto++)
        s = tx->rows->ops->slots(tx->rows, proto, l->filter->port, note_id, &ids, err);
    if (s == DIBS_OK && ids.is_failed)
        return err_set(err, DIBS_FAILURE, "listing the claims on port %u: out of memory", l->filter->port);
    id_list_sort(&ids);
    for (size_t i = 0; i < ids.n && s == DIBS_OK; i++) {
        struct row_claim row;

        if (ids.id[i] <= l->filter->after_id)
            continue;
        s = tx->rows->ops->claim_get(tx->rows, ids.id[i], &row, err);
        if (s == DIBS_NOT_FOUND)
            s = find_lost(tx, ids.id[i], l->filter->port, &row, err);
        if (s == DIBS_OK && row.claim.is_damaged)
            row.claim.port = l->filter->port;
        if (s == DIBS_OK && !list_one(l, &row))
            break;
    }
    return s;
}

dibs_status ledger_list(struct ledger *ledger, const struct ledger_filter *filter,
                        bool (*fn)(void *, const dibs_claim *), void *ctx, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct listing listing = { .filter = filter, .fn = fn, .ctx = ctx };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    if (s != DIBS_OK)
        return s;
    if (filter->port)
        return list_port(&tx, &listing, err);
    return tx.rows->ops->claims(tx.rows, filter, list_one, &listing, err);
}

dibs_status ledger_slots(struct ledger *ledger, dibs_proto proto, uint16_t port, ledger_slot_fn fn, void *ctx,
                         dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    return s == DIBS_OK ? tx.rows->ops->slots(tx.rows, proto, port, fn, ctx, err) : s;
}

dibs_status ledger_slots_among(struct ledger *ledger, const struct portbits *ports, ledger_slot_fn fn,
                               void *ctx, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    for (size_t word = 0; word < PORTBITS_WORDS && s == DIBS_OK; word++)
        for (uint64_t bits = ports->word[word]; bits && s == DIBS_OK; bits &= bits - 1) {
            uint16_t port = (uint16_t) (word * 64 + (size_t) __builtin_ctzll(bits));

            for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && s == DIBS_OK; proto++)
                s = tx.rows->ops->slots(tx.rows, proto, port, fn, ctx, err);
        }
    return s;
}

dibs_status ledger_tail(struct ledger *ledger, uint64_t *seq, uint64_t *cursor, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    return s == DIBS_OK ? tx.rows->ops->tail(tx.rows, seq, cursor, err) : s;
}

dibs_status ledger_events(struct ledger *ledger, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    return s == DIBS_OK ? tx.rows->ops->events(tx.rows, query, oldest, fn, ctx, err) : s;
}

/* ---- pools ---- */

dibs_status ledger_pool_get(struct ledger *ledger, const char *name, dibs_pool *out, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    if (s == DIBS_OK)
        s = tx.rows->ops->pool_get(tx.rows, name, out, err);
    return s == DIBS_NOT_FOUND ? err_set(err, s, "there is no pool '%s'", name) : s;
}

static dibs_status put_pool(struct ledger *ledger, const dibs_pool *pool, const struct ledger_actor *actor,
                            dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, true, true, actor, err);

    if (s == DIBS_OK)
        s = tx_pool_put(&tx, pool, err);
    return s == DIBS_OK ? tx_commit(&tx, err) : s;
}

dibs_status ledger_pool_put(struct ledger *ledger, const dibs_pool *pool, const struct ledger_actor *actor,
                            dibs_err *err)
{
    return DECIDE(ledger, put_pool(ledger, pool, actor, err));
}

static bool count_one(void *ctx, const struct row_claim *row)
{
    (void) row;
    ++*(size_t *) ctx;
    return true;
}

static dibs_status remove_pool(struct ledger *ledger, const char *name, const struct ledger_actor *actor,
                               dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct ledger_filter filter = { .pool = name };
    dibs_pool pool;
    size_t n = 0;
    dibs_status s = tx_begin(&tx, ledger, true, true, actor, err);

    if (s == DIBS_OK)
        s = tx.rows->ops->pool_get(tx.rows, name, &pool, err);
    if (s == DIBS_NOT_FOUND)
        return err_set(err, s, "there is no pool '%s'", name);
    if (s == DIBS_OK)
        s = tx.rows->ops->claims(tx.rows, &filter, count_one, &n, err);
    if (s == DIBS_OK && n > 0 && strcmp(name, "default") != 0)
        return err_set(err, DIBS_TAKEN, "pool '%s' still has %zu claim%s; release %s first", name, n,
                       n == 1 ? "" : "s", n == 1 ? "it" : "them");
    if (s == DIBS_OK)
        s = tx.rows->ops->pool_delete(tx.rows, name, err);
    if (s == DIBS_OK)
        s = tx_pool_event(&tx, name, err);
    return s == DIBS_OK ? tx_commit(&tx, err) : s;
}

dibs_status ledger_pool_remove(struct ledger *ledger, const char *name, const struct ledger_actor *actor,
                               dibs_err *err)
{
    return DECIDE(ledger, remove_pool(ledger, name, actor, err));
}

dibs_status ledger_pools(struct ledger *ledger, bool (*fn)(void *, const dibs_pool *), void *ctx,
                         dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    return s == DIBS_OK ? tx.rows->ops->pools(tx.rows, fn, ctx, err) : s;
}

/* ---- sightings and upkeep ---- */

/* Sightings are nobody's change of a claim, and no events. */
static const struct ledger_actor nobody = { .principal = "" };

static dibs_status sighted(struct ledger *ledger, const struct ledger_seen *seen, size_t n, uint32_t *counts,
                           dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, true, false, &nobody, err);

    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        counts[i] = 0;
        s = tx.rows->ops->sighting_get(tx.rows, seen[i], &counts[i], err);
        if (s == DIBS_OK)
            s = tx.rows->ops->sighting_put(tx.rows, seen[i], ++counts[i], err);
    }
    return s == DIBS_OK ? tx_commit(&tx, err) : s;
}

dibs_status ledger_sighted(struct ledger *ledger, const struct ledger_seen *seen, size_t n, uint32_t *counts,
                           dibs_err *err)
{
    return DECIDE(ledger, sighted(ledger, seen, n, counts, err));
}

static dibs_status not_leaked(struct ledger *ledger, const uint64_t *ids, size_t n, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, true, false, &nobody, err);

    for (size_t i = 0; i < n && s == DIBS_OK; i++)
        s = tx.rows->ops->sighting_put(tx.rows, (struct ledger_seen){ .id = ids[i] }, 0, err);
    return s == DIBS_OK ? tx_commit(&tx, err) : s;
}

dibs_status ledger_not_leaked(struct ledger *ledger, const uint64_t *ids, size_t n, dibs_err *err)
{
    return DECIDE(ledger, not_leaked(ledger, ids, n, err));
}

static dibs_status upkeep(struct ledger *ledger, const struct ledger_actor *actor, size_t *n_damaged,
                          dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    size_t n = 0;
    dibs_status s = tx_begin(&tx, ledger, true, false, actor, err);

    if (s == DIBS_OK)
        s = tx_trim(&tx, err);
    if (s == DIBS_OK && tx.rows->ops->quarantine)
        s = tx.rows->ops->quarantine(tx.rows, actor, &n, err);
    if (s == DIBS_OK)
        s = tx_commit(&tx, err);
    if (s == DIBS_OK && n_damaged)
        *n_damaged = n;
    return s;
}

dibs_status ledger_upkeep(struct ledger *ledger, const struct ledger_actor *actor, size_t *n_damaged,
                          dibs_err *err)
{
    return DECIDE(ledger, upkeep(ledger, actor, n_damaged, err));
}
