/* SPDX-License-Identifier: MIT */
/* The claims of a SQLite ledger. What comes back is checked column by column: a damaged record is flagged and
 * keeps its port (INV-6, INV-10). */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

void sqlite_load_claim(sqlite3_stmt *stmt, struct row_claim *row)
{
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };
    dibs_claim *c = &row->claim;
    const void *blob = NULL;
    size_t n = 0;

    memset(row, 0, sizeof *row);
    c->id = (uint64_t) sqlite_read_number(&r, 0, 1, INT64_MAX);
    c->generation = (uint64_t) sqlite_read_number(&r, 1, 1, INT64_MAX);
    sqlite_read_bytes(&r, 2, &blob, &n);
    if (n == ROWS_SECRET_BYTES)
        memcpy(row->secret, blob, n);
    r.is_ok = r.is_ok && n == ROWS_SECRET_BYTES;
    c->port = (uint16_t) sqlite_read_number(&r, 3, 1, DIBS_PORT_MAX);
    c->kind = (dibs_kind) sqlite_read_number(&r, 4, 0, 1);
    c->is_exclusive = sqlite_read_number(&r, 5, 0, 1) != 0;
    c->is_kept = sqlite_read_number(&r, 6, 0, 1) != 0;
    c->holder = (dibs_holder) sqlite_read_number(&r, 7, 0, 2);
    sqlite_read_string(&r, 8, c->process.boot_id, DIBS_BOOT_ID_MAX);
    c->process.pidns = (uint64_t) sqlite_read_number(&r, 9, INT64_MIN, INT64_MAX);
    c->process.pid = (int32_t) sqlite_read_number(&r, 10, 0, INT32_MAX);
    c->process.start_ticks = (uint64_t) sqlite_read_number(&r, 11, INT64_MIN, INT64_MAX);
    c->lease_ttl_ms = sqlite_read_number(&r, 12, 0, DIBS_TTL_MAX_MS);
    c->lease_until_ms = sqlite_read_number(&r, 13, INT64_MIN, INT64_MAX);
    c->uid = (uint32_t) sqlite_read_number(&r, 14, 0, UINT32_MAX);
    c->netns = (uint64_t) sqlite_read_number(&r, 15, INT64_MIN, INT64_MAX);
    c->created_ms = sqlite_read_number(&r, 16, INT64_MIN, INT64_MAX);
    c->changed_ms = sqlite_read_number(&r, 17, INT64_MIN, INT64_MAX);
    sqlite_read_bytes(&r, 18, &blob, &n);
    r.is_ok = codec_bindings_unpack(blob, n, c) && r.is_ok;
    sqlite_read_string(&r, 19, c->principal, DIBS_PRINCIPAL_MAX);
    sqlite_read_string(&r, 20, c->name, DIBS_NAME_MAX);
    sqlite_read_string(&r, 21, c->pool, DIBS_POOL_NAME_MAX);
    sqlite_read_string(&r, 22, c->command, DIBS_COMMAND_MAX);
    sqlite_read_string(&r, 23, c->project, DIBS_PROJECT_MAX);
    if (r.is_ok && codec_claim_valid(c, NULL))
        return;
    /* It keeps its port, and nobody's death or lease can end it before somebody has looked. */
    row->claim.is_damaged = true;
    c->is_exclusive = c->is_kept = true;
    c->holder = DIBS_HELD_BY_NOBODY;
}

dibs_status sqlite_find_place(struct sqlite_rows *self, sqlite3_stmt *stmt, dibs_claim *claim, dibs_err *err)
{
    AUTO(sqlite_reset_auto) sqlite3_stmt *slots = NULL;
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };
    struct ledger_slot slot;
    const void *bindings = NULL;
    size_t n = 0;
    int rc = SQLITE_DONE;

    claim->port = (uint16_t) sqlite_read_number(&r, 3, 1, DIBS_PORT_MAX);
    if (!r.is_ok)
        claim->port = 0;
    sqlite_read_bytes(&r, 18, &bindings, &n);
    if (codec_bindings_unpack(bindings, n, claim) && claim->port)
        return DIBS_OK;
    claim->n_bindings = 0;
    slots = sqlite_stmt(self, SQL_SLOTS_OF_CLAIM, err);
    if (!slots)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(slots, 1, sqlite3_column_int64(stmt, 0));
    while ((rc = sqlite3_step(slots)) == SQLITE_ROW) {
        if (!sqlite_load_slot(slots, &slot))
            continue;
        claim->port = claim->port ? claim->port : slot.port;
        if (slot.port == claim->port)
            codec_add_binding(claim, &slot);
    }
    if (rc != SQLITE_DONE)
        return sqlite_error(self, rc, "reading ports", err);
    /* Which address is lost: every one, of the two usual protocols. */
    bool is_anywhere = claim->port && claim->n_bindings == 0;
    for (dibs_proto proto = DIBS_TCP; is_anywhere && proto <= DIBS_UDP; proto++)
        codec_add_binding(claim, &(struct ledger_slot){ .proto = proto, .address.len = 16 });
    return DIBS_OK;
}

