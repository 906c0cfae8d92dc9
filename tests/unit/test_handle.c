/* SPDX-License-Identifier: MIT */
/* The owner of a handle, and how long it is degraded. */
#include "dibs/dibs.h"
#include "ledger/step.h"
#include "lib/connection.h"
#include "store/sqlite/sqlite_store.h"
#include "support/core.h"

static dibs *open_dibs(struct engine *e)
{
    dibs *handle = NULL;

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    return handle;
}

struct used {
    dibs *handle;
    size_t n_called;
    size_t n_refused;
};

static void use(struct used *u)
{
    dibs_claim out = { 0 };
    dibs_err err = { 0 };

    u->n_called++;
    u->n_refused += dibs_claim_find(u->handle, &(dibs_which){ .name = "web" }, &out, &err) == DIBS_INVALID &&
                    strstr(err.msg, "callback");
}

static bool on_claim(void *ctx, const dibs_claim *claim)
{
    (void) claim;
    use(ctx);
    return true;
}

static bool on_event(void *ctx, const dibs_event *event)
{
    (void) event;
    use(ctx);
    return true;
}

static bool on_pool(void *ctx, const dibs_pool *pool)
{
    (void) pool;
    use(ctx);
    return true;
}

static bool on_item(void *ctx, const dibs_repair_item *item)
{
    (void) item;
    use(ctx);
    return true;
}

static void a_callback_cannot_use_the_handle_that_calls_it(void **state)
{
    struct engine *e = *state;
    dibs_request kept = e_kept("web", "127.0.0.1");
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request held = e_held(NULL, "127.0.0.1", pid);
    const dibs_repair_plan plan = { .observed = &(dibs_observed){ .port = 1 }, .n = 0 };
    dibs_claim out = { 0 };
    struct used u = { .handle = open_dibs(e) };

    ASSERT_OK(dibs_claim_ports(u.handle, &(dibs_batch){ .requests = &kept, .n = 1 }, &out, &e->err), &e->err);
    ASSERT_OK(dibs_claim_ports(u.handle, &(dibs_batch){ .requests = &held, .n = 1 }, &out, &e->err), &e->err);
    child_end(pid);
    ASSERT_OK(dibs_claim_list(u.handle, &(dibs_filter){ 0 }, on_claim, &u, &e->err), &e->err);
    assert_int_equal(u.n_called, 2);
    ASSERT_OK(dibs_event_list(u.handle, &(dibs_event_query){ 0 }, on_event, &u, &e->err), &e->err);
    assert_int_equal(u.n_called, 4);
    ASSERT_OK(dibs_pool_list(u.handle, on_pool, &u, &e->err), &e->err);
    assert_int_equal(u.n_called, 5);
    ASSERT_OK(dibs_reap(u.handle, 0, on_claim, &u, NULL, &e->err), &e->err);
    assert_int_equal(u.n_called, 6);
    ASSERT_OK(dibs_repair(u.handle, &plan, on_item, &u, &e->err), &e->err); /* nothing observed: a suspect */
    assert_int_equal(u.n_called, 7);
    assert_int_equal(u.n_refused, u.n_called);
    ASSERT_OK(dibs_claim_find(u.handle, &(dibs_which){ .name = "web" }, &out, &e->err), &e->err);
    dibs_close(u.handle);
}

static int in_a_child(void *arg)
{
    dibs *handle = arg;
    dibs_claim out = { 0 };
    dibs_err err = { 0 };
    dibs_request r = e_kept("api", "127.0.0.1");

    CHECK(dibs_claim_find(handle, &(dibs_which){ .name = "web" }, &out, &err) == DIBS_INVALID);
    CHECK(strstr(err.msg, "fork"));
    CHECK(dibs_claim_ports(handle, &(dibs_batch){ .requests = &r, .n = 1 }, &out, &err) == DIBS_INVALID);
    CHECK(dibs_claim_release(handle, &(dibs_which){ .name = "web" }, 0, NULL, &err) == DIBS_INVALID);
    dibs_close(handle); /* the parent's connection stays as it is */
    return 0;
}

static void a_handle_is_its_own_process_alone(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("web", "127.0.0.1");
    dibs_claim first = { 0 };
    dibs_claim again = { 0 };
    const dibs_batch batch = { .requests = &r, .n = 1 };
    dibs *handle = open_dibs(e);

    ASSERT_OK(dibs_claim_ports(handle, &batch, &first, &e->err), &e->err);
    assert_int_equal(child_run(in_a_child, handle), 0);
    ASSERT_OK(dibs_claim_ports(handle, &batch, &again, &e->err), &e->err);
    assert_int_equal(again.id, first.id);
    assert_int_equal(e_count(e, NULL), 1);
    dibs_close(handle);
}

/* Pages that the handle's own connection may use, as on a disk with so much free space. */
static void room_for(dibs *handle, const char *pages)
{
    const struct sqlite_store *rows = (const struct sqlite_store *) handle_ledger(handle)->store;
    char sql[64];

    (void) snprintf(sql, sizeof sql, "PRAGMA max_page_count=%s", pages);
    assert_int_equal(sqlite3_exec(rows->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void a_handle_is_degraded_only_while_its_ledger_is_full(void **state)
{
    enum { CLAIMS_MAX = 1000 };
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    const dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim out = { 0 };
    size_t n = 0;

    need_network();
    e->settings.ledger_mode = DIBS_LEDGER_FALLBACK;
    dibs *handle = open_dibs(e);
    room_for(handle, "1"); /* no more than it has */
    for (; n < CLAIMS_MAX && !out.is_degraded; n++)
        ASSERT_OK(dibs_claim_ports(handle, &batch, &out, &e->err), &e->err);
    assert_true(out.is_degraded);
    assert_true(dibs_is_degraded(handle, NULL, 0));
    room_for(handle, "1000000");
    ASSERT_OK(dibs_claim_ports(handle, &batch, &out, &e->err), &e->err);
    assert_false(out.is_degraded);
    assert_false(dibs_is_degraded(handle, NULL, 0));
    assert_int_equal(e_count(e, NULL), n);
    dibs_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_callback_cannot_use_the_handle_that_calls_it),
        E_TEST(a_handle_is_its_own_process_alone),
        E_TEST(a_handle_is_degraded_only_while_its_ledger_is_full),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
