/* SPDX-License-Identifier: MIT */
/* Placeholders: claims in the place of records that are damaged or lost.
 *
 * One keeps its port blocked until somebody with the right has looked and released it (INV-6, INV-10). It has
 * whatever is still known of its record, from the record itself, its slots and its name; who owned it, if
 * that is not known, cannot be anybody but a user of the ledger, and its file's owner answers for those. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

#define PLACEHOLDER_COMMAND "damaged record"

void sqlite_keeper_of(const char *path, const struct ledger_actor *actor, struct sqlite_keeper *out)
{
    struct stat st = { 0 };
    /* Our own uid as others see it: in a user namespace the file tells another number. */
    bool is_ours = stat(path, &st) != 0 || st.st_uid == geteuid();

    out->now = &actor->now;
    (void) snprintf(out->principal, sizeof out->principal, "uid:%u", is_ours ? actor->uid : st.st_uid);
}

void sqlite_become_placeholder(struct row_claim *row, const struct sqlite_keeper *keeper)
{
    dibs_claim *c = &row->claim;

    c->is_damaged = false;
    c->kind = DIBS_STATIC;
    c->is_exclusive = c->is_kept = true;
    c->holder = DIBS_HELD_BY_NOBODY;
    memset(&c->process, 0, sizeof c->process);
    c->lease_ttl_ms = c->lease_until_ms = 0;
    c->changed_ms = keeper->now->wall_ms;
    if (!c->principal[0])
        (void) text_copy(c->principal, sizeof c->principal, keeper->principal);
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

dibs_status sqlite_put_slots(struct rows *rows, const struct row_claim *row, dibs_err *err)
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

    return s == DIBS_OK ? sqlite_put_slots(rows, row, err) : s;
}

dibs_status sqlite_block_slot(struct rows *rows, const struct ledger_slot *slot,
                              const struct sqlite_keeper *keeper, bool *is_new, dibs_err *err)
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
        row.claim.created_ms = keeper->now->wall_ms;
        s = codec_secret(row.secret, err);
        if (s != DIBS_OK)
            return s;
    }
    sqlite_become_placeholder(&row, keeper);
    codec_add_binding(&row.claim, slot);
    s = sqlite_is_excluded(rows, &row.claim, &is_excluded, err);
    *is_new = *is_new && !is_excluded;
    return s == DIBS_OK && !is_excluded ? sqlite_put_with_slots(rows, &row, err) : s;
}

/* ---- names ---- */

static dibs_status run(struct sqlite_rows *self, const char *sql, dibs_err *err)
{
    int rc = sqlite3_exec(self->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? DIBS_OK : sqlite_error(self, rc, "mending its names", err);
}

static dibs_status name_placeholder(struct rows *rows, sqlite3_stmt *stmt, dibs_err *err)
{
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };
    struct row_claim row = { 0 };
    dibs_status s = rows->ops->claim_get(rows, (uint64_t) sqlite3_column_int64(stmt, 0), &row, err);

    if (s != DIBS_OK || row.claim.name[0]) /* two names: the one used last has it */
        return s;
    sqlite_read_string(&r, 1, row.claim.principal, DIBS_PRINCIPAL_MAX);
    sqlite_read_string(&r, 2, row.claim.name, DIBS_NAME_MAX);
    sqlite_read_string(&r, 3, row.claim.project, DIBS_PROJECT_MAX);
    return r.is_ok && codec_claim_valid(&row.claim, NULL) ? sqlite_put_claim(rows, &row, err) : DIBS_OK;
}

/* Whose a lost claim was, and what it was called, stands with its name. */
static dibs_status name_placeholders(struct rows *rows, dibs_err *err)
{
    struct sqlite_rows *self = (struct sqlite_rows *) rows;
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    /* Sorted, so that all is read before the first change. */
    int rc = sqlite3_prepare_v2(self->db,
                                "SELECT c.id, n.principal, n.name, n.project FROM names AS n JOIN claims AS c"
                                " ON c.id=n.claim AND c.port=n.port WHERE c.name=''"
                                " AND c.command='" PLACEHOLDER_COMMAND "' ORDER BY n.used_ms DESC",
                                -1, &stmt, NULL);
    dibs_status s = DIBS_OK;

    while (rc == SQLITE_OK && s == DIBS_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        s = name_placeholder(rows, stmt, err);
        rc = SQLITE_OK;
    }
    return rc == SQLITE_OK || rc == SQLITE_DONE ? s : sqlite_error(self, rc, "reading names", err);
}

dibs_status sqlite_match_names(struct rows *rows, dibs_err *err)
{
    struct sqlite_rows *self = (struct sqlite_rows *) rows;
    dibs_status s = name_placeholders(rows, err);

    if (s == DIBS_OK) /* where two claims have one name, the newer has it */
        s = run(self,
                "INSERT OR REPLACE INTO names(principal, name, claim, port, used_ms, project)"
                " SELECT principal, name, id, port, changed_ms, project FROM claims AS c WHERE name<>''"
                " AND NOT EXISTS (SELECT 1 FROM names AS n JOIN claims AS x ON x.id=n.claim"
                " WHERE n.principal=c.principal AND n.name=c.name AND n.claim>=c.id AND n.port=x.port"
                " AND x.principal=c.principal AND x.name=c.name) ORDER BY id",
                err);
    if (s == DIBS_OK)
        s = run(self,
                "UPDATE names SET claim=0 WHERE claim<>0 AND NOT EXISTS (SELECT 1 FROM claims AS c"
                " WHERE c.id=names.claim AND c.principal=names.principal AND c.name=names.name)",
                err);
    return s;
}
