/* SPDX-License-Identifier: MIT */
/* The other rows of a SQLite ledger: events, pools, sightings, and keeping all of them bounded. */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

static struct sqlite_rows *of(struct rows *rows)
{
    return (struct sqlite_rows *) rows;
}

/* ---- events ---- */

dibs_status sqlite_rows_tail(struct rows *rows, uint64_t *seq, uint64_t *cursor, dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_TAIL, err);
    AUTO(sqlite_reset_auto) sqlite3_stmt *other = NULL;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        *seq = (uint64_t) sqlite3_column_int64(stmt, 0);
        *cursor = (uint64_t) sqlite3_column_int64(stmt, 1);
        return DIBS_OK;
    }
    if (rc != SQLITE_DONE)
        return sqlite_error(self, rc, "reading the newest event", err);
    /* No event at all: new, or its events were lost. Ids must not be used twice even then. */
    other = sqlite_stmt(self, SQL_TAIL_CLAIMS, err);
    if (!other)
        return DIBS_UNAVAILABLE;
    rc = sqlite3_step(other);
    *seq = rc == SQLITE_ROW ? (uint64_t) sqlite3_column_int64(other, 0) : 0;
    *cursor = *seq;
    return rc == SQLITE_ROW ? DIBS_OK : sqlite_error(self, rc, "reading the newest claim", err);
}

dibs_status sqlite_rows_event_put(struct rows *rows, const dibs_event *e, uint64_t cursor, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(of(rows), SQL_EVENT_PUT, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 1, (int64_t) e->seq);
    sqlite_bind_number(stmt, 2, (int64_t) cursor);
    sqlite_bind_number(stmt, 3, e->time_ms);
    sqlite_bind_number(stmt, 4, e->kind);
    sqlite_bind_number(stmt, 5, (int64_t) e->claim_id);
    sqlite_bind_number(stmt, 6, (int64_t) e->generation);
    sqlite_bind_number(stmt, 7, e->port);
    sqlite_bind_number(stmt, 8, e->protos);
    sqlite_bind_number(stmt, 9, e->is_dynamic);
    sqlite_bind_number(stmt, 10, e->actor_uid);
    sqlite_bind_number(stmt, 11, e->actor_pid);
    sqlite_bind_string(stmt, 12, e->principal);
    sqlite_bind_string(stmt, 13, e->name);
    return sqlite_run(of(rows), stmt, "writing an event", err);
}

static bool load_event(sqlite3_stmt *stmt, dibs_event *e)
{
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };

    *e = (dibs_event){ 0 };
    e->seq = (uint64_t) sqlite_read_number(&r, 0, 1, INT64_MAX);
    e->time_ms = sqlite_read_number(&r, 2, INT64_MIN, INT64_MAX);
    e->kind = (dibs_event_kind) sqlite_read_number(&r, 3, DIBS_EV_CLAIMED, DIBS_EV_POOL);
    e->claim_id = (uint64_t) sqlite_read_number(&r, 4, 0, INT64_MAX);
    e->generation = (uint64_t) sqlite_read_number(&r, 5, 0, INT64_MAX);
    e->port = (uint16_t) sqlite_read_number(&r, 6, 0, DIBS_PORT_MAX);
    e->protos = (uint8_t) sqlite_read_number(&r, 7, 0, UINT8_MAX);
    e->is_dynamic = sqlite_read_number(&r, 8, 0, 1) != 0;
    e->actor_uid = (uint32_t) sqlite_read_number(&r, 9, 0, UINT32_MAX);
    e->actor_pid = (int32_t) sqlite_read_number(&r, 10, INT32_MIN, INT32_MAX);
    sqlite_read_string(&r, 11, e->principal, DIBS_PRINCIPAL_MAX);
    sqlite_read_string(&r, 12, e->name, DIBS_NAME_MAX);
    return r.is_ok;
}

static dibs_status oldest_event(struct sqlite_rows *self, uint64_t *oldest, dibs_err *err)
{
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_EVENTS_OLDEST, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    int rc = sqlite3_step(stmt);
    if (rc != SQLITE_ROW)
        return sqlite_error(self, rc, "reading the oldest event", err);
    *oldest = (uint64_t) sqlite3_column_int64(stmt, 0);
    return DIBS_OK;
}

dibs_status sqlite_rows_events(struct rows *rows, const dibs_event_query *query, uint64_t *oldest,
                               bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto)
    sqlite3_stmt *stmt = sqlite_stmt(self, query->newest ? SQL_EVENTS_NEWEST : SQL_EVENTS, err);
    dibs_event event;
    int rc = SQLITE_DONE;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    if (oldest) {
        dibs_status s = oldest_event(self, oldest, err);
        if (s != DIBS_OK)
            return s;
    }
    sqlite_bind_number(stmt, 1, query->since > INT64_MAX ? INT64_MAX : (int64_t) query->since);
    sqlite_bind_number(stmt, 2, query->limit == 0 || query->limit > INT64_MAX ? -1 : (int64_t) query->limit);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        if (load_event(stmt, &event) && !fn(ctx, &event))
            return DIBS_OK;
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "reading events", err);
}

/* ---- pools ---- */

