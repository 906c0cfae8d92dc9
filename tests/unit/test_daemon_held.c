/* SPDX-License-Identifier: MIT */
#include "daemon/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "support/t.h"

enum { CLAIMS = 3000, STEPS = 60000 };

/* What the table should know, in the plainest form. */
struct model {
    bool is_there;
    dibs_claim claim;
};

static uint64_t seed = 1;

static uint32_t number_below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33) % n;
}

static void fill(dibs_claim *claim, uint64_t id)
{
    *claim = (dibs_claim){ .id = id, .generation = 1 + number_below(5), .port = (uint16_t) (1 + id % 700) };
    claim->kind = number_below(2) ? DIBS_STATIC : DIBS_DYNAMIC;
    (void) snprintf(claim->principal, sizeof claim->principal, "uid:%u", number_below(10));
    (void) snprintf(claim->pool, sizeof claim->pool, "pool%u", number_below(4));
    switch (number_below(3)) {
    case 0:
        claim->holder = DIBS_HELD_BY_PROCESS;
        claim->process.pid = (int32_t) (1 + number_below(40));
        claim->process.pidns = 7 + number_below(2);
        claim->process.start_ticks = number_below(3);
        break;
    case 1:
        claim->holder = DIBS_HELD_BY_LEASE;
        claim->lease_until_ms = number_below(100000);
        break;
    default: claim->holder = DIBS_HELD_BY_NOBODY; claim->is_kept = true;
    }
}

static bool is_of(const dibs_claim *claim, const dibs_process *who)
{
    return claim->holder == DIBS_HELD_BY_PROCESS && claim->process.pid == who->pid &&
           claim->process.pidns == who->pidns && claim->process.start_ticks == who->start_ticks;
}

static void compare(struct held_table *table, const struct model *model)
{
    size_t n = 0;
    int64_t first_ms = INT64_MAX;
    struct portbits ports[2] = { 0 };

    for (size_t i = 1; i < CLAIMS; i++) {
        const struct held *held = held_find(table, i);

        assert_int_equal(held != NULL, model[i].is_there);
        n += model[i].is_there;
        if (!held)
            continue;
        assert_int_equal(held->generation, model[i].claim.generation);
        assert_string_equal(held->principal, model[i].claim.principal);
        assert_string_equal(held->pool, model[i].claim.pool);
        portbits_add(&ports[model[i].claim.kind], model[i].claim.port);
        if (held->holder == DIBS_HELD_BY_LEASE && held->until_ms < first_ms)
            first_ms = held->until_ms;
    }
    assert_int_equal(held_count(table), n);
    assert_memory_equal(held_ports(table, DIBS_DYNAMIC), &ports[DIBS_DYNAMIC], sizeof ports[0]);
    assert_memory_equal(held_ports(table, DIBS_STATIC), &ports[DIBS_STATIC], sizeof ports[0]);
    const struct held *first = held_first_lease(table);
    assert_int_equal(first ? first->until_ms : INT64_MAX, first_ms);
    for (int32_t pid = 1; pid <= 40; pid++) {
        for (unsigned k = 0; k < 6; k++) {
            dibs_process who = { .pid = pid, .pidns = 7 + k % 2, .start_ticks = k / 2 };
            size_t told = 0;
            size_t real = 0;

            for (const struct held *held = held_of(table, &who); held; held = held->more)
                told++;
            for (size_t i = 1; i < CLAIMS; i++)
                real += model[i].is_there && is_of(&model[i].claim, &who);
            assert_int_equal(told, real);
        }
    }
}

static void knows_what_a_plain_model_knows(void **state)
{
    AUTO(free_auto) struct model *model = calloc(CLAIMS, sizeof *model);
    struct held_table *table = NULL;

    (void) state;
    assert_non_null(model);
    assert_int_equal(held_open(&table, NULL), DIBS_OK);
    for (size_t step = 0; step < STEPS; step++) {
        uint32_t id = 1 + number_below(CLAIMS - 1);
        struct held was;

        if (number_below(3) == 0) {
            struct held *held = held_find(table, id);

            if (held)
                held_remove(table, held);
            model[id].is_there = false;
        } else {
            fill(&model[id].claim, id);
            assert_non_null(held_put(table, &model[id].claim, &was));
            assert_int_equal(was.id != 0, model[id].is_there);
            model[id].is_there = true;
        }
        if (step % (STEPS / 6) == 0)
            compare(table, model);
    }
    compare(table, model);
    held_close(table);
}

static void leases_come_out_in_the_order_of_their_ends(void **state)
{
    struct held_table *table = NULL;
    int64_t last_ms = -1;
    size_t n = 0;

    (void) state;
    assert_int_equal(held_open(&table, NULL), DIBS_OK);
    for (uint64_t id = 1; id <= 1000; id++) {
        dibs_claim claim = { .id = id, .generation = 1, .holder = DIBS_HELD_BY_LEASE };

        claim.lease_until_ms = number_below(500);
        assert_non_null(held_put(table, &claim, NULL));
    }
    for (struct held *first = held_first_lease(table); first; first = held_first_lease(table), n++) {
        assert_true(first->until_ms >= last_ms);
        last_ms = first->until_ms;
        held_stop_waiting(table, first);
    }
    assert_int_equal(n, 1000);
    assert_int_equal(held_count(table), 1000);
    held_close(table);
}

/* Linear in the claims of one process this takes minutes of work for what is gone in a moment. */
static void many_claims_of_one_process_end_at_the_price_of_few(void **state)
{
    enum { MANY = 100000, LONGEST_S = 2 };
    dibs_claim claim = { .generation = 1, .holder = DIBS_HELD_BY_PROCESS, .process = { .pid = 7 } };
    struct held_table *table = NULL;

    (void) state;
    assert_int_equal(held_open(&table, NULL), DIBS_OK);
    for (claim.id = 1; claim.id <= MANY; claim.id++)
        assert_non_null(held_put(table, &claim, NULL));
    clock_t began = clock();
    for (uint64_t id = 2; id <= MANY; id++)
        held_remove(table, held_find(table, id));
    assert_true(clock() - began < LONGEST_S * CLOCKS_PER_SEC);
    const struct held *left = held_of(table, &claim.process);
    assert_non_null(left);
    assert_int_equal(left->id, 1);
    assert_null(left->more);
    held_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_what_a_plain_model_knows),
        cmocka_unit_test(many_claims_of_one_process_end_at_the_price_of_few),
        cmocka_unit_test(leases_come_out_in_the_order_of_their_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
