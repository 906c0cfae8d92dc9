/* SPDX-License-Identifier: MIT */
/* A pod that starts after a sync has looked who runs, and before it changes anything. */
#include "support/child.h"
#include "support/workload.h"

#define OWN "shop/web/0/-/first"
#define SHARED "shop/web/-/-/second"

/* The events around each read of a sync. */
static struct {
    struct world *w;
    int n_looks;
    bool starts; /* the pod does, after the first look */
    bool blinks; /* ... after each, and ends before the next */
} moment;

static dibs_status look_at_a_bad_moment(dibs *handle, const dibs_filter *filter,
                                        bool (*fn)(void *, const dibs_claim *), void *ctx, dibs_err *err)
{
    if (moment.blinks && moment.n_looks > 0)
        let_go(moment.w, OWN);
    dibs_status s = dibs_claim_list(handle, filter, fn, ctx, err);

    if (moment.blinks || (moment.starts && moment.n_looks == 0))
        hold(moment.w, OWN);
    moment.n_looks++;
    return s;
}

/* The real thing, with that moment in it; the library's own is not linked then. */
#define dibs_claim_list look_at_a_bad_moment
#include "../../src/workload/present.c" // NOLINT(bugprone-suspicious-include)
#undef dibs_claim_list

/* Role web with a port of each pod and one that they share, which has this number. */
static struct workload_port *shared_port(struct world *w, uint16_t number)
{
    struct workload_port *ports = add_role(w->group, "web", 1, 2)->components[0].ports;

    ports[1].scope = WORKLOAD_ROLE_SCOPED;
    must_be(&ports[1], number);
    moment.w = w;
    moment.starts = moment.blinks = false;
    sync_on(w);
    moment.n_looks = 0;
    return &ports[1];
}

static void a_shared_port_is_not_dropped_when_a_pod_starts_at_that_moment(void **state) /* INV-5 */
{
    struct world *w = *state;
    struct workload_plan plan = { 0 };

    need_network();
    (void) shared_port(w, 8080);
    moment.starts = true;
    ASSERT_OK(workload_cleanup(w->handle, w->group, &plan, &w->err), &w->err);
    assert_int_equal(moment.n_looks, 2);
    assert_int_equal(change_of(&plan, SHARED)->kind, WORKLOAD_STAY);
    assert_int_equal(plan.count[WORKLOAD_DROP], 0);
    workload_plan_free(&plan);
    assert_true(claim_of(w, SHARED).is_kept);
}

static void a_shared_port_moves_with_a_report_when_a_pod_starts_at_that_moment(void **state) /* INV-5 */
{
    struct world *w = *state;
    struct workload_plan plan = { 0 };

    need_network();
    shared_port(w, 8080)->port = 8081;
    moment.starts = true;
    ASSERT_OK(workload_sync(w->handle, w->group, false, &plan, &w->err), &w->err);
    assert_true(change_of(&plan, SHARED)->needs_restart);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, SHARED), 8081);
    assert_int_equal(port_of(w, SHARED "/8080"), 8080);
}

static void a_pod_that_starts_at_every_look_is_reported_in_the_end(void **state) /* INV-9 */
{
    struct world *w = *state;
    struct workload_plan plan = { 0 };

    need_network();
    (void) shared_port(w, 8080);
    moment.blinks = true;
    assert_int_equal(workload_cleanup(w->handle, w->group, &plan, &w->err), DIBS_TAKEN);
    assert_int_equal(moment.n_looks, 8);
    assert_int_equal(w->err.blocker.relation, DIBS_REL_USES);
    assert_string_equal(w->err.blocker.name, OWN);
    assert_null(plan.changes);
    assert_int_equal(port_of(w, SHARED), 8080);
}

static void a_process_that_died_since_uses_nothing(void **state)
{
    struct world *w = *state;

    need_network();
    (void) shared_port(w, 8080);
    pid_t child = child_fork(child_idle, NULL);
    hold_by(w, OWN, child);
    dibs_claim shared = claim_of(w, SHARED);
    const dibs_drop drop = { &shared, .shared_bytes = sizeof "shop/web/" - 1 };
    const dibs_batch batch = { .drops = &drop, .n_drops = 1 };
    assert_int_equal(dibs_claim_ports(w->handle, &batch, NULL, &w->err), DIBS_TAKEN);
    assert_int_equal(w->err.blocker.pid, child);
    child_end(child);
    ASSERT_OK(dibs_claim_ports(w->handle, &batch, NULL, &w->err), &w->err);
    assert_false(is_there(w, SHARED));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_shared_port_is_not_dropped_when_a_pod_starts_at_that_moment),
        T(a_shared_port_moves_with_a_report_when_a_pod_starts_at_that_moment),
        T(a_process_that_died_since_uses_nothing),
        T(a_pod_that_starts_at_every_look_is_reported_in_the_end),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