static bool load_pool(sqlite3_stmt *stmt, dibs_pool *out)
{
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };
    char ranges[DIBS_RANGES_TEXT_MAX + 1];

    *out = (dibs_pool){ 0 };
    sqlite_read_string(&r, 0, out->name, DIBS_POOL_NAME_MAX);
    sqlite_read_string(&r, 1, ranges, DIBS_RANGES_TEXT_MAX);
    out->scope = (dibs_scope) sqlite_read_number(&r, 2, DIBS_SCOPE_HOST, DIBS_SCOPE_CLUSTER);
    out->band = (int32_t) sqlite_read_number(&r, 3, DIBS_BAND_AUTO, DIBS_PORT_MAX);
    out->cooldown_ms = sqlite_read_number(&r, 4, 0, DIBS_TTL_MAX_MS);
    sqlite_read_string(&r, 5, out->order, sizeof out->order - 1);
    return r.is_ok && dibs_ranges_parse(ranges, &out->ranges, NULL) == DIBS_OK;
}

dibs_status sqlite_rows_pool_get(struct rows *rows, const char *name, dibs_pool *out, dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_POOL_GET, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_string(stmt, 1, name);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE)
        return DIBS_NOT_FOUND;
    if (rc != SQLITE_ROW)
        return sqlite_error(self, rc, "reading a pool", err);
    /* A damaged pool is no pool: upkeep sets it aside, and it can be set anew (INV-6). */
    return load_pool(stmt, out) ? DIBS_OK : DIBS_NOT_FOUND;
}

dibs_status sqlite_rows_pool_put(struct rows *rows, const dibs_pool *pool, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(of(rows), SQL_POOL_PUT, err);
    char ranges[DIBS_RANGES_TEXT_MAX + 1];

    if (!stmt)
        return DIBS_UNAVAILABLE;
    dibs_ranges_format(&pool->ranges, ranges);
    sqlite_bind_string(stmt, 1, pool->name);
    sqlite_bind_string(stmt, 2, ranges);
    sqlite_bind_number(stmt, 3, pool->scope);
    sqlite_bind_number(stmt, 4, pool->band);
    sqlite_bind_number(stmt, 5, pool->cooldown_ms);
    sqlite_bind_string(stmt, 6, pool->order);
    dibs_status s = sqlite_run(of(rows), stmt, "writing a pool", err);
    (void) sqlite3_clear_bindings(stmt);
    return s;
}

dibs_status sqlite_rows_pool_delete(struct rows *rows, const char *name, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(of(rows), SQL_POOL_DELETE, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_string(stmt, 1, name);
    return sqlite_run(of(rows), stmt, "removing a pool", err);
}

dibs_status sqlite_rows_pools(struct rows *rows, bool (*fn)(void *, const dibs_pool *), void *ctx,
                              dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_POOLS, err);
    dibs_pool pool;
    int rc = SQLITE_DONE;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        if (load_pool(stmt, &pool) && !fn(ctx, &pool))
            return DIBS_OK;
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "reading pools", err);
}

/* ---- sightings, upkeep ---- */

dibs_status sqlite_rows_sighting_get(struct rows *rows, struct ledger_seen seen, uint32_t *count,
                                     dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_SIGHTING_GET, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 1, (int64_t) seen.id);
    sqlite_bind_number(stmt, 2, (int64_t) seen.generation);
    int rc = sqlite3_step(stmt);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return sqlite_error(self, rc, "reading sightings", err);
    *count = rc == SQLITE_ROW ? (uint32_t) sqlite3_column_int(stmt, 0) : 0;
    return DIBS_OK;
}

dibs_status sqlite_rows_sighting_put(struct rows *rows, struct ledger_seen seen, uint32_t count,
                                     dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(of(rows), count ? SQL_SIGHTING_PUT : SQL_SIGHTING_DELETE, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 1, (int64_t) seen.id);
    if (count) {
        sqlite_bind_number(stmt, 2, (int64_t) seen.generation);
        sqlite_bind_number(stmt, 3, count);
    }
    return sqlite_run(of(rows), stmt, "writing sightings", err);
}

static dibs_status run_bound(struct sqlite_rows *self, enum sqlite_sql which, const int64_t *values, int n,
                             dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(self, which, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    for (int i = 0; i < n; i++)
        sqlite_bind_number(stmt, i + 1, values[i]);
    return sqlite_run(self, stmt, "upkeep", err);
}

dibs_status sqlite_rows_trim(struct rows *rows, uint64_t oldest_seq, size_t names_kept,
                             int64_t cooled_before_ms, const struct instant *now, dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    dibs_status s = run_bound(self, SQL_TRIM_EVENTS, (int64_t[]){ (int64_t) oldest_seq }, 1, err);

    if (s == DIBS_OK)
        s = run_bound(self, SQL_TRIM_ANSWERS, (int64_t[]){ (int64_t) oldest_seq }, 1, err);
    if (s == DIBS_OK)
        s = run_bound(self, SQL_TRIM_NAMES, (int64_t[]){ (int64_t) names_kept - 1 }, 1, err);
    if (s == DIBS_OK)
        s = run_bound(self, SQL_TRIM_SLOTS, (int64_t[]){ cooled_before_ms, now->boot_ms }, 2, err);
    if (s == DIBS_OK)
        s = run_bound(self, SQL_TRIM_SIGHTINGS, NULL, 0, err);
    return s;
}
