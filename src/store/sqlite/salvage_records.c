/* SPDX-License-Identifier: MIT */
/* Copy the readable records of a damaged ledger into a new one.
 *
 * Each table is read from the front until an error, and then from the back until an error. A claim whose
 * record is damaged or lost becomes a placeholder: a kept claim without a holder, which blocks its port until
 * a user with the right releases it (INV-6, INV-10). The placeholder has what is still known from the record,
 * its slots and its name; when its principal is unknown, it belongs to the owner of the file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "dibs/settings.h"
#include "store/sqlite/salvage.h"

#include "base/banned.h"

#define PLACEHOLDER_COMMAND "damaged record"
#define UNKNOWN_PRINCIPAL "uid:?" /* until its name or the owner of the file gives another */

enum { ROWS_MAX = 1 << 22, SQL_BYTES = 128 };

static struct sqlite_store *target(const struct salvage *r)
{
    return (struct sqlite_store *) r->store;
}

/* Call `save` for each row of a table; an error of the damaged ledger ends one pass, not the salvage. */
static dibs_status read_table(struct salvage *r, const char *table, const char *order,
                              dibs_status (*save)(struct salvage *r, sqlite3_stmt *row))
{
    dibs_status s = DIBS_OK;
    bool is_whole = false;

    for (int pass = 0; pass < 2 && !is_whole && s == DIBS_OK; pass++) {
        AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
        char sql[SQL_BYTES];
        int rc = SQLITE_ERROR;

        (void) snprintf(sql, sizeof sql, "SELECT * FROM %s ORDER BY %s%s", table, order,
                        pass == 0 ? "" : " DESC");
        if (sqlite3_prepare_v2(r->old.db, sql, -1, &stmt, NULL) == SQLITE_OK)
            for (size_t n = 0; n < ROWS_MAX && s == DIBS_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW; n++)
                s = save(r, stmt);
        is_whole = rc == SQLITE_DONE;
        r->lost_some = r->lost_some || !is_whole;
    }
    return s;
}

/* ---- claims and slots ---- */

static dibs_status put_with_slots(struct salvage *r, const struct claim_record *row)
{
    const dibs_claim *c = &row->claim;
    dibs_status s = r->store->ops->put(r->store, CLAIMS, row, r->err);

    for (size_t i = 0; i < c->n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = record_slot(c, i);

        s = r->store->ops->put(r->store, SLOTS, &slot, r->err);
    }
    return s;
}

static dibs_status put_placeholder(struct salvage *r, struct claim_record *row)
{
    static const uint8_t none[STORE_SECRET_BYTES];
    dibs_claim *c = &row->claim;

    c->is_damaged = false;
    c->generation = c->generation ? c->generation : 1;
    c->kind = DIBS_STATIC;
    c->is_exclusive = c->is_kept = true;
    c->holder = DIBS_HELD_BY_NOBODY;
    c->process = (dibs_process){ 0 };
    c->lease_ttl_ms = c->lease_until_ms = 0;
    c->changed_ms = r->event->time_ms;
    if (dibs_name_check(c->name, NULL) != DIBS_OK || !c->principal[0])
        c->name[0] = '\0';
    if (!c->principal[0])
        (void) text_copy(c->principal, sizeof c->principal, UNKNOWN_PRINCIPAL);
    if (!c->pool[0])
        (void) text_copy(c->pool, sizeof c->pool, "default");
    (void) text_copy(c->command, sizeof c->command, PLACEHOLDER_COMMAND);
    dibs_status s =
        memcmp(row->secret, none, sizeof none) == 0 ? record_secret(row->secret, r->err) : DIBS_OK;
    r->result.n_lost++;
    return s == DIBS_OK ? put_with_slots(r, row) : s;
}

static dibs_status save_claim(struct salvage *r, sqlite3_stmt *stmt)
{
    struct claim_record row;
    struct claim_record known;

    sqlite_load_claim(stmt, &row);
    if (sqlite3_column_int64(stmt, 0) < 1)
        return DIBS_OK; /* its slots keep its port */
    dibs_status s = store_get_claim(r->store, row.claim.id, &known, r->err);
    if (s != DIBS_NOT_FOUND) /* saved by the first pass */
        return s;
    if (!row.claim.is_damaged) {
        r->result.n_saved++;
        return put_with_slots(r, &row);
    }
    if (sqlite_find_place(&r->old, &row.claim, NULL) != DIBS_OK || row.claim.port == 0)
        return DIBS_OK;
    return put_placeholder(r, &row);
}

static bool covers(void *ctx, const struct ledger_slot *slot)
{
    struct ledger_slot *saved = ctx;

    if (slot->claim_id != 0 && slot->is_exclusive && dibs_address_conflict(&slot->address, &saved->address))
        saved->claim_id = 0;
    return saved->claim_id != 0;
}

/* Keep the port of a slot whose claim was not saved. All slots of one lost claim make one placeholder. */
static dibs_status save_slot(struct salvage *r, sqlite3_stmt *stmt)
{
    struct ledger_slot slot;
    struct claim_record row;
    uint64_t id = 0;
    uint64_t cursor = 0;

    if (!sqlite_load_slot(stmt, &slot))
        return DIBS_OK;
    if (slot.claim_id == 0) /* it cools */
        return r->store->ops->put(r->store, SLOTS, &slot, r->err);
    struct ledger_slot uncovered = slot;
    dibs_status s = r->store->ops->slots(r->store, slot.proto, slot.port, covers, &uncovered, r->err);
    if (s != DIBS_OK || !slot.is_exclusive || uncovered.claim_id == 0)
        return s;
    s = store_get_claim(r->store, slot.claim_id, &row, r->err);
    if (s == DIBS_OK && row.claim.port == slot.port) {
        if (strcmp(row.claim.command, PLACEHOLDER_COMMAND) != 0)
            return DIBS_OK; /* the claim knows its bindings */
        record_add_binding(&row.claim, &slot);
        return put_with_slots(r, &row);
    }
    record_make_lost(&row, slot.claim_id, slot.port);
    row.claim.created_ms = r->event->time_ms;
    record_add_binding(&row.claim, &slot);
    if (s == DIBS_OK || (s == DIBS_NOT_FOUND && slot.claim_id > INT64_MAX / 2)) {
        /* Its own id is another claim's, or absurd. */
        s = r->store->ops->tail(r->store, &id, &cursor, r->err);
        row.claim.id = id + 1;
    } else if (s == DIBS_NOT_FOUND) {
        s = DIBS_OK;
    }
    return s == DIBS_OK ? put_placeholder(r, &row) : s;
}

