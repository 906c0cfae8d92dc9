/* SPDX-License-Identifier: MIT */
/* Requests, pools, questions, observations and snapshots with values that cannot be: INVALID, and nothing is
 * changed. */
#include "support/misuse.h"

static void requests_out_of_range_are_refused_and_nothing_is_claimed(void **state)
{
    struct right *r = *state;
    const dibs_request good = r->request;
    dibs_ranges ranges = { .item = { { 26000, 26010 } }, .n = 1 };
    dibs_claim out[2];

    FILL(out);
#define SPOILT(change)                                                  \
    do {                                                                \
        r->request = good;                                              \
        ranges = (dibs_ranges){ .item = { { 26000, 26010 } }, .n = 1 }; \
        r->request.ranges = &ranges;                                    \
        change;                                                         \
        REFUSED(dibs_claim_ports(r->handle, &r->batch, out, &err));     \
    } while (0)
    SPOILT(ranges.n = 0);
    SPOILT(ranges.n = SIZE_MAX);
    SPOILT(ranges.item[0].first = 0);
    SPOILT(ranges.item[0].last = 1);
    SPOILT((ranges.n = 2, ranges.item[1] = ranges.item[0]));
    SPOILT(r->request.mode = BEYOND(dibs_mode));
    SPOILT(r->request.holder = BEYOND(dibs_holder));
    SPOILT((r->request.holder = DIBS_HELD_BY_LEASE, r->request.ttl_ms = 0));
    SPOILT((r->request.holder = DIBS_HELD_BY_LEASE, r->request.ttl_ms = INT64_MAX));
    SPOILT((r->request.holder = DIBS_HELD_BY_PROCESS, r->request.pid = -1));
    SPOILT(r->request.keep = false); /* neither held nor kept */
    SPOILT(r->request.name = "8080");
    SPOILT(r->request.n_bindings = SIZE_MAX);
    SPOILT(r->request.bindings[0].proto = BEYOND(dibs_proto));
    SPOILT(r->request.bindings[0].address.len = 5);
    SPOILT(r->request.bindings[0].address.v6only = true);
#undef SPOILT
    r->request = good;
    REFUSED(
        dibs_claim_ports(r->handle, &(dibs_batch){ .requests = &good, .n = DIBS_BATCH_MAX + 1 }, out, &err));
    REFUSED(dibs_claim_ports(r->handle, &(dibs_batch){ .requests = &good, .n = SIZE_MAX }, out, &err));
    REFUSED(dibs_claim_ports(r->handle, &(dibs_batch){ .requests = &good, .n = 1, .align = 2 }, out, &err));
    REFUSED(dibs_claim_ports(
        r->handle, &(dibs_batch){ .requests = &good, .n = 1, .is_contiguous = true, .align = UINT32_MAX },
        out, &err));
    /* The second fails after the first was decided. */
    dibs_request two[2] = { good, good };
    two[1].name = "shop/other";
    two[1].mode = DIBS_REQUIRED;
    two[1].port = r->claim.port;
    assert_int_equal(dibs_claim_ports(r->handle, &(dibs_batch){ .requests = two, .n = 2 }, out, &r->e->err),
                     DIBS_TAKEN);
    STAYS(out);
    assert_int_equal(e_count(r->e, NULL), 1);
}