dibs_status sqlite_rows_claim_get(struct rows *rows, uint64_t id, struct row_claim *out, dibs_err *err)
{
    struct sqlite_rows *self = (struct sqlite_rows *) rows;
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_CLAIM_GET, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 1, (int64_t) id);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE)
        return DIBS_NOT_FOUND;
    if (rc != SQLITE_ROW)
        return sqlite_error(self, rc, "reading a claim", err);
    sqlite_load_claim(stmt, out);
    return out->claim.is_damaged ? sqlite_find_place(self, stmt, &out->claim, err) : DIBS_OK;
}

dibs_status sqlite_put_claim(struct rows *rows, const struct row_claim *row, dibs_err *err)
{
    struct sqlite_rows *self = (struct sqlite_rows *) rows;
    sqlite3_stmt *stmt = sqlite_stmt(self, SQL_CLAIM_PUT, err);
    const dibs_claim *c = &row->claim;
    uint8_t bindings[CODEC_BINDINGS_BYTES_MAX];

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 1, (int64_t) c->id);
    sqlite_bind_number(stmt, 2, (int64_t) c->generation);
    (void) sqlite3_bind_blob(stmt, 3, row->secret, ROWS_SECRET_BYTES, SQLITE_STATIC);
    sqlite_bind_number(stmt, 4, c->port);
    sqlite_bind_number(stmt, 5, c->kind);
    sqlite_bind_number(stmt, 6, c->is_exclusive);
    sqlite_bind_number(stmt, 7, c->is_kept);
    sqlite_bind_number(stmt, 8, c->holder);
    sqlite_bind_string(stmt, 9, c->process.boot_id);
    sqlite_bind_number(stmt, 10, (int64_t) c->process.pidns);
    sqlite_bind_number(stmt, 11, c->process.pid);
    sqlite_bind_number(stmt, 12, (int64_t) c->process.start_ticks);
    sqlite_bind_number(stmt, 13, c->lease_ttl_ms);
    sqlite_bind_number(stmt, 14, c->lease_until_ms);
    sqlite_bind_number(stmt, 15, c->uid);
    sqlite_bind_number(stmt, 16, (int64_t) c->netns);
    sqlite_bind_number(stmt, 17, c->created_ms);
    sqlite_bind_number(stmt, 18, c->changed_ms);
    (void) sqlite3_bind_blob(stmt, 19, bindings, (int) codec_bindings_pack(c, bindings), SQLITE_STATIC);
    sqlite_bind_string(stmt, 20, c->principal);
    sqlite_bind_string(stmt, 21, c->name);
    sqlite_bind_string(stmt, 22, c->pool);
    sqlite_bind_string(stmt, 23, c->command);
    sqlite_bind_string(stmt, 24, c->project);
    dibs_status s = sqlite_run(self, stmt, "writing a claim", err);
    (void) sqlite3_clear_bindings(stmt); /* they point into our frame */
    return s;
}

dibs_status sqlite_rows_claim_delete(struct rows *rows, uint64_t id, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt((struct sqlite_rows *) rows, SQL_CLAIM_DELETE, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 1, (int64_t) id);
    return sqlite_run((struct sqlite_rows *) rows, stmt, "removing a claim", err);
}

dibs_status sqlite_rows_claims(struct rows *rows, const struct ledger_filter *filter, row_claim_fn fn,
                               void *ctx, dibs_err *err)
{
    struct sqlite_rows *self = (struct sqlite_rows *) rows;
    enum sqlite_sql which = filter->principal && filter->project ? SQL_CLAIMS_OF_PROJECT
                            : filter->principal                  ? SQL_CLAIMS_OF_PRINCIPAL
                            : filter->pool                       ? SQL_CLAIMS_OF_POOL
                                                                 : SQL_CLAIMS;
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, which, err);
    int rc = SQLITE_DONE;
    struct row_claim row;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 1, (int64_t) filter->after_id);
    if (which != SQL_CLAIMS)
        sqlite_bind_string(stmt, 2, filter->principal ? filter->principal : filter->pool);
    if (which == SQL_CLAIMS_OF_PROJECT)
        sqlite_bind_string(stmt, 3, filter->project);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        sqlite_load_claim(stmt, &row);
        dibs_status s = row.claim.is_damaged ? sqlite_find_place(self, stmt, &row.claim, err) : DIBS_OK;
        if (s != DIBS_OK || !fn(ctx, &row))
            return s;
    }
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "listing claims", err);
}
