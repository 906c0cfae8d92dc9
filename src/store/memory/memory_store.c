/* SPDX-License-Identifier: MIT */
/* A ledger in memory, for tests and for runs that leave nothing behind. Each open creates an empty one. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "store/memory/table.h"

#include "base/banned.h"

static struct memory_tables *memory_of(struct store *store)
{
    struct memory_store *self = (struct memory_store *) store;

    assert(self->is_open);
    return &self->tables;
}

/* Return the tables for a change: the caller must be in a write transaction. */
static struct memory_tables *writable(struct store *store)
{
    assert(((struct memory_store *) store)->is_write);
    return memory_of(store);
}

static dibs_status check(const char *uri, dibs_err *err)
{
    return strcmp(uri, "memory:") == 0
               ? DIBS_OK
               : err_set(err, DIBS_INVALID, "ledger '%.80s': nothing may follow 'memory:'", uri);
}

static dibs_status open_memory(const char *rest, const struct ledger_options *options, struct store **out,
                               dibs_err *err)
{
    uint64_t number = 0;

    (void) rest;
    (void) options;
    if (getrandom(&number, sizeof number, 0) != (ssize_t) sizeof number)
        return err_os(err, DIBS_FAILURE, errno, "cannot get random bytes for the ledger");
    struct memory_store *self = calloc(1, sizeof *self);
    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->base.ops = &store_memory_ops;
    self->base.salt = number;
    *out = &self->base;
    return DIBS_OK;
}

static void close_memory(struct store *store)
{
    struct memory_store *self = (struct memory_store *) store;

    if (!self)
        return;
    assert(!self->is_open);
    memory_tables_done(&self->tables);
    free(self);
}

/* ---- operations that do nothing in memory ---- */

static dibs_status start_background(struct store *store, dibs_err *err)
{
    (void) store;
    (void) err;
    return DIBS_OK;
}

dibs_status memory_rows_writable(struct store *store, dibs_err *err)
{
    (void) store;
    (void) err;
    return DIBS_OK;
}

dibs_status memory_rows_salvage(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                                dibs_err *err)
{
    (void) rest;
    (void) event;
    (void) out;
    return err_set(err, DIBS_INVALID, "this ledger has no file that could be damaged");
}

/* ---- transactions ---- */

static dibs_status begin(struct store *store, bool is_write, bool is_full, int64_t deadline_ms, dibs_err *err)
{
    struct memory_store *self = (struct memory_store *) store;

    (void) is_full;
    (void) deadline_ms; /* no other process uses this store: there is no lock to wait for */
    (void) err;
    assert(!self->is_open);
    self->is_open = true;
    self->is_write = is_write;
    return DIBS_OK;
}

static dibs_status commit(struct store *store, dibs_err *err)
{
    struct memory_store *self = (struct memory_store *) store;

    (void) err;
    memory_commit(memory_of(store));
    self->is_open = self->is_write = false;
    return DIBS_OK;
}

static void rollback(struct store *store)
{
    struct memory_store *self = (struct memory_store *) store;

    memory_undo(memory_of(store), 0);
    self->is_open = self->is_write = false;
}

dibs_status memory_rows_save(struct store *store, dibs_err *err)
{
    (void) err;
    ((struct memory_store *) store)->saved = writable(store)->n_journal;
    return DIBS_OK;
}

static dibs_status undo(struct store *store, dibs_err *err)
{
    (void) err;
    memory_undo(writable(store), ((struct memory_store *) store)->saved);
    return DIBS_OK;
}

dibs_status memory_rows_forget(struct store *store, dibs_err *err)
{
    (void) store;
    (void) err;
    return DIBS_OK;
}

uint64_t memory_rows_changes(struct store *store)
{
    return memory_of(store)->n_journal;
}

static dibs_status get(struct store *store, enum record_kind kind, void *record, dibs_err *err)
{
    const void *found = memory_get(memory_of(store), kind, record);

    (void) err;
    if (!found)
        return DIBS_NOT_FOUND;
    memcpy(record, found, memory_kinds[kind].bytes);
    return DIBS_OK;
}

static dibs_status put(struct store *store, enum record_kind kind, const void *record, dibs_err *err)
{
    return memory_put(writable(store), kind, record, err);
}

static dibs_status erase(struct store *store, enum record_kind kind, const void *record, dibs_err *err)
{
    return memory_erase(writable(store), kind, record, err);
}

static dibs_status claims(struct store *store, const struct ledger_filter *filter, claim_record_fn fn,
                          void *ctx, dibs_err *err)
{
    const struct memory_tables *self = memory_of(store);
    const struct memory_table *t = &self->table[CLAIMS];
    struct claim_record key = { .claim.id = filter->after_id };

    (void) err;
    for (size_t i = memory_find(self, CLAIMS, &key, NULL); i < t->n; i++) {
        const struct claim_record *row = t->item[i];

        if (row->claim.id <= filter->after_id ||
            (filter->principal && strcmp(row->claim.principal, filter->principal) != 0) ||
            (!filter->principal && filter->pool && strcmp(row->claim.pool, filter->pool) != 0))
            continue;
        if (!fn(ctx, row))
            break;
    }
    return DIBS_OK;
}