static void wrong_values_change_no_stored_record(void **state)
{
    struct right *r = *state;
    dibs_which which = { .port = r->claim.port, .proto = BEYOND(dibs_proto) };
    dibs_claim out;
    dibs_socket socket;
    size_t n = 7;

    FILL(out);
    FILL(socket);
    REFUSED(dibs_claim_release(r->handle, &which, 0, &n, &err));
    REFUSED(dibs_claim_release(r->handle, &r->which, 1u << 9, &n, &err));
    REFUSED(dibs_claim_renew(r->handle, &which, 1000, &out, &err));
    REFUSED(dibs_claim_renew(r->handle, &r->which, 0, &out, &err));
    REFUSED(dibs_claim_renew(r->handle, &r->which, INT64_MAX, &out, &err));
    REFUSED(dibs_claim_renew(r->handle, &r->which, 1000, &out, &err)); /* no lease holds it */
    REFUSED(dibs_claim_find(r->handle, &which, &out, &err));
    REFUSED(dibs_claim_assert(r->handle, &which, &socket, &err));
    REFUSED(dibs_claim_transfer(r->handle, &which, &(dibs_heir){ .keep = true }, &out, &err));
    REFUSED(dibs_claim_transfer(r->handle, &r->which, &(dibs_heir){ 0 }, &out, &err));
    REFUSED(
        dibs_claim_transfer(r->handle, &r->which, &(dibs_heir){ .holder = BEYOND(dibs_holder) }, &out, &err));
    REFUSED(
        dibs_claim_transfer(r->handle, &r->which, &(dibs_heir){ .holder = DIBS_HELD_BY_LEASE }, &out, &err));
    REFUSED(dibs_claim_transfer(
        r->handle, &r->which, &(dibs_heir){ .holder = DIBS_HELD_BY_LEASE, .ttl_ms = INT64_MAX }, &out, &err));
    REFUSED(dibs_claim_transfer(r->handle, &r->which,
                                &(dibs_heir){ .holder = DIBS_HELD_BY_PROCESS, .pid = -7 }, &out, &err));
    REFUSED(dibs_claim_list(r->handle, &(dibs_filter){ .proto = BEYOND(dibs_proto) }, any_claim, NULL, &err));
    REFUSED(dibs_reap(r->handle, 1u << 9, NULL, NULL, &n, &err));
    STAYS(out);
    STAYS(socket);
    assert_int_equal(n, 7);
    ASSERT_OK(dibs_claim_find(r->handle, &r->which, &out, &r->e->err), &r->e->err);
    assert_int_equal(out.generation, r->claim.generation);
}

static void only_the_first_member_of_which_selects(void **state)
{
    struct right *r = *state;
    const dibs_which more[] = { { .token = "7.1.00", .all_mine = true },
                                { .name = "shop/other", .port = r->claim.port, .all_mine = true },
                                { .port = (uint16_t) (r->claim.port - 1), .all_mine = true } };
    size_t n = 7;

    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        ASSERT_OK(dibs_claim_release(r->handle, &more[i], 0, &n, &r->e->err), &r->e->err);
        assert_int_equal(n, 0);
    }
    assert_int_equal(e_count(r->e, NULL), 1);
}

static void pools_out_of_range_are_refused(void **state)
{
    struct right *r = *state;
    const dibs_pool good = r->pool;
    dibs_pool pool;

#define SPOILT(change)                                                                                    \
    do {                                                                                                  \
        pool = good;                                                                                      \
        change;                                                                                           \
        REFUSED(dibs_pool_put(r->handle, &pool, &err));                                                   \
        REFUSED(                                                                                          \
            dibs_claim_restore(r->handle, &(dibs_snapshot){ .pools = &pool, .n_pools = 1 }, NULL, &err)); \
    } while (0)
    SPOILT(memset(pool.name, 'x', sizeof pool.name));
    SPOILT(pool.name[0] = '\0');
    SPOILT(pool.ranges.n = 0);
    SPOILT(pool.ranges.n = SIZE_MAX);
    SPOILT(pool.ranges.item[0].first = 0);
    SPOILT(pool.ranges.item[0].last = 7);
    SPOILT(pool.scope = BEYOND(dibs_scope));
    SPOILT(pool.band = -7);
    SPOILT(pool.band = 100);
    SPOILT(pool.cooldown_ms = -1);
    SPOILT(pool.cooldown_ms = INT64_MAX);
    SPOILT(memset(pool.order, 'x', sizeof pool.order));
    SPOILT(pool.order[0] = '\0');
#undef SPOILT
    FILL(pool);
    assert_int_equal(dibs_pool_get(r->handle, "p", &pool, NULL), DIBS_NOT_FOUND);
    STAYS(pool);
}

static void an_error_shows_an_unterminated_text_up_to_its_end(void **state)
{
    struct right *r = *state;
    dibs_pool pool = r->pool;
    dibs_err err = { 0 };

    memset(pool.order, 'x', sizeof pool.order);
    assert_int_equal(dibs_pool_put(r->handle, &pool, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "xxx' is not known"));
    memset(pool.name, 'x', sizeof pool.name);
    assert_int_equal(dibs_pool_put(r->handle, &pool, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "xxx': 1 to"));
}

