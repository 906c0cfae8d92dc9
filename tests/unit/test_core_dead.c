/* SPDX-License-Identifier: MIT */
/* Dead holders, however many they are, never make a request fail, and never hide who lives (INV-5). */
#include "support/core.h"

enum { MANY = 1500 };

struct crowd {
    dibs_request r[MANY];
    dibs_claim out[MANY];
};

static struct crowd *crowd_of(dibs_request like)
{
    struct crowd *c = calloc(1, sizeof *c);

    assert_non_null(c);
    for (size_t i = 0; i < MANY; i++)
        c->r[i] = like;
    return c;
}

static dibs_status claim(struct engine *e, struct core *core, const dibs_batch *batch, dibs_claim *out)
{
    memset(&e->err, 0, sizeof e->err);
    return core_claim(core, E_CALL(e, core), batch, out, &e->err);
}

static void a_batch_of_numbers_takes_over_as_many_dead_as_it_meets(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    struct crowd *c = crowd_of(e_held(NULL, "127.0.0.1", pid));
    const dibs_batch batch = { .requests = c->r, .n = MANY };

    need_network();
    for (uint16_t i = 0; i < MANY; i++) {
        c->r[i].mode = DIBS_REQUIRED;
        c->r[i].port = (uint16_t) (21000 + i);
    }
    ASSERT_OK(claim(e, e->core, &batch, c->out), &e->err);
    for (uint16_t i = 0; i < MANY; i++)
        c->r[i] = e_required(NULL, "127.0.0.1", (uint16_t) (21000 + i));
    assert_int_equal(claim(e, e_other(e), &batch, c->out), DIBS_TAKEN);
    child_end(pid);
    ASSERT_OK(claim(e, e->other, &batch, c->out), &e->err);
    assert_int_equal(c->out[MANY - 1].port, 21000 + MANY - 1);
    assert_int_equal(e_count(e, NULL), MANY);
    free(c);
}

static void a_batch_of_choices_takes_over_as_many_dead_as_it_needs(void **state)
{
    struct engine *e = *state;
    dibs_ranges full = e_ranges("21000-22499"); /* MANY ports */
    pid_t pid = child_fork(child_idle, NULL);
    struct crowd *c = crowd_of(e_held(NULL, "127.0.0.1", pid));
    const dibs_batch batch = { .requests = c->r, .n = MANY };

    need_network();
    for (size_t i = 0; i < MANY; i++)
        c->r[i].ranges = &full;
    ASSERT_OK(claim(e, e->core, &batch, c->out), &e->err);
    child_end(pid);
    for (size_t i = 0; i < MANY; i++)
        c->r[i].pid = 0;
    ASSERT_OK(claim(e, e_twin(e), &batch, c->out), &e->err);
    assert_int_equal(e_count(e, NULL), MANY);
    free(c);
}

/* Claims of `pid` on one port, on addresses 127.0.1.0, 127.0.1.1, ... */
static void hold_addresses(struct engine *e, pid_t pid, uint16_t port, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char address[32];

        (void) snprintf(address, sizeof address, "127.0.%u.%u", 1 + i / 250, i % 250);
        dibs_request r = e_held(NULL, address, pid);
        r.mode = DIBS_REQUIRED;
        r.port = port;
        (void) e_must(e, e->core, &r);
    }
}

static void a_port_with_hundreds_of_dead_addresses_is_had(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request all = e_required(NULL, NULL, 26001);

    need_network();
    hold_addresses(e, pid, 26001, 300);
    child_end(pid);
    assert_int_equal(e_must(e, e_other(e), &all).port, 26001);
    assert_int_equal(e_count(e, NULL), 1);
}

static void a_living_holder_among_hundreds_of_dead_is_named(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request alive = e_held("shop/alive", "127.0.0.1", 0);
    dibs_request all = e_required(NULL, NULL, 26001);
    dibs_claim out = { 0 };

    need_network();
    hold_addresses(e, pid, 26001, 200);
    alive.mode = DIBS_REQUIRED;
    alive.port = 26001;
    (void) e_must(e, e->core, &alive);
    child_end(pid);
    assert_int_equal(e_try(e, e_other(e), &all, &out), DIBS_TAKEN);
    assert_string_equal(e->err.blocker.name, "shop/alive");
    assert_int_equal(e_count(e, NULL), 201); /* nothing was taken from anybody */
}

static void the_one_port_on_which_all_are_dead_is_found_among_those_where_somebody_lives(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("28000-28599");
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request all = e_request(NULL, NULL);

    need_network();
    all.ranges = &range;
    for (uint16_t port = 28000; port < 28600; port++) {
        hold_addresses(e, pid, port, 2);
        if (port != 28123)
            (void) e_port(e, e->core, "127.0.0.1", port);
    }
    child_end(pid);
    e->settings.timeout_ms = 60000; /* under valgrind or a sanitizer too */
    assert_int_equal(e_must(e, e_other(e), &all).port, 28123);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_batch_of_numbers_takes_over_as_many_dead_as_it_meets),
        E_TEST(a_batch_of_choices_takes_over_as_many_dead_as_it_needs),
        E_TEST(a_port_with_hundreds_of_dead_addresses_is_had),
        E_TEST(a_living_holder_among_hundreds_of_dead_is_named),
        E_TEST(the_one_port_on_which_all_are_dead_is_found_among_those_where_somebody_lives),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