dibs_status memory_rows_slots(struct store *store, dibs_proto proto, uint16_t port, ledger_slot_fn fn,
                              void *ctx, dibs_err *err)
{
    const struct memory_tables *self = memory_of(store);
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

dibs_status memory_rows_name_first(struct store *store, const struct ledger_names *among,
                                   char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    const struct memory_table *t = &memory_of(store)->table[NAMES];
    struct name_record from = { 0 };
    struct name_record to = { 0 };

    (void) err;
    (void) text_copy(from.principal, sizeof from.principal, among->principal);
    (void) text_copy(from.name, sizeof from.name, among->from);
    (void) text_copy(to.principal, sizeof to.principal, among->principal);
    (void) text_copy(to.name, sizeof to.name, among->to);
    for (size_t i = memory_find(memory_of(store), NAMES, &from, NULL);
         i < t->n && memory_kinds[NAMES].compare(t->item[i], &to) < 0; i++) {
        const struct name_record *found = t->item[i];

        if (among->project && strcmp(found->project, among->project) != 0)
            continue;
        memcpy(out, found->name, sizeof found->name);
        return DIBS_OK;
    }
    return DIBS_NOT_FOUND;
}

static dibs_status tail(struct store *store, uint64_t *seq, uint64_t *cursor, dibs_err *err)
{
    const struct memory_tables *self = memory_of(store);
    const struct memory_table *t = &self->table[EVENTS];
    const struct event_record *last = t->n > 0 ? t->item[t->n - 1] : NULL;

    (void) err;
    *seq = last ? last->event.seq : 0;
    *cursor = last ? last->cursor : 0;
    return DIBS_OK;
}

static dibs_status events(struct store *store, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    const struct memory_tables *self = memory_of(store);
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

dibs_status memory_rows_all(struct store *store, enum record_kind kind, record_fn fn, void *ctx,
                            dibs_err *err)
{
    const struct memory_table *t = &memory_of(store)->table[kind];

    (void) err;
    for (size_t i = 0; i < t->n; i++)
        if (!fn(ctx, t->item[i]))
            break;
    return DIBS_OK;
}

dibs_status memory_rows_count(struct store *store, const char *principal, uint32_t *n, dibs_err *err)
{
    const struct memory_table *t = &memory_of(store)->table[NAMES];
    struct name_record from = { 0 };

    (void) err;
    *n = 0;
    (void) text_copy(from.principal, sizeof from.principal, principal);
    for (size_t i = memory_find(memory_of(store), NAMES, &from, NULL); i < t->n; i++) {
        const struct name_record *name = t->item[i];

        if (strcmp(name->principal, principal) != 0)
            break;
        *n += name->claim_id != 0;
    }
    return DIBS_OK;
}

/* ---- keeping the tables bounded ---- */

struct trimming {
    const struct memory_tables *tables;
    const struct store_bounds *bounds;
    int64_t names_ms; /* names last used before this time are dropped */
    enum record_kind kind;
};

static bool has_claim(const struct memory_tables *tables, uint64_t id)
{
    return memory_get(tables, CLAIMS, &(struct claim_record){ .claim.id = id });
}

static bool is_over(const void *ctx, const void *record)
{
    const struct trimming *t = ctx;
    const struct store_bounds *b = t->bounds;
    const struct name_record *name = record;
    const struct ledger_slot *slot = record;

    switch (t->kind) {
    case EVENTS: return ((const struct event_record *) record)->event.seq <= b->oldest_seq;
    case ANSWERS: return ((const struct answer_record *) record)->seq <= b->oldest_seq;
    case NAMES: return name->claim_id == 0 && name->used_ms < t->names_ms;
    case SLOTS:
        return slot->claim_id == 0 && (slot->released_ms < b->cooled_ms || slot->released_ms > b->until_ms);
    case SIGHTINGS: return !has_claim(t->tables, ((const struct sighting_record *) record)->seen.id);
    default: return false;
    }
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a;
    int64_t y = *(const int64_t *) b;

    return x < y ? 1 : -(x > y);
}

/* Find when the `kept`-th newest of the remembered names was used; INT64_MIN when there are fewer. */
static dibs_status oldest_name(const struct memory_tables *self, size_t kept, int64_t *out, dibs_err *err)
{
    const struct memory_table *t = &self->table[NAMES];
    size_t n = 0;

    *out = INT64_MIN;
    if (t->n < kept || kept == 0)
        return DIBS_OK;
    AUTO(free_auto) int64_t *used = calloc(t->n, sizeof *used);
    if (!used)
        return err_trouble(err, DIBS_TROUBLE_FULL, "ledger memory: out of memory");
    for (size_t i = 0; i < t->n; i++) {
        const struct name_record *name = t->item[i];

        if (name->claim_id == 0)
            used[n++] = name->used_ms;
    }
    qsort(used, n, sizeof *used, newest_first);
    if (n >= kept)
        *out = used[kept - 1];
    return DIBS_OK;
}

static dibs_status trim(struct store *store, const struct store_bounds *bounds, dibs_err *err)
{
    struct trimming t = { .tables = writable(store), .bounds = bounds };
    dibs_status s = oldest_name(t.tables, bounds->names_kept, &t.names_ms, err);

    for (t.kind = 0; t.kind < RECORD_KINDS && s == DIBS_OK; t.kind++)
        s = memory_sweep(writable(store), t.kind, is_over, &t, err);
    return s;
}

static dibs_status health(struct store *store, struct ledger_health *out, dibs_err *err)
{
    const struct memory_table *table = ((const struct memory_store *) store)->tables.table;

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
    for (size_t id = 0; id < RECORD_KINDS; id++)
        out->bytes += table[id].n * memory_kinds[id].bytes;
    return DIBS_OK;
}

const struct store_ops store_memory_ops = {
    .scheme = "memory",
    .check = check,
    .open = open_memory,
    .close = close_memory,
    .start_background = start_background,
    .begin = begin,
    .commit = commit,
    MEMORY_ROWS_OPS,
    .rollback = rollback,
    .undo = undo,
    .get = get,
    .put = put,
    .erase = erase,
    .claims = claims,
    .tail = tail,
    .events = events,
    .trim = trim,
    .health = health,
};
