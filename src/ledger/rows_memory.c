/* SPDX-License-Identifier: MIT */
/* A ledger in memory: for tests and for runs that leave nothing behind. Each open is a new, empty one. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/memory_records.h"

#include "base/banned.h"

static struct memory_tables *of(struct rows *rows)
{
    struct memory_rows *self = (struct memory_rows *) rows;

    assert(self->is_open);
    return &self->tables;
}

/* For the changes: only a write transaction makes any. */
static struct memory_tables *to(struct rows *rows)
{
    assert(((struct memory_rows *) rows)->is_write);
    return of(rows);
}

struct memory_tables *memory_of(struct rows *rows)
{
    return of(rows);
}

/* ---- life and transactions ---- */

static dibs_status open_memory(const char *rest, const struct ledger_options *options, struct rows **out,
                               dibs_err *err)
{
    uint64_t number = 0;

    (void) options;
    if (rest[0])
        return err_set(err, DIBS_INVALID, "ledger 'memory:%.80s': nothing may follow the colon", rest);
    if (getrandom(&number, sizeof number, 0) != (ssize_t) sizeof number)
        return err_os(err, DIBS_FAILURE, errno, "cannot get random bytes for the ledger");
    struct memory_rows *self = calloc(1, sizeof *self);
    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->base.ops = &rows_memory_ops;
    self->salt = number;
    memory_tables_init(&self->tables, memory_kinds, TABLE_COUNT);
    *out = &self->base;
    return DIBS_OK;
}

static void close_memory(struct rows *rows)
{
    struct memory_rows *self = (struct memory_rows *) rows;

    if (!self)
        return;
    assert(!self->is_open);
    memory_tables_done(&self->tables);
    free(self);
}

/* Nobody else has this store: there is nothing to wait for. */
static void start_call(struct rows *rows)
{
    (void) rows;
}

static uint64_t salt(struct rows *rows)
{
    return ((struct memory_rows *) rows)->salt;
}

static dibs_status begin(struct rows *rows, bool is_write, bool is_full, dibs_err *err)
{
    struct memory_rows *self = (struct memory_rows *) rows;

    (void) is_full;
    (void) err;
    assert(!self->is_open);
    self->is_open = true;
    self->is_write = is_write;
    return DIBS_OK;
}

static dibs_status commit(struct rows *rows, dibs_err *err)
{
    struct memory_rows *self = (struct memory_rows *) rows;

    (void) err;
    memory_commit(of(rows));
    self->is_open = self->is_write = false;
    return DIBS_OK;
}

void memory_rows_rollback(struct rows *rows)
{
    struct memory_rows *self = (struct memory_rows *) rows;

    memory_rollback(of(rows));
    self->is_open = self->is_write = false;
}

dibs_status memory_rows_save(struct rows *rows, dibs_err *err)
{
    (void) err;
    ((struct memory_rows *) rows)->saved = to(rows)->n_journal;
    return DIBS_OK;
}

dibs_status memory_rows_undo(struct rows *rows, dibs_err *err)
{
    (void) err;
    memory_undo(to(rows), ((struct memory_rows *) rows)->saved);
    return DIBS_OK;
}

dibs_status memory_rows_forget(struct rows *rows, dibs_err *err)
{
    (void) rows;
    (void) err;
    return DIBS_OK;
}

uint64_t memory_rows_changes(struct rows *rows)
{
    return of(rows)->n_journal;
}

/* ---- claims ---- */

dibs_status memory_rows_claim_get(struct rows *rows, uint64_t id, struct row_claim *out, dibs_err *err)
{
    struct row_claim key = { .claim.id = id };
    const struct row_claim *found = memory_get(of(rows), CLAIMS, &key);

    (void) err;
    if (!found)
        return DIBS_NOT_FOUND;
    *out = *found;
    return DIBS_OK;
}

static dibs_status claim_put(struct rows *rows, const struct row_claim *row, dibs_err *err)
{
    struct row_claim plain = *row;

    /* What an answer carries beside the record is not stored. */
    plain.claim.token[0] = '\0';
    plain.claim.was_there = plain.claim.is_degraded = plain.claim.is_narrowed = plain.claim.is_orphan = false;
    plain.claim.life = DIBS_ALIVE;
    return memory_put(to(rows), CLAIMS, &plain, err);
}

dibs_status memory_rows_claim_delete(struct rows *rows, uint64_t id, dibs_err *err)
{
    struct row_claim key = { .claim.id = id };

    return memory_erase(to(rows), CLAIMS, &key, err);
}

