/* SPDX-License-Identifier: MIT */
/* What to do with damaged records of a SQLite ledger.
 *
 * A damaged record is copied into the quarantine table and replaced by a placeholder that anybody with the
 * right can release: its port stays blocked until somebody has looked (INV-6, INV-10). */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

#define PLACEHOLDER_COMMAND "damaged record"

enum { QUARANTINE_AT_ONCE = 1024, TEXT_SHOWN = 1100, BLOB_SHOWN = 256 };

/* ---- placeholders ---- */

static void become_placeholder(struct row_claim *row, const struct instant *now)
{
    dibs_claim *c = &row->claim;

    row->claim.is_damaged = false;
    c->kind = DIBS_STATIC;
    c->is_exclusive = c->is_kept = true;
    c->holder = DIBS_HELD_BY_NOBODY;
    memset(&c->process, 0, sizeof c->process);
    c->lease_ttl_ms = c->lease_until_ms = 0;
    c->changed_ms = now->wall_ms;
    c->name[0] = c->project[0] = '\0';
    if (!c->principal[0])
        (void) text_copy(c->principal, sizeof c->principal, "uid:0");
    if (!c->pool[0])
        (void) text_copy(c->pool, sizeof c->pool, "default");
    (void) text_copy(c->command, sizeof c->command, PLACEHOLDER_COMMAND);
}

struct exclusion {
    const dibs_claim *claim;
    const dibs_binding *binding;
    bool is_excluded;
};

static bool excludes(void *ctx, const struct ledger_slot *slot)
{
    struct exclusion *e = ctx;

    e->is_excluded = slot->claim_id != 0 && slot->claim_id != e->claim->id && slot->is_exclusive &&
                     dibs_address_conflict(&slot->address, &e->binding->address);
    return !e->is_excluded;
}

dibs_status sqlite_is_excluded(struct rows *rows, const dibs_claim *claim, bool *out, dibs_err *err)
{
    struct exclusion e = { .claim = claim };
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < claim->n_bindings && claim->is_exclusive && !e.is_excluded && s == DIBS_OK; i++) {
        e.binding = &claim->bindings[i];
        s = rows->ops->slots(rows, e.binding->proto, claim->port, excludes, &e, err);
    }
    *out = e.is_excluded;
    return s;
}

static dibs_status put_slots(struct rows *rows, const struct row_claim *row, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < row->claim.n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = {
            .proto = row->claim.bindings[i].proto,
            .port = row->claim.port,
            .address = row->claim.bindings[i].address,
            .claim_id = row->claim.id,
            .is_exclusive = row->claim.is_exclusive,
        };
        s = sqlite_put_slot(rows, &slot, err);
    }
    return s;
}

dibs_status sqlite_put_with_slots(struct rows *rows, const struct row_claim *row, dibs_err *err)
{
    dibs_status s = sqlite_put_claim(rows, row, err);

    return s == DIBS_OK ? put_slots(rows, row, err) : s;
}

dibs_status sqlite_block_slot(struct rows *rows, const struct ledger_slot *slot, const struct instant *now,
                              bool *is_new, dibs_err *err)
{
    struct row_claim row = { 0 };
    bool is_excluded = false;
    dibs_status s = rows->ops->claim_get(rows, slot->claim_id, &row, err);

    *is_new = s == DIBS_NOT_FOUND;
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    if (s == DIBS_OK && (row.claim.port != slot->port || strcmp(row.claim.command, PLACEHOLDER_COMMAND) != 0))
        return DIBS_OK; /* the claim is there after all */
    if (*is_new) {
        row = (struct row_claim){ .claim = { .id = slot->claim_id, .generation = 1, .port = slot->port } };
        row.claim.created_ms = now->wall_ms;
        s = codec_secret(row.secret, err);
        if (s != DIBS_OK)
            return s;
    }
    become_placeholder(&row, now);
    codec_add_binding(&row.claim, slot);
    s = sqlite_is_excluded(rows, &row.claim, &is_excluded, err);
    *is_new = *is_new && !is_excluded;
    return s == DIBS_OK && !is_excluded ? sqlite_put_with_slots(rows, &row, err) : s;
}

/* ---- quarantine ---- */