/* ---- names ---- */

/* A claim without a name gets the one that leads to it; then every name leads to the newest claim that has
 * it, or to none. */
static dibs_status match_names(struct salvage *r)
{
    return sqlite_exec(
        target(r),
        "UPDATE claims SET (principal, name, project) = (n.principal, n.name, n.project) FROM names AS n"
        " WHERE n.claim=claims.id AND n.port=claims.port AND claims.name='' AND claims.principal IN"
        " ('" UNKNOWN_PRINCIPAL "', n.principal);"
        "INSERT OR REPLACE INTO names(principal, name, claim, port, used_ms, project)"
        " SELECT principal, name, id, port, changed_ms, project FROM claims AS c WHERE name<>''"
        " AND NOT EXISTS (SELECT 1 FROM names AS n JOIN claims AS x ON x.id=n.claim"
        " WHERE n.principal=c.principal AND n.name=c.name AND n.claim>=c.id AND n.port=x.port"
        " AND x.principal=c.principal AND x.name=c.name) ORDER BY id;"
        "UPDATE names SET claim=0 WHERE claim<>0 AND NOT EXISTS (SELECT 1 FROM claims AS c"
        " WHERE c.id=names.claim AND c.principal=names.principal AND c.name=names.name)",
        "matching names with claims", r->err);
}

/* The owner of the damaged file answers for claims whose principal is unknown. In a user namespace the file
 * shows another uid than the one that the actor has for others. */
static dibs_status own_the_unknown(struct salvage *r)
{
    struct stat st = { 0 };
    char sql[128];
    bool is_ours = stat(r->old.path, &st) != 0 || st.st_uid == geteuid();

    (void) snprintf(sql, sizeof sql, "UPDATE claims SET principal='uid:%u' WHERE principal='%s'",
                    is_ours ? r->event->actor_uid : st.st_uid, UNKNOWN_PRINCIPAL);
    return sqlite_exec(target(r), sql, "writing what was readable", r->err);
}

/* ---- what is copied as it is ---- */

static dibs_status copy_row(struct salvage *r, sqlite3_stmt *row)
{
    return sqlite_copy(target(r), r->kind, row, r->err);
}

/* The same salt: names prefer the same ports as before. */
static dibs_status copy_meta(struct salvage *r, sqlite3_stmt *row)
{
    if (sqlite3_column_type(row, 0) != SQLITE_TEXT || sqlite3_column_type(row, 1) != SQLITE_INTEGER)
        return DIBS_OK;
    char *sql = sqlite3_mprintf("INSERT OR REPLACE INTO meta(key, value) VALUES(%Q, %lld)",
                                sqlite3_column_text(row, 0), sqlite3_column_int64(row, 1));
    dibs_status s = sql ? sqlite_exec(target(r), sql, "writing what was readable", r->err)
                        : sqlite_error(target(r), SQLITE_NOMEM, "writing what was readable", r->err);

    sqlite3_free(sql);
    return s;
}

static dibs_status copy_tables(struct salvage *r)
{
    static const struct {
        enum record_kind kind;
        const char *table, *key;
    } tables[] = {
        { NAMES, "names", "principal, name" },
        { EVENTS, "events", "seq" },
        { POOLS, "pools", "name" },
        { SIGHTINGS, "sightings", "claim" },
        { ANSWERS, "answers", "principal, key, part" },
    };
    dibs_status s = read_table(r, "meta", "key", copy_meta);

    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && s == DIBS_OK; i++) {
        r->kind = tables[i].kind;
        s = read_table(r, tables[i].table, tables[i].key, copy_row);
    }
    return s;
}

/* Numbers that were lost with their records are not used again: followers of the events may know them. */
static dibs_status put_event(struct salvage *r)
{
    enum { MARGIN = 4096 };
    struct event_record row = { .event = *r->event };
    dibs_status s = r->store->ops->tail(r->store, &row.event.seq, &row.cursor, r->err);

    row.event.seq += 1u + (r->lost_some ? MARGIN : 0u);
    row.cursor++;
    return s == DIBS_OK ? r->store->ops->put(r->store, EVENTS, &row, r->err) : s;
}

dibs_status salvage_records(struct salvage *r)
{
    dibs_status s = r->store->ops->begin(r->store, true, true, 0, r->err);

    if (s == DIBS_OK)
        s = read_table(r, "claims", "id", save_claim);
    if (s == DIBS_OK)
        s = copy_tables(r);
    if (s == DIBS_OK)
        s = read_table(r, "slots", "proto, port", save_slot);
    if (s == DIBS_OK)
        s = match_names(r);
    if (s == DIBS_OK)
        s = own_the_unknown(r);
    if (s == DIBS_OK)
        s = put_event(r);
    return s == DIBS_OK ? r->store->ops->commit(r->store, r->err) : s; /* closing it rolls back */
}