dibs_status memory_rows_claims(struct rows *rows, const struct ledger_filter *filter, row_claim_fn fn,
                               void *ctx, dibs_err *err)
{
    const struct memory_tables *self = of(rows);
    const struct memory_table *t = &self->table[CLAIMS];
    struct row_claim key = { .claim.id = filter->after_id };

    (void) err;
    for (size_t i = memory_find(self, CLAIMS, &key, NULL); i < t->n; i++) {
        const struct row_claim *row = t->item[i];

        if (row->claim.id <= filter->after_id ||
            (filter->principal && strcmp(row->claim.principal, filter->principal) != 0) ||
            (!filter->principal && filter->pool && strcmp(row->claim.pool, filter->pool) != 0))
            continue;
        if (!fn(ctx, row))
            break;
    }
    return DIBS_OK;
}

/* ---- slots ---- */

dibs_status memory_rows_slots(struct rows *rows, dibs_proto proto, uint16_t port, ledger_slot_fn fn,
                              void *ctx, dibs_err *err)
{
    const struct memory_tables *self = of(rows);
    const struct memory_table *t = &self->table[SLOTS];
    struct ledger_slot key = { .proto = proto, .port = port };

    (void) err;
    for (size_t i = port ? memory_find(self, SLOTS, &key, NULL) : 0; i < t->n; i++) {
        const struct ledger_slot *slot = t->item[i];

        if (port && (slot->proto != proto || slot->port != port))
            break;
        if (!fn(ctx, slot))
            break;
    }
    return DIBS_OK;
}

dibs_status memory_rows_slot_put(struct rows *rows, const struct ledger_slot *slot, dibs_err *err)
{
    return memory_put(to(rows), SLOTS, slot, err);
}

dibs_status memory_rows_slot_delete(struct rows *rows, const struct ledger_slot *slot, dibs_err *err)
{
    return memory_erase(to(rows), SLOTS, slot, err);
}

/* ---- names ---- */

static void name_key(const char *principal, const char *name, struct name_record *out)
{
    (void) snprintf(out->principal, sizeof out->principal, "%s", principal);
    (void) snprintf(out->name, sizeof out->name, "%s", name);
}

dibs_status memory_rows_name_get(struct rows *rows, const char *principal, const char *name,
                                 struct row_name *out, dibs_err *err)
{
    struct name_record key = { 0 };

    (void) err;
    name_key(principal, name, &key);
    const struct name_record *found = memory_get(of(rows), NAMES, &key);
    if (!found)
        return DIBS_NOT_FOUND;
    *out = found->row;
    return DIBS_OK;
}

dibs_status memory_rows_name_put(struct rows *rows, const char *principal, const char *name,
                                 const struct row_name *row, dibs_err *err)
{
    struct name_record record = { .row = *row };

    name_key(principal, name, &record);
    return memory_put(to(rows), NAMES, &record, err);
}

dibs_status memory_rows_name_first(struct rows *rows, const struct ledger_names *among,
                                   char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    const struct memory_table *t = &of(rows)->table[NAMES];
    struct name_record from = { 0 };
    struct name_record to = { 0 };

    (void) err;
    name_key(among->principal, among->from, &from);
    name_key(among->principal, among->to, &to);
    for (size_t i = memory_find(of(rows), NAMES, &from, NULL);
         i < t->n && memory_kinds[NAMES].compare(t->item[i], &to) < 0; i++) {
        const struct name_record *found = t->item[i];

        if (among->project && strcmp(found->row.project, among->project) != 0)
            continue;
        memcpy(out, found->name, sizeof found->name);
        return DIBS_OK;
    }
    return DIBS_NOT_FOUND;
}

/* ---- events ---- */

static dibs_status tail(struct rows *rows, uint64_t *seq, uint64_t *cursor, dibs_err *err)
{
    const struct memory_tables *self = of(rows);
    const struct memory_table *t = &self->table[EVENTS];
    const struct event_record *last = t->n > 0 ? t->item[t->n - 1] : NULL;

    (void) err;
    *seq = last ? last->event.seq : 0;
    *cursor = last ? last->cursor : 0;
    return DIBS_OK;
}

dibs_status memory_rows_event_put(struct rows *rows, const dibs_event *event, uint64_t cursor, dibs_err *err)
{
    struct event_record record = { .event = *event, .cursor = cursor };

    return memory_put(to(rows), EVENTS, &record, err);
}