static void questions_and_observations_out_of_range_are_refused(void **state)
{
    struct right *r = *state;
    dibs_binding bindings[DIBS_BINDINGS_MAX] = { r->claim.bindings[0] };
    dibs_port_question question = { .port = 0, .bindings = bindings, .n = 1 };
    dibs_repair_plan plan = { .observed = &r->observed, .n = 1, .is_dry_run = true };
    const dibs_observed good = r->observed;
    dibs_port_report *report = malloc(sizeof *report);

    assert_non_null(report);
    FILL(*report);
    REFUSED(dibs_port_explain(r->handle, &question, report, &err));
    question.port = 26001;
    question.n = SIZE_MAX;
    REFUSED(dibs_port_explain(r->handle, &question, report, &err));
    question.n = 1;
    bindings[0].proto = BEYOND(dibs_proto);
    REFUSED(dibs_port_explain(r->handle, &question, report, &err));
    question.bindings = NULL;
    REFUSED(dibs_port_explain(r->handle, &question, report, &err));
    question.n = 0;
    question.pool = "none";
    assert_int_equal(dibs_port_explain(r->handle, &question, report, NULL), DIBS_NOT_FOUND);
    STAYS(*report);
    free(report);
#define SPOILT(change)                                                \
    do {                                                              \
        r->observed = good;                                           \
        change;                                                       \
        REFUSED(dibs_repair(r->handle, &plan, any_item, NULL, &err)); \
    } while (0)
    SPOILT(r->observed.port = 0);
    SPOILT(r->observed.binding.proto = BEYOND(dibs_proto));
    SPOILT(r->observed.binding.address.len = 99);
    SPOILT(memset(r->observed.name, 'x', sizeof r->observed.name));
    SPOILT(memcpy(r->observed.name, "a b", 4));
#undef SPOILT
    plan.n = SIZE_MAX;
    REFUSED(dibs_repair(r->handle, &plan, any_item, NULL, &err));
}

static void claims_that_cannot_be_are_not_restored(void **state)
{
    struct right *r = *state;
    dibs_claim good = r->claim;
    dibs_claim claim;
    dibs_snapshot snapshot = { .claims = &claim, .n = 1 };
    size_t n = 7;

    (void) snprintf(good.name, sizeof good.name, "shop/other");
    good.port = 26003;
    good.token[0] = '\0';
#define SPOILT(change)                                               \
    do {                                                             \
        claim = good;                                                \
        change;                                                      \
        REFUSED(dibs_claim_restore(r->handle, &snapshot, &n, &err)); \
    } while (0)
    SPOILT(claim.port = 0);
    SPOILT(claim.n_bindings = 0);
    SPOILT(claim.n_bindings = SIZE_MAX);
    SPOILT(claim.bindings[0].proto = BEYOND(dibs_proto));
    SPOILT(claim.bindings[0].address.len = 99);
    SPOILT(claim.bindings[0].address.v6only = true);
    SPOILT(claim.kind = BEYOND(dibs_kind));
    SPOILT((claim.holder = BEYOND(dibs_holder),
            memcpy(claim.process.boot_id, r->e->core->view.boot_id, sizeof claim.process.boot_id)));
    SPOILT((claim.holder = DIBS_HELD_BY_LEASE, claim.lease_ttl_ms = INT64_MAX,
            memcpy(claim.process.boot_id, r->e->core->view.boot_id, sizeof claim.process.boot_id)));
    SPOILT((claim.holder = DIBS_HELD_BY_PROCESS, claim.process.pid = 0,
            memcpy(claim.process.boot_id, r->e->core->view.boot_id, sizeof claim.process.boot_id)));
    SPOILT(memset(claim.name, 'x', sizeof claim.name));
    SPOILT(memcpy(claim.name, "a b", 4));
    SPOILT(memset(claim.principal, 'x', sizeof claim.principal));
    SPOILT(memset(claim.pool, 'x', sizeof claim.pool));
    SPOILT(memset(claim.command, 'x', sizeof claim.command));
    SPOILT(memset(claim.project, 'x', sizeof claim.project));
    SPOILT(memset(claim.process.boot_id, 'x', sizeof claim.process.boot_id));
#undef SPOILT
    snapshot.n = SIZE_MAX;
    REFUSED(dibs_claim_restore(r->handle, &snapshot, &n, &err));
    assert_int_equal(n, 7);
    snapshot.n = 1;
    claim = good;
    ASSERT_OK(dibs_claim_restore(r->handle, &snapshot, &n, &r->e->err), &r->e->err);
    assert_int_equal(n, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, misuse_setup, misuse_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(requests_out_of_range_are_refused_and_nothing_is_claimed),
        CASE(wrong_values_change_no_stored_record),
        CASE(only_the_first_member_of_which_selects),
        CASE(pools_out_of_range_are_refused),
        CASE(an_error_shows_an_unterminated_text_up_to_its_end),
        CASE(questions_and_observations_out_of_range_are_refused),
        CASE(claims_that_cannot_be_are_not_restored),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