struct care {
    struct sqlite_rows *self;
    struct rows *rows;
    const struct instant *now;
    uint64_t seq, cursor;
    size_t n;
    dibs_err *err;
};

static dibs_status prepare(struct care *k, const char *sql, sqlite3_stmt **out)
{
    int rc = sqlite3_prepare_v2(k->self->db, sql, -1, out, NULL);

    return rc == SQLITE_OK ? DIBS_OK : sqlite_error(k->self, rc, "reading its tables", k->err);
}

static dibs_status run_with(struct care *k, const char *sql, int64_t value)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    dibs_status s = prepare(k, sql, &stmt);

    if (s != DIBS_OK)
        return s;
    (void) sqlite3_bind_int64(stmt, 1, value);
    return sqlite_run(k->self, stmt, "setting a damaged record aside", k->err);
}

static dibs_status note_event(struct care *k, const dibs_claim *claim)
{
    dibs_event event = {
        .seq = ++k->seq,
        .time_ms = k->now->wall_ms,
        .kind = DIBS_EV_QUARANTINED,
        .claim_id = claim->id,
        .generation = claim->generation,
        .port = claim->port,
    };

    for (size_t i = 0; i < claim->n_bindings; i++)
        event.protos |= (uint8_t) (1u << claim->bindings[i].proto);
    (void) text_copy(event.principal, sizeof event.principal, claim->principal);
    return k->rows->ops->event_put(k->rows, &event, k->cursor, k->err);
}

static dibs_status set_aside(struct care *k, const char *source, int64_t key, const char *reason,
                             const char *record)
{
    char text[24];
    sqlite3_stmt *stmt = sqlite_stmt(k->self, SQL_QUARANTINE_PUT, k->err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    (void) snprintf(text, sizeof text, "%lld", (long long) key);
    (void) sqlite3_bind_int64(stmt, 1, k->now->wall_ms);
    (void) sqlite3_bind_text(stmt, 2, source, -1, SQLITE_STATIC);
    (void) sqlite3_bind_text(stmt, 3, text, -1, SQLITE_STATIC);
    (void) sqlite3_bind_text(stmt, 4, reason, -1, SQLITE_STATIC);
    (void) sqlite3_bind_text(stmt, 5, record, -1, SQLITE_STATIC);
    dibs_status s = sqlite_run(k->self, stmt, "setting a damaged record aside", k->err);
    (void) sqlite3_clear_bindings(stmt); /* they point into our frame */
    k->n += s == DIBS_OK;
    return s;
}

/* The row as it is, for people: name=value of every column but the secret, which stands nowhere else either.
 */
static char *describe(sqlite3 *db, sqlite3_stmt *stmt)
{
    sqlite3_str *out = sqlite3_str_new(db);

    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
        const char *name = sqlite3_column_name(stmt, i);

        if (!name || strcmp(name, "secret") == 0)
            continue;
        sqlite3_str_appendf(out, "%s%s=", i ? ", " : "", name);
        switch (sqlite3_column_type(stmt, i)) {
        case SQLITE_INTEGER: sqlite3_str_appendf(out, "%lld", sqlite3_column_int64(stmt, i)); break;
        case SQLITE_FLOAT: sqlite3_str_appendf(out, "%g", sqlite3_column_double(stmt, i)); break;
        case SQLITE_NULL: sqlite3_str_appendall(out, "NULL"); break;
        case SQLITE_BLOB: {
            const uint8_t *bytes = sqlite3_column_blob(stmt, i);
            int n = sqlite3_column_bytes(stmt, i);

            sqlite3_str_appendall(out, "x'");
            for (int b = 0; bytes && b < n && b < BLOB_SHOWN; b++)
                sqlite3_str_appendf(out, "%02x", bytes[b]);
            sqlite3_str_appendall(out, "'");
            break;
        }
        default: sqlite3_str_appendf(out, "%.*Q", TEXT_SHOWN, sqlite3_column_text(stmt, i)); break;
        }
    }
    return sqlite3_str_finish(out);
}

