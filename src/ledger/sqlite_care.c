/* SPDX-License-Identifier: MIT */
/* What to do with damaged records of a SQLite ledger: copied into the quarantine table, replaced by a
 * placeholder (sqlite_placeholder.c). */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "dibs/settings.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

enum { QUARANTINE_AT_ONCE = 1024, TEXT_SHOWN = 1100, BLOB_SHOWN = 256 };

struct care {
    struct sqlite_rows *self;
    struct rows *rows;
    const struct sqlite_keeper *keeper;
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
        .time_ms = k->keeper->now->wall_ms,
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
    (void) sqlite3_bind_int64(stmt, 1, k->keeper->now->wall_ms);
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

/* A placeholder has what is sound of its record; the names tell what is not (sqlite_match_names()). */
static dibs_status keep_name(struct care *k, int64_t id, dibs_claim *claim)
{
    struct row_name name = { 0 };
    dibs_status s = DIBS_NOT_FOUND;

    if (claim->principal[0] && claim->name[0] && dibs_name_check(claim->name, NULL) == DIBS_OK)
        s = k->rows->ops->name_get(k->rows, claim->principal, claim->name, &name, k->err);
    else
        claim->name[0] = '\0';
    if (s == DIBS_OK && name.claim_id != 0 && name.claim_id != (uint64_t) id)
        claim->name[0] = '\0'; /* it is another's */
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
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
        s = keep_name(k, id, &row->claim);
    if (s == DIBS_OK && id < 1)
        row->claim.id = k->seq + 1; /* no id that anything could name: a new one */
    if (s == DIBS_OK && is_known && memcmp(row->secret, none, sizeof none) == 0)
        s = codec_secret(row->secret, k->err);
    sqlite_become_placeholder(row, k->keeper);
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
    dibs_status s = run_with(k, sql, k->keeper->now->wall_ms);
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

/* A lost slot that is word for word that of a claim which is there blocks nothing more than the claim does:
 * its number alone was damaged. */
static dibs_status drop_double(struct care *k, const struct ledger_slot *slot, bool *is_dropped)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    dibs_status s = prepare(k,
                            "DELETE FROM slots WHERE proto=?1 AND port=?2 AND address=?3 AND claim=?4"
                            " AND EXISTS (SELECT 1 FROM slots AS s JOIN claims AS c ON c.id=s.claim"
                            " AND c.port=s.port WHERE s.proto=?1 AND s.port=?2 AND s.address=?3"
                            " AND s.claim<>?4 AND s.exclusive=1)",
                            &stmt);

    if (s != DIBS_OK)
        return s;
    (void) sqlite3_bind_int(stmt, 1, (int) slot->proto);
    (void) sqlite3_bind_int(stmt, 2, slot->port);
    (void) sqlite3_bind_blob(stmt, 3, slot->address.bytes, slot->address.len, SQLITE_STATIC);
    (void) sqlite3_bind_int64(stmt, 4, (int64_t) slot->claim_id);
    s = sqlite_run(k->self, stmt, "setting a damaged record aside", k->err);
    *is_dropped = s == DIBS_OK && sqlite3_changes(k->self->db) > 0;
    return *is_dropped
               ? set_aside(k, "slots", (int64_t) slot->claim_id, "another claim has this very port", "")
               : s;
}

static dibs_status block_lost(struct care *k, const dibs_claim *lost)
{
    dibs_status s = DIBS_OK;
    bool is_any_new = false;

    for (size_t i = 0; i < lost->n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = { .proto = lost->bindings[i].proto,
                                    .port = lost->port,
                                    .address = lost->bindings[i].address,
                                    .claim_id = lost->id };
        bool is_dropped = false;
        bool is_new = false;

        s = drop_double(k, &slot, &is_dropped);
        if (s == DIBS_OK && !is_dropped)
            s = sqlite_block_slot(k->rows, &slot, k->keeper, &is_new, k->err);
        is_any_new = is_any_new || is_new;
    }
    if (s == DIBS_OK && is_any_new)
        s = set_aside(k, "slots", (int64_t) lost->id, "its claim is lost", "");
    return s == DIBS_OK && is_any_new ? note_event(k, lost) : s;
}

/* Claims carry their bindings, so that lost slots can be written again; a slot whose claim is lost cannot say
 * whose it was, and becomes a placeholder. */
static bool mend(void *ctx, enum ledger_flaw flaw, const struct row_claim *row, uint64_t other)
{
    struct mending *m = ctx;

    (void) other;
    switch (flaw) {
    case LEDGER_DAMAGED: break; /* beyond what is set aside at once */
    case LEDGER_UNGUARDED: m->status = sqlite_put_slots(m->k->rows, row, m->k->err); break;
    case LEDGER_LOST: m->status = block_lost(m->k, &row->claim); break;
    case LEDGER_MISNAMED:
    case LEDGER_NAMESAKE:
    case LEDGER_CONFLICT: break; /* not told here */
    }
    return m->status == DIBS_OK;
}

static dibs_status match_slots(struct care *k)
{
    struct mending m = { .k = k };
    dibs_status s = rows_flaws(k->rows, mend, &m, k->err);

    return s == DIBS_OK ? m.status : s;
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

dibs_status sqlite_quarantine_rows(struct rows *rows, const struct ledger_actor *actor, size_t *n,
                                   dibs_err *err)
{
    struct sqlite_keeper keeper;
    struct care k = { .self = (struct sqlite_rows *) rows, .rows = rows, .keeper = &keeper, .err = err };
    dibs_status s = rows->ops->tail(rows, &k.seq, &k.cursor, err);

    sqlite_keeper_of(k.self->path, actor, &keeper);
    if (s == DIBS_OK)
        s = quarantine_claims(&k);
    if (s == DIBS_OK)
        s = quarantine_slots(&k);
    if (s == DIBS_OK)
        s = match_slots(&k);
    if (s == DIBS_OK &&
        k.n < QUARANTINE_AT_ONCE) /* else there may be more, which need the names as they are */
        s = sqlite_match_names(rows, err);
    if (s == DIBS_OK)
        s = quarantine_pools(&k);
    if (s == DIBS_OK && !sqlite_has_guards(k.self->db))
        s = sqlite_restore_guards(k.self, err);
    sqlite_tidy(k.self);
    if (s == DIBS_OK)
        *n = k.n;
    return s;
}
