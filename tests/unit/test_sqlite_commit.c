/* SPDX-License-Identifier: MIT */
/* A disk that fails while a change is being made durable: what can be known then, and what is said. */
#include "store/sqlite/sqlite_store.h"
#include "support/ledger.h"

static struct {
    sqlite3_vfs *real;
    sqlite3_io_methods methods; /* the log's, with a sync that may fail */
    bool is_failing;
} disk;

static int sync_log(sqlite3_file *file, int flags)
{
    (void) file;
    (void) flags;
    return disk.is_failing ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    int rc = disk.real->xOpen(vfs, name, file, flags, out);

    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_WAL)) {
        disk.methods = *file->pMethods;
        disk.methods.xSync = sync_log;
        file->pMethods = &disk.methods;
    }
    return rc;
}

static void a_request_that_may_have_been_recorded_is_reported_as_such(void **state)
{
    struct t_ledger *t = *state;
    const struct ledger_options options = { .timeout_ms = 1000 };
    struct ledger_want want = t_want("web", "*");
    dibs_claim got = { 0 };
    size_t n = 0;

    ledger_close(t->ledger);
    t->ledger = NULL;
    disk.real = sqlite3_vfs_find(NULL);
    sqlite3_vfs_find(sqlite_vfs())->xOpen = open_file;
    ASSERT_OK(ledger_open(t->uri, &options, &t->ledger, &t->err), &t->err);
    t_kept(&want); /* its commit is synced */
    disk.is_failing = true;
    assert_int_equal(t_claim(t, &want, 20000, &got), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_NONE); /* no reason to hand out another port */
    assert_non_null(strstr(t->err.msg, "not known whether this was recorded"));
    assert_non_null(strstr(t->err.msg, "dibs ls"));
    assert_non_null(strstr(t->err.msg, t->uri + strlen("sqlite:")));
    disk.is_failing = false;
    dibs_claim claim = t_must(t, &want, 20000); /* whichever it was, a repeated request by name is safe */
    struct ledger_seen seen = t_seen(&claim);
    ASSERT_OK(
        ledger_end(t->ledger, &t->call, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n, &t->err),
        &t->err);
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_that_may_have_been_recorded_is_reported_as_such, t_open,
                                        t_close),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
