/* SPDX-License-Identifier: MIT */
/* Batches that end claims: what ends in a step can be had again in the same one. */
#include "support/core.h"

enum { SIZE = 8, OLD = 6 };

/* A pool of eight ports of which six are kept, and a batch that drops those for as many others. */
struct change {
    dibs_ranges range;
    char names[2][OLD][16];
    dibs_claim old[OLD], out[OLD];
    dibs_drop drops[OLD];
    dibs_request requests[OLD];
    dibs_batch batch;
};

static void prepare(struct engine *e, const char *address, struct change *c)
{
    need_network();
    *c = (struct change){ .range = e_ranges("28000-28007"), .batch = { .n = OLD, .n_drops = OLD } };
    c->batch.requests = c->requests;
    c->batch.drops = c->drops;
    for (size_t i = 0; i < OLD; i++) {
        (void) snprintf(c->names[0][i], sizeof c->names[0][i], "old/%zu", i);
        (void) snprintf(c->names[1][i], sizeof c->names[1][i], "new/%zu", i);
        c->requests[i] = e_kept(c->names[0][i], address);
        c->requests[i].ranges = &c->range;
        c->old[i] = e_must(e, e->core, &c->requests[i]);
        c->drops[i] = (dibs_drop){ .claim = &c->old[i] };
        c->requests[i].name = c->names[1][i];
    }
}

static dibs_status change(struct engine *e, struct change *c)
{
    memset(&e->err, 0, sizeof e->err);
    return core_claim(e->core, E_CALL(e, e->core), &c->batch, c->out, &e->err);
}

static bool had(const struct change *c, uint16_t port)
{
    for (size_t i = 0; i < OLD; i++)
        if (c->old[i].port == port)
            return true;
    return false;
}

static void a_port_that_a_batch_releases_is_chosen_by_it_after_all_free_ones(void **state)
{
    static const char *const addresses[] = { NULL, "127.0.0.1" };

    for (size_t a = 0; a < 2; a++) {
        struct engine *e = *state;
        struct change c;
        size_t n_free = 0;
        size_t n = 0;

        prepare(e, addresses[a], &c);
        c.batch.is_dry_run = true;
        ASSERT_OK(change(e, &c), &e->err);
        c.batch.is_dry_run = false;
        ASSERT_OK(change(e, &c), &e->err);
        for (size_t i = 0; i < OLD; i++)
            n_free += !had(&c, c.out[i].port);
        assert_int_equal(n_free, SIZE - OLD);
        assert_int_equal(e_count(e, NULL), OLD);
        for (size_t i = 0; i < OLD; i++) {
            const dibs_which which = { .name = c.names[1][i] };

            ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &which, 0, &n, &e->err), &e->err);
        }
    }
}

static void one_claim_gets_the_last_port_that_ends_in_its_batch(void **state)
{
    struct engine *e = *state;
    struct change c;
    dibs_request more = { 0 };

    prepare(e, NULL, &c);
    for (size_t i = OLD; i < SIZE; i++) {
        more = e_kept(NULL, NULL);
        more.ranges = &c.range;
        (void) e_must(e, e->core, &more);
    }
    c.batch.n = c.batch.n_drops = 1;
    ASSERT_OK(change(e, &c), &e->err);
    assert_int_equal(c.out[0].port, c.old[0].port);
}

static void INV_5_a_port_that_a_batch_only_unholds_is_not_chosen(void **state)
{
    struct engine *e = *state;
    struct change c;

    prepare(e, NULL, &c);
    c.drops[0].stays = true;
    dibs_request held = e_held(c.names[0][1], NULL, 0);
    c.old[1] = e_must(e, e->core, &held);
    ASSERT_OK(change(e, &c), &e->err); /* 2 were free, 4 have ended */
    assert_int_equal(e_count(e, NULL), SIZE);
    for (size_t i = 0; i < OLD; i++) {
        assert_int_not_equal(c.out[i].port, c.old[0].port);
        assert_int_not_equal(c.out[i].port, c.old[1].port);
    }
}

static void more_than_what_is_free_and_what_ends_is_refused_and_nothing_ends(void **state)
{
    struct engine *e = *state;
    struct change c;

    prepare(e, NULL, &c);
    c.batch.n_drops = 3; /* and 2 are free */
    assert_int_equal(change(e, &c), DIBS_EXHAUSTED);
    assert_int_equal(e_count(e, NULL), OLD);
}

static void a_run_stands_where_claims_end_in_its_batch(void **state)
{
    struct engine *e = *state;
    struct change c;

    prepare(e, NULL, &c);
    for (size_t i = 0; i < OLD; i++)
        c.requests[i].name = NULL;
    c.batch.is_contiguous = true;
    ASSERT_OK(change(e, &c), &e->err);
    for (size_t i = 0; i < OLD; i++)
        assert_int_equal(c.out[i].port, c.out[0].port + i);
    assert_int_equal(e_count(e, NULL), OLD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_port_that_a_batch_releases_is_chosen_by_it_after_all_free_ones),
        E_TEST(one_claim_gets_the_last_port_that_ends_in_its_batch),
        E_TEST(INV_5_a_port_that_a_batch_only_unholds_is_not_chosen),
        E_TEST(more_than_what_is_free_and_what_ends_is_refused_and_nothing_ends),
        E_TEST(a_run_stands_where_claims_end_in_its_batch),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