static dibs_status replace(struct care *k, int64_t id, struct row_claim *row)
{
    bool is_known = row->claim.port != 0;
    static const uint8_t none[ROWS_SECRET_BYTES];
    dibs_status s =
        run_with(k, "DELETE FROM claims WHERE id=?1", id); /* first: its slots go after it alone */

    if (s == DIBS_OK)
        s = run_with(k, "DELETE FROM slots WHERE claim=?1 AND claim<>0", id);
    if (s == DIBS_OK)
        s = run_with(k, "DELETE FROM names WHERE claim=?1 AND claim<>0", id);
    if (s == DIBS_OK && id < 1)
        row->claim.id = k->seq + 1; /* no id that anything could name: a new one */
    if (s == DIBS_OK && is_known && memcmp(row->secret, none, sizeof none) == 0)
        s = codec_secret(row->secret, k->err);
    become_placeholder(row, k->now);
    if (s == DIBS_OK && is_known)
        s = sqlite_put_with_slots(k->rows, row, k->err);
    return s == DIBS_OK ? note_event(k, &row->claim) : s;
}

static dibs_status quarantine_claim(struct care *k, int64_t id)
{
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(k->self, SQL_CLAIM_GET, k->err);
    struct row_claim row;
    const char *why = NULL;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    (void) sqlite3_bind_int64(stmt, 1, id);
    int rc = sqlite3_step(stmt);
    if (rc != SQLITE_ROW)
        return sqlite_error(k->self, rc, "reading a claim", k->err);
    sqlite_load_claim(stmt, &row);
    (void) codec_claim_valid(&row.claim, &why);
    char *record = describe(k->self->db, stmt);
    dibs_status s = set_aside(k, "claims", id, why ? why : "a value has the wrong type or is out of range",
                              record ? record : "");
    sqlite3_free(record);
    if (s == DIBS_OK)
        s = sqlite_find_place(k->self, stmt, &row.claim, k->err);
    (void) sqlite3_reset(stmt);
    return s == DIBS_OK ? replace(k, id, &row) : s;
}

static dibs_status quarantine_claims(struct care *k)
{
    int64_t damaged[QUARANTINE_AT_ONCE];
    sqlite3_stmt *stmt = sqlite_stmt(k->self, SQL_CLAIMS, k->err);
    struct row_claim row;
    size_t n = 0;
    int rc = SQLITE_ROW;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    (void) sqlite3_bind_int64(stmt, 1, INT64_MIN);
    while (n < QUARANTINE_AT_ONCE && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        sqlite_load_claim(stmt, &row);
        if (row.claim.is_damaged)
            damaged[n++] = sqlite3_column_int64(stmt, 0);
    }
    (void) sqlite3_reset(stmt);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        return sqlite_error(k->self, rc, "looking for damaged records", k->err);
    dibs_status s = DIBS_OK;
    for (size_t i = 0; i < n && s == DIBS_OK; i++)
        s = quarantine_claim(k, damaged[i]);
    return s;
}

/* Slots that cannot be read: kept as text, dropped. What a claim needs of them is written again afterwards.
 */
static dibs_status quarantine_slots(struct care *k)
{
    char sql[1024];
    const char *condition = strstr(sqlite_sql_text[SQL_SLOTS_DAMAGED], "WHERE ");
    sqlite3_stmt *drop = sqlite_stmt(k->self, SQL_SLOTS_DAMAGED, k->err);

    if (!drop || !condition)
        return DIBS_UNAVAILABLE;
    (void) snprintf(
        sql, sizeof sql,
        "INSERT INTO quarantine(found_ms, source, key, reason, record) SELECT ?1, 'slots',"
        " quote(proto) || '/' || quote(port), 'a value is out of range', 'address=' || quote(address) ||"
        " ', claim=' || quote(claim) || ', exclusive=' || quote(exclusive) FROM slots %s",
        condition);
    dibs_status s = run_with(k, sql, k->now->wall_ms);
    if (s == DIBS_OK)
        s = sqlite_run(k->self, drop, "dropping damaged ports", k->err);
    if (s == DIBS_OK)
        k->n += (size_t) sqlite3_changes(k->self->db);
    return s;
}

struct mending {
    struct care *k;
    dibs_status status;
};