static dibs_status events(struct rows *rows, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    const struct memory_tables *self = of(rows);
    const struct memory_table *t = &self->table[EVENTS];
    const struct event_record *first = t->n > 0 ? t->item[0] : NULL;
    struct event_record key = { .event.seq = query->since };
    bool is_there = false;
    size_t at = memory_find(self, EVENTS, &key, &is_there);

    (void) err;
    if (oldest)
        *oldest = first ? first->event.seq : 0;
    at += is_there;
    if (query->newest && query->limit > 0 && t->n - at > query->limit)
        at = t->n - query->limit;
    for (size_t n = 0; at < t->n && (query->limit == 0 || n < query->limit); n++, at++)
        if (!fn(ctx, &((const struct event_record *) t->item[at])->event))
            break;
    return DIBS_OK;
}

/* ---- pools ---- */

dibs_status memory_rows_pool_get(struct rows *rows, const char *name, dibs_pool *out, dibs_err *err)
{
    dibs_pool key = { 0 };

    (void) err;
    (void) snprintf(key.name, sizeof key.name, "%s", name);
    const dibs_pool *found = memory_get(of(rows), POOLS, &key);
    if (!found)
        return DIBS_NOT_FOUND;
    *out = *found;
    return DIBS_OK;
}

dibs_status memory_rows_pool_put(struct rows *rows, const dibs_pool *pool, dibs_err *err)
{
    return memory_put(to(rows), POOLS, pool, err);
}

dibs_status memory_rows_pool_delete(struct rows *rows, const char *name, dibs_err *err)
{
    dibs_pool key = { 0 };

    (void) snprintf(key.name, sizeof key.name, "%s", name);
    return memory_erase(to(rows), POOLS, &key, err);
}

dibs_status memory_rows_pools(struct rows *rows, bool (*fn)(void *, const dibs_pool *), void *ctx,
                              dibs_err *err)
{
    const struct memory_table *t = &of(rows)->table[POOLS];

    (void) err;
    for (size_t i = 0; i < t->n; i++)
        if (!fn(ctx, t->item[i]))
            break;
    return DIBS_OK;
}

/* ---- sightings, health ---- */

dibs_status memory_rows_sighting_get(struct rows *rows, struct ledger_seen seen, uint32_t *count,
                                     dibs_err *err)
{
    struct sighting_record key = { .seen = seen };
    const struct sighting_record *found = memory_get(of(rows), SIGHTINGS, &key);

    (void) err;
    *count = found && found->seen.generation == seen.generation ? found->count : 0;
    return DIBS_OK;
}

dibs_status memory_rows_sighting_put(struct rows *rows, struct ledger_seen seen, uint32_t count,
                                     dibs_err *err)
{
    struct sighting_record record = { .seen = seen, .count = count };

    return count ? memory_put(to(rows), SIGHTINGS, &record, err)
                 : memory_erase(to(rows), SIGHTINGS, &record, err);
}

static dibs_status health(struct rows *rows, struct ledger_health *out, dibs_err *err)
{
    const struct memory_table *table = ((const struct memory_rows *) rows)->tables.table;

    (void) err;
    *out = (struct ledger_health){
        .major = 1,
        .n_claims = table[CLAIMS].n,
        .n_events = table[EVENTS].n,
        .n_names = table[NAMES].n,
        .is_sound = true,
        .detail = "ok",
        .path = "memory:",
    };
    for (size_t id = 0; id < TABLE_COUNT; id++)
        out->bytes += table[id].n * memory_kinds[id].bytes;
    return DIBS_OK;
}

const struct rows_ops rows_memory_ops = {
    .scheme = "memory",
    .open = open_memory,
    .close = close_memory,
    .salt = salt,
    .start_call = start_call,
    .begin = begin,
    .commit = commit,
    MEMORY_ROWS_OPS,
    .rollback = memory_rows_rollback,
    .undo = memory_rows_undo,
    .pool_put = memory_rows_pool_put,
    .pool_delete = memory_rows_pool_delete,
    .claim_get = memory_rows_claim_get,
    .claims = memory_rows_claims,
    .slot_put = memory_rows_slot_put,
    .claim_put = claim_put,
    .tail = tail,
    .events = events,
    .answer_get = memory_answer_get,
    .answer_put = memory_answer_put,
    .trim = memory_trim,
    .health = health,
};
