/* SPDX-License-Identifier: MIT */
/* Any values in a claims row: it is loaded as a valid claim or as a damaged one that keeps its port, and what
 * was loaded can be shown. Each column takes a byte that chooses its type, and bytes for its value. */
#include <stdlib.h>
#include <string.h>

#include "store/sqlite/sqlite_store.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t left;
};

static size_t take(struct input *in, void *out, size_t n)
{
    n = n < in->left ? n : in->left;
    if (n)
        memcpy(out, in->data, n);
    in->data += n;
    in->left -= n;
    return n;
}

static void bind_any(struct input *in, sqlite3_stmt *stmt, int at)
{
    uint8_t type = 0;
    uint8_t length = 0;
    int64_t number = 0;
    char bytes[2048] = "";
    size_t n = 0;

    (void) take(in, &type, 1);
    switch (type % 6) {
    case 0: (void) sqlite3_bind_null(stmt, at); return;
    case 1:
        (void) take(in, &number, sizeof number);
        (void) sqlite3_bind_int64(stmt, at, number);
        return;
    case 2: /* small: what most columns hold */
        (void) take(in, &number, 2);
        (void) sqlite3_bind_int64(stmt, at, number);
        return;
    case 3: (void) sqlite3_bind_double(stmt, at, 1.5); return;
    default: break;
    }
    (void) take(in, &length, 1);
    /* Every short length, and some that are longer than any column may be. */
    n = take(in, bytes, length < 200 ? length : (size_t) (length - 199) * 25);
    if (type % 6 == 4)
        (void) sqlite3_bind_text(stmt, at, bytes, (int) n, SQLITE_TRANSIENT);
    else
        (void) sqlite3_bind_blob(stmt, at, bytes, (int) n, SQLITE_TRANSIENT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static sqlite3 *db;
    static sqlite3_stmt *insert, *select;
    struct input in = { data, size };
    struct claim_record row;

    if (!db) { /* no types, no checks: the file of somebody who means harm */
        CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
        CHECK(sqlite3_exec(
                  db,
                  "CREATE TABLE claims(id, generation, secret, port, kind, exclusive, kept, holder, boot_id,"
                  " pidns, pid, start_ticks, ttl_ms, until_ms, uid, netns, created_ms, changed_ms, bindings,"
                  " principal, name, pool, command, project, env, keeper, run, hold, as_port)",
                  NULL, NULL, NULL) == SQLITE_OK);
        CHECK(sqlite3_prepare_v2(db, sqlite_sql_text[SQL_CLAIM_PUT], -1, &insert, NULL) == SQLITE_OK);
        char text[1024] = "";
        size_t n =
            (size_t) (strstr(sqlite_sql_text[SQL_CLAIM_GET], " WHERE") - sqlite_sql_text[SQL_CLAIM_GET]);
        CHECK(n < sizeof text);
        memcpy(text, sqlite_sql_text[SQL_CLAIM_GET], n);
        CHECK(sqlite3_prepare_v2(db, text, -1, &select, NULL) == SQLITE_OK);
    }
    CHECK(sqlite3_exec(db, "DELETE FROM claims", NULL, NULL, NULL) == SQLITE_OK);
    for (int i = 1; i <= sqlite3_bind_parameter_count(insert); i++)
        bind_any(&in, insert, i);
    CHECK(sqlite3_step(insert) == SQLITE_DONE);
    (void) sqlite3_reset(insert);
    CHECK(sqlite3_step(select) == SQLITE_ROW);
    memset(&row, 0xa5, sizeof row);
    sqlite_load_claim(select, &row);
    (void) sqlite3_reset(select);
    const dibs_claim *c = &row.claim;
    CHECK(c->n_bindings <= DIBS_BINDINGS_MAX);
    CHECK(strlen(c->principal) <= DIBS_PRINCIPAL_MAX && strlen(c->name) <= DIBS_NAME_MAX);
    CHECK(strlen(c->pool) <= DIBS_POOL_NAME_MAX && strlen(c->command) <= DIBS_COMMAND_MAX);
    CHECK(strlen(c->project) <= DIBS_PROJECT_MAX && strlen(c->process.boot_id) <= DIBS_BOOT_ID_MAX);
    if (row.claim.is_damaged)
        CHECK(c->is_exclusive && c->is_kept && c->holder == DIBS_HELD_BY_NOBODY);
    else
        CHECK(record_claim_valid(c, NULL));
    return 0;
}