static dibs_status block_lost(struct care *k, const dibs_claim *lost)
{
    dibs_status s = DIBS_OK;
    bool is_any_new = false;

    for (size_t i = 0; i < lost->n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = { .proto = lost->bindings[i].proto,
                                    .port = lost->port,
                                    .address = lost->bindings[i].address,
                                    .claim_id = lost->id };
        bool is_new = false;

        s = sqlite_block_slot(k->rows, &slot, k->now, &is_new, k->err);
        is_any_new = is_any_new || is_new;
    }
    if (s == DIBS_OK && is_any_new)
        s = set_aside(k, "slots", (int64_t) lost->id, "its claim is lost", "");
    return s == DIBS_OK && is_any_new ? note_event(k, lost) : s;
}

/* Claims carry their bindings, so that lost slots can be written again; a slot whose claim is lost cannot say
 * whose it was, and becomes a placeholder. */
static bool mend(void *ctx, enum ledger_flaw flaw, const struct row_claim *row)
{
    struct mending *m = ctx;

    switch (flaw) {
    case LEDGER_DAMAGED: break; /* beyond what is set aside at once */
    case LEDGER_UNGUARDED: m->status = put_slots(m->k->rows, row, m->k->err); break;
    case LEDGER_LOST: m->status = block_lost(m->k, &row->claim); break;
    }
    return m->status == DIBS_OK;
}

static dibs_status match_slots(struct care *k)
{
    struct mending m = { .k = k };
    dibs_status s = rows_flaws(k->rows, mend, &m, k->err);

    return s == DIBS_OK ? m.status : s;
}

/* Names follow from the claims that carry them. A name that leads elsewhere, or nowhere, is written anew;
 * where two claims have one name, the newer has it. */
static dibs_status match_names(struct care *k)
{
    return run_with(k,
                    "INSERT OR REPLACE INTO names(principal, name, claim, port, used_ms, project)"
                    " SELECT principal, name, id, port, changed_ms, project FROM claims AS c WHERE name<>'' "
                    "AND ?1 IS NOT NULL"
                    " AND NOT EXISTS (SELECT 1 FROM names AS n JOIN claims AS x ON x.id=n.claim"
                    " WHERE n.principal=c.principal AND n.name=c.name AND n.claim>=c.id AND n.port=x.port"
                    " AND x.principal=c.principal AND x.name=c.name) ORDER BY id",
                    k->now->wall_ms);
}

static dibs_status set_pool_aside(struct care *k, const char *name)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *drop = NULL;
    dibs_status s = set_aside(k, "pools", 0, "not readable", name);
    int rc = sqlite3_prepare_v2(k->self->db, "DELETE FROM pools WHERE name=?1", -1, &drop, NULL);

    if (s != DIBS_OK)
        return s;
    if (rc != SQLITE_OK)
        return sqlite_error(k->self, rc, "dropping a damaged pool", k->err);
    sqlite_bind_string(drop, 1, name);
    return sqlite_run(k->self, drop, "dropping a damaged pool", k->err);
}

static dibs_status quarantine_pools(struct care *k)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *list = NULL;
    int rc = sqlite3_prepare_v2(k->self->db, "SELECT name FROM pools", -1, &list, NULL);
    dibs_status s = DIBS_OK;

    while (rc == SQLITE_OK && s == DIBS_OK && sqlite3_step(list) == SQLITE_ROW) {
        char name[256] = "";
        dibs_pool pool;

        (void) text_copy(name, sizeof name, (const char *) sqlite3_column_text(list, 0));
        s = k->rows->ops->pool_get(k->rows, name, &pool, k->err);
        if (s == DIBS_NOT_FOUND)
            s = set_pool_aside(k, name);
    }
    return rc == SQLITE_OK ? s : sqlite_error(k->self, rc, "reading pools", k->err);
}

dibs_status sqlite_quarantine_rows(struct rows *rows, const struct instant *now, size_t *n, dibs_err *err)
{
    struct care k = { .self = (struct sqlite_rows *) rows, .rows = rows, .now = now, .err = err };
    dibs_status s = rows->ops->tail(rows, &k.seq, &k.cursor, err);

    if (s == DIBS_OK)
        s = quarantine_claims(&k);
    if (s == DIBS_OK)
        s = quarantine_slots(&k);
    if (s == DIBS_OK)
        s = match_slots(&k);
    if (s == DIBS_OK)
        s = match_names(&k);
    if (s == DIBS_OK)
        s = quarantine_pools(&k);
    if (s == DIBS_OK)
        *n = k.n;
    return s;
}
