/* SPDX-License-Identifier: MIT */
/* The records of every ledger: events, lists, slots, snapshots, pools, sightings, and how it stays
 * bounded. argv[1] names the backend. */
#include "net/portbits.h"
#include "support/ledger.h"

/* ---- events ---- */

static void every_change_is_one_event_in_order(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    dibs_claim out = { 0 };
    uint64_t oldest = 0;

    want.claim.kind = DIBS_DYNAMIC;
    want.claim.bindings[want.claim.n_bindings++] = (dibs_binding){ DIBS_UDP, t_address("*") };
    dibs_claim got = t_must(t, &want, 26001);
    ASSERT_OK(ledger_renew(t->ledger, &t->call, t_seen(&got), 5000, &out, &t->err), &t->err);
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, t_seen(&got), &want.claim, &out, &t->err), &t->err);
    (void) t_end(t, &out, LEDGER_END_RELEASE);
    static const dibs_event_kind kinds[] = { DIBS_EV_CLAIMED, DIBS_EV_RENEWED, DIBS_EV_TRANSFERRED,
                                             DIBS_EV_RELEASED };
    struct t_events events = t_events_since(t, 0);
    assert_int_equal(events.n, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(events.item[i].seq, i + 1);
        assert_int_equal(events.item[i].kind, kinds[i]);
        assert_int_equal(events.item[i].claim_id, got.id);
        assert_int_equal(events.item[i].generation, i < 2 ? 1 : 2);
        assert_int_equal(events.item[i].port, 26001);
        assert_int_equal(events.item[i].protos, 1 << DIBS_TCP | 1 << DIBS_UDP);
        assert_true(events.item[i].is_dynamic);
        assert_int_equal(events.item[i].actor_uid, 1000);
        assert_int_equal(events.item[i].actor_pid, 10);
        assert_int_equal(events.item[i].time_ms, 1000000);
        assert_string_equal(events.item[i].principal, "uid:1000");
        assert_string_equal(events.item[i].name, "shop/web");
    }
    assert_int_equal(t_events_since(t, 3).n, 1);
    assert_int_equal(t_events_since(t, 4).n, 0);
    assert_int_equal(t_events_since(t, UINT64_MAX).n, 0);
    struct t_events some = { 0 };
    ASSERT_OK(ledger_events(t->ledger, &t->call, &(struct ledger_feed){ { 0, 2, false }, &oldest },
                            t_note_event, &some, &t->err),
              &t->err);
    assert_int_equal(oldest, 1);
    assert_int_equal(some.n, 2);
    assert_int_equal(some.item[0].seq, 1);
    some.n = 0;
    ASSERT_OK(ledger_events(t->ledger, &t->call, &(struct ledger_feed){ { 0, 2, true }, NULL }, t_note_event,
                            &some, &t->err),
              &t->err);
    assert_int_equal(some.n, 2);
    assert_int_equal(some.item[0].seq, 3);
    assert_int_equal(some.item[1].seq, 4);
}

static void the_cursor_goes_on_with_every_claim(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    uint64_t seq = 0;
    uint64_t cursor = 9;

    ASSERT_OK(ledger_tail(t->ledger, &t->call, &seq, &cursor, &t->err), &t->err);
    assert_int_equal(seq, 0);
    assert_int_equal(cursor, 0);
    dibs_claim got = t_must(t, &want, 26001);
    (void) t_end(t, &got, LEDGER_END_RELEASE);
    (void) t_must(t, &want, 26002);
    ASSERT_OK(ledger_tail(t->ledger, &t->call, &seq, &cursor, &t->err), &t->err);
    assert_int_equal(seq, 3);
    assert_int_equal(cursor, 2); /* a release does not move it */
}

/* ---- lists, slots ---- */

static void lists_are_filtered_and_paged(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    struct ledger_want theirs = t_want("shop/api", "*");

    t_of_other(&theirs);
    for (uint16_t i = 0; i < 10; i++) {
        (void) snprintf(want.claim.name, sizeof want.claim.name, "%s/%u", i < 4 ? "shop" : "shopping", i);
        (void) snprintf(want.claim.pool, sizeof want.claim.pool, "%s", i < 3 ? "small" : "default");
        (void) snprintf(want.claim.project, sizeof want.claim.project, "%s", i % 2 ? "/home/odd" : "");
        (void) t_must(t, &want, (uint16_t) (26000 + i));
    }
    (void) t_must(t, &theirs, 26100);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 11);
    assert_int_equal(t_list(t, (struct ledger_filter){ .name_prefix = "shop" }).n, 5); /* whole parts */
    assert_int_equal(t_list(t, (struct ledger_filter){ .name_prefix = "shop", .principal = "uid:1000" }).n,
                     4);
    assert_int_equal(t_list(t, (struct ledger_filter){ .pool = "small" }).n, 3);
    assert_int_equal(t_list(t, (struct ledger_filter){ .pool = "small", .principal = "uid:2000" }).n, 0);
    assert_int_equal(t_list(t, (struct ledger_filter){ .principal = "uid:2000" }).n, 1);
    assert_int_equal(t_list(t, (struct ledger_filter){ .project = "/home/odd" }).n, 5);
    assert_int_equal(t_list(t, (struct ledger_filter){ .project = "/home/odd", .principal = "uid:1000" }).n,
                     5);
    assert_int_equal(t_list(t, (struct ledger_filter){ .project = "/home/odd", .principal = "uid:2000" }).n,
                     0);
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26005 }).n, 1);
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26005, .proto = DIBS_UDP }).n, 0);
    uint64_t after = 0;
    size_t total = 0;
    for (size_t page = 0; page < 4; page++) {
        struct t_ids ids = t_list(t, (struct ledger_filter){ .after_id = after, .limit = 4 });

        assert_int_equal(ids.n, page < 2 ? 4 : page == 2 ? 3 : 0);
        for (size_t i = 0; i < ids.n; i++) {
            assert_true(ids.id[i] > after);
            after = ids.id[i];
        }
        total += ids.n;
    }
    assert_int_equal(total, 11);
}

struct slot_count {
    size_t n, held, cooling;
    uint32_t last;
};

static bool count_slot(void *ctx, const struct ledger_slot *slot)
{
    struct slot_count *c = ctx;
    uint32_t key = (uint32_t) slot->proto << 16 | slot->port;

    assert_true(key >= c->last); /* grouped */
    c->last = key;
    c->n++;
    c->held += slot->claim_id != 0;
    c->cooling += slot->claim_id == 0;
    return true;
}

static void slots_show_held_and_cooling_ports(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    struct slot_count all = { 0 };
    struct slot_count one = { 0 };
    struct portbits port = { 0 };

    want.claim.kind = DIBS_DYNAMIC;
    want.claim.bindings[want.claim.n_bindings++] = (dibs_binding){ DIBS_UDP, t_address("*") };
    dibs_claim got = t_must(t, &want, 26001);
    (void) t_must(t, &want, 26002);
    (void) t_end(t, &got, LEDGER_END_RELEASE);
    ASSERT_OK(ledger_slots(t->ledger, &t->call, NULL, count_slot, &all, &t->err), &t->err);
    assert_int_equal(all.n, 4);
    assert_int_equal(all.held, 2);
    assert_int_equal(all.cooling, 2);
    portbits_add(&port, 26001);
    ASSERT_OK(ledger_slots(t->ledger, &t->call, &port, count_slot, &one, &t->err), &t->err);
    assert_int_equal(one.n, 2);
    assert_int_equal(one.cooling, 2);
}

/* ---- restore, pools, sightings, upkeep ---- */

static void restoring_is_all_or_nothing_and_idempotent(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want a = t_want("a", "*");
    struct ledger_want declared = t_want(NULL, "*");
    struct ledger_want b = t_want("b", "127.0.0.1");
    dibs_pool pool = { .name = "gpu", .ranges = { { { 30000, 30010 } }, 1 }, .order = "stride" };
    dibs_claim claims[3] = { 0 };
    size_t n = 9;

    declared.claim.is_exclusive = false;
    t_kept(&declared);
    claims[0] = a.claim;
    claims[0].port = 26001;
    claims[1] = declared.claim;
    claims[1].port = 26001; /* declared and exclusive bear each other */
    claims[2] = b.claim;
    claims[2].port = 26002;
    ASSERT_OK(ledger_restore(t->ledger, &t->call, &(dibs_snapshot){ claims, 3, &pool, 1 }, &n, NULL, &t->err),
              &t->err);
    assert_int_equal(n, 3);
    ASSERT_OK(ledger_restore(t->ledger, &t->call, &(dibs_snapshot){ claims, 3, &pool, 1 }, &n, NULL, &t->err),
              &t->err);
    assert_int_equal(n, 0);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 3);
    uint64_t tail = t_tail(t);
    claims[0].name[0] = claims[2].name[0] = '\0';
    claims[0].port = 26009; /* fine, but ... */
    claims[2].principal[4] = '9';
    assert_int_equal(
        ledger_restore(t->ledger, &t->call, &(dibs_snapshot){ claims, 3, NULL, 0 }, &n, NULL, &t->err),
        DIBS_TAKEN);
    claims[2].port = 0;
    assert_int_equal(
        ledger_restore(t->ledger, &t->call, &(dibs_snapshot){ claims, 3, NULL, 0 }, &n, NULL, &t->err),
        DIBS_INVALID);
    assert_int_equal(t_tail(t), tail);
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26009 }).n, 0);
}

static bool count_pool(void *ctx, const dibs_pool *pool)
{
    assert_true(pool->name[0]);
    ++*(size_t *) ctx;
    return true;
}

static void pools_are_kept_listed_and_removed_when_empty(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_pool pool = { .name = "gpu",
                       .band = DIBS_BAND_AUTO,
                       .cooldown_ms = 7000,
                       .order = "lowest",
                       .scope = DIBS_SCOPE_HOST };
    dibs_pool found = { 0 };
    size_t n = 0;

    ASSERT_OK(dibs_ranges_parse("30000-30010,31000", &pool.ranges, &t->err), &t->err);
    assert_int_equal(ledger_pool_get(t->ledger, &t->call, "gpu", &found, &t->err), DIBS_NOT_FOUND);
    assert_int_equal(ledger_pool_remove(t->ledger, &t->call, "gpu", &t->err), DIBS_NOT_FOUND);
    ASSERT_OK(ledger_pool_put(t->ledger, &t->call, &pool, &t->err), &t->err);
    ASSERT_OK(ledger_pool_get(t->ledger, &t->call, "gpu", &found, &t->err), &t->err);
    assert_int_equal(dibs_ranges_count(&found.ranges), 12);
    assert_int_equal(found.band, DIBS_BAND_AUTO);
    assert_int_equal(found.cooldown_ms, 7000);
    assert_string_equal(found.order, "lowest");
    ASSERT_OK(ledger_pools(t->ledger, &t->call, count_pool, &n, &t->err), &t->err);
    assert_int_equal(n, 1);
    (void) snprintf(want.claim.pool, sizeof want.claim.pool, "gpu");
    dibs_claim got = t_must(t, &want, 30000);
    assert_int_equal(ledger_pool_remove(t->ledger, &t->call, "gpu", &t->err), DIBS_TAKEN);
    (void) t_end(t, &got, LEDGER_END_RELEASE);
    ASSERT_OK(ledger_pool_remove(t->ledger, &t->call, "gpu", &t->err), &t->err);
    assert_int_equal(ledger_pool_get(t->ledger, &t->call, "gpu", &found, &t->err), DIBS_NOT_FOUND);
    struct t_events events = t_events_since(t, 0);
    assert_int_equal(events.item[0].kind, DIBS_EV_POOL);
    assert_string_equal(events.item[0].name, "gpu");
}

static void the_creation_and_the_removal_of_a_pool_are_events(void **state)
{
    struct t_ledger *t = *state;
    dibs_pool pool = { .name = "gpu", .ranges = { { { 30000, 30010 } }, 1 }, .order = "stride" };

    ASSERT_OK(ledger_pool_put(t->ledger, &t->call, &pool, &t->err), &t->err);
    uint64_t made = t_tail(t);
    ASSERT_OK(ledger_pool_remove(t->ledger, &t->other, "gpu", &t->err), &t->err);
    struct t_events events = t_events_since(t, made);
    assert_int_equal(made, 1);
    assert_int_equal(events.n, 1);
    assert_int_equal(events.item[0].seq, made + 1);
    assert_int_equal(events.item[0].kind, DIBS_EV_POOL);
    assert_int_equal(events.item[0].actor_uid, 2000);
    assert_string_equal(events.item[0].name, "gpu");
}

static struct sighting_record sighted(struct t_ledger *t, const dibs_claim *claim)
{
    struct sighting_record row = { .seen = t_seen(claim) };

    ASSERT_OK(ledger_sighted(t->ledger, &t->call, &row, 1, &t->err), &t->err);
    return row;
}

static void the_time_of_the_first_sighting_stays(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = t_must(t, &want, 26001);
    int64_t since_ms = t->call.now.boot_ms;

    for (uint32_t i = 1; i <= 3; i++, t->call.now.boot_ms += 1000)
        assert_int_equal(sighted(t, &got).since_ms, since_ms);
    t->call.now.boot_ms = 1000; /* a reboot: the clock begins again, and so does the time */
    assert_int_equal(sighted(t, &got).since_ms, 1000);
    t->call.now.boot_ms = 2000;
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, t_seen(&got), &want.claim, &got, &t->err), &t->err);
    assert_int_equal(sighted(t, &got).since_ms, 2000); /* another generation */
    t->call.now.boot_ms = 3000;
    ASSERT_OK(ledger_not_leaked(t->ledger, &t->call, &got.id, 1, &t->err), &t->err);
    assert_int_equal(sighted(t, &got).since_ms, 3000);
}

/* ---- facts about a Kubernetes cluster ---- */

static uint32_t quota_of(struct t_ledger *t, const char *subject)
{
    struct fact_record fact = { 0 };

    (void) snprintf(fact.subject, sizeof fact.subject, "%s", subject);
    return ledger_fact(t->ledger, &t->call, &fact, &t->err) == DIBS_OK ? fact.quota : UINT32_MAX;
}

static void quotas_are_those_of_the_last_list_alone(void **state)
{
    struct t_ledger *t = *state;
    struct fact_record first[] = { { .subject = "ns:a", .quota = 5 }, { .subject = "ns:b", .quota = 0 } };
    struct fact_record second[] = { { .subject = "ns:b", .quota = 7 },
                                    { .subject = "ns:c", .quota = DIBS_PORT_MAX } };

    ASSERT_OK(ledger_set_quotas(t->ledger, &t->call, first, 2, &t->err), &t->err);
    assert_int_equal(quota_of(t, "ns:a"), 5);
    assert_int_equal(quota_of(t, "ns:b"), 0);
    ASSERT_OK(ledger_set_quotas(t->ledger, &t->call, second, 2, &t->err), &t->err);
    assert_int_equal(quota_of(t, "ns:a"), UINT32_MAX);
    assert_int_equal(quota_of(t, "ns:b"), 7);
    assert_int_equal(quota_of(t, "ns:c"), DIBS_PORT_MAX);
    ASSERT_OK(ledger_set_quotas(t->ledger, &t->call, NULL, 0, &t->err), &t->err);
    assert_int_equal(quota_of(t, "ns:b"), UINT32_MAX);
}

static void a_ledger_serves_the_first_cluster_and_refuses_another(void **state)
{
    struct t_ledger *t = *state;
    struct fact_record quota = { .subject = "ns:a", .quota = 5 };
    const struct fact_record first = { .installation = "one" };
    const struct fact_record whole = { .installation = "one", .cluster = "uid-1" };
    const struct fact_record others[] = { { .installation = "two" },
                                          { .installation = "two", .cluster = "uid-1" },
                                          { .installation = "one", .cluster = "uid-2" } };
    struct fact_record known = { 0 };

    ASSERT_OK(ledger_serve(t->ledger, &t->call, &first, &t->err), &t->err);
    ASSERT_OK(ledger_serve(t->ledger, &t->call, &whole, &t->err), &t->err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(ledger_serve(t->ledger, &t->call, &others[i], &t->err), DIBS_TAKEN);
    ASSERT_OK(ledger_serve(t->ledger, &t->call, &first, &t->err), &t->err);
    ASSERT_OK(ledger_set_quotas(t->ledger, &t->call, &quota, 1, &t->err), &t->err);
    ASSERT_OK(ledger_set_quotas(t->ledger, &t->call, NULL, 0, &t->err), &t->err);
    ASSERT_OK(ledger_fact(t->ledger, &t->call, &known, &t->err), &t->err);
    assert_string_equal(known.installation, "one");
    assert_string_equal(known.cluster, "uid-1");
}

static void only_named_claims_of_the_caller_are_counted(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    struct ledger_want unnamed = t_want(NULL, "*");
    struct ledger_want theirs = t_want("shop/api", "*");
    uint32_t n = 9;

    ASSERT_OK(ledger_count(t->ledger, &t->call, &n, &t->err), &t->err);
    assert_int_equal(n, 0);
    t_of_other(&theirs);
    dibs_claim got = t_must(t, &want, 26001);
    (void) t_must(t, &unnamed, 26002);
    (void) t_must(t, &theirs, 26003);
    ASSERT_OK(ledger_count(t->ledger, &t->call, &n, &t->err), &t->err);
    assert_int_equal(n, 1);
    (void) t_end(t, &got, LEDGER_END_RELEASE); /* its name is only remembered */
    ASSERT_OK(ledger_count(t->ledger, &t->call, &n, &t->err), &t->err);
    assert_int_equal(n, 0);
}

static void sightings_count_for_one_generation(void **state) /* W4 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = t_must(t, &want, 26001);
    dibs_claim next = { 0 };

    for (uint32_t i = 1; i <= 3; i++)
        assert_int_equal(sighted(t, &got).count, i);
    ASSERT_OK(ledger_not_leaked(t->ledger, &t->call, &got.id, 1, &t->err), &t->err);
    assert_int_equal(sighted(t, &got).count, 1);
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, t_seen(&got), &want.claim, &next, &t->err), &t->err);
    assert_int_equal(sighted(t, &next).count, 1); /* the grace begins again */
    assert_int_equal(t_end(t, &next, LEDGER_END_LEAK), 1);
}

static void upkeep_drops_old_events_names_and_marks(void **state)
{
    enum { BATCH = 2048, ROUNDS = 26 }; /* 2 * 2048 * 26 = 106,496 events */
    struct t_ledger *t = *state;
    struct ledger_want *wants = calloc(BATCH, sizeof *wants);
    uint16_t *ports = calloc(BATCH, sizeof *ports);
    dibs_claim *out = calloc(BATCH, sizeof *out);
    struct ledger_seen *seen = calloc(BATCH, sizeof *seen);
    struct ledger_batch batch = { .wants = wants, .n = BATCH };
    struct ledger_health health = { 0 };
    uint64_t oldest = 0;
    size_t n = 0;

    assert_true(wants && ports && out && seen);
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BATCH; i++) {
            char name[32];

            (void) snprintf(name, sizeof name, "r%zu/n%zu", round, i);
            ports[i] = (uint16_t) (20000 + i);
            wants[i] = t_want(name, "127.0.0.1");
            wants[i].claim.kind = DIBS_DYNAMIC;
            wants[i].candidates = &ports[i];
            wants[i].n_candidates = 1;
        }
        t->call.now.wall_ms += 1000;
        ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), &t->err);
        for (size_t i = 0; i < BATCH; i++)
            seen[i] = t_seen(&out[i]);
        ASSERT_OK(ledger_end(t->ledger, &t->call, &(struct ledger_ending){ seen, BATCH, LEDGER_END_RELEASE },
                             &n, &t->err),
                  &t->err);
        assert_int_equal(n, BATCH);
    }
    free(wants);
    free(ports);
    free(out);
    free(seen);
    uint64_t tail = t_tail(t);
    assert_int_equal(tail, 2 * BATCH * ROUNDS);
    ASSERT_OK(ledger_events(t->ledger, &t->call, &(struct ledger_feed){ { tail, 0, false }, &oldest },
                            t_note_event, &(struct t_events){ 0 }, &t->err),
              &t->err);
    assert_true(oldest > 1); /* trimmed on the way, without being asked */
    t->call.now.boot_ms += 7200000;
    ASSERT_OK(ledger_upkeep(t->ledger, &t->call, &n, &t->err), &t->err);
    assert_int_equal(n, 0);
    ASSERT_OK(ledger_health(t->ledger, &health, &t->err), &t->err);
    assert_true(health.is_sound);
    assert_int_equal(health.n_claims, 0);
    bool is_shared = ledger_is_shared(t->ledger); /* by hosts, which must all fit */
    assert_int_equal(health.major, is_shared ? 3 : 1);
    size_t n_names = is_shared ? DIBS_NAMES_REMEMBERED_SHARED : DIBS_NAMES_REMEMBERED;
    assert_int_equal(health.n_events, is_shared ? DIBS_EVENTS_KEPT_SHARED : DIBS_EVENTS_KEPT);
    assert_in_range(health.n_names, n_names, n_names + BATCH); /* ties stay */
    struct slot_count slots = { 0 };
    ASSERT_OK(ledger_slots(t->ledger, &t->call, NULL, count_slot, &slots, &t->err), &t->err);
    assert_int_equal(slots.n, 0);
    uint16_t remembered = 0;
    dibs_claim found = { 0 };
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "r0/n0", &found, &remembered, &t->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(remembered, 0);
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "r25/n7", &found, &remembered, &t->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(remembered, 20007);
}

static void an_unknown_scheme_is_refused(void **state)
{
    const struct ledger_options options = { .timeout_ms = 100 };
    struct ledger *ledger = NULL;
    dibs_err err = { 0 };

    (void) state;
    assert_int_equal(ledger_open("paper:", &options, &ledger, &err), DIBS_INVALID);
    assert_int_equal(ledger_open("", &options, &ledger, &err), DIBS_INVALID);
    assert_null(ledger);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(every_change_is_one_event_in_order),
        CASE(the_cursor_goes_on_with_every_claim),
        CASE(lists_are_filtered_and_paged),
        CASE(slots_show_held_and_cooling_ports),
        CASE(restoring_is_all_or_nothing_and_idempotent),
        CASE(pools_are_kept_listed_and_removed_when_empty),
        CASE(the_creation_and_the_removal_of_a_pool_are_events),
        CASE(quotas_are_those_of_the_last_list_alone),
        CASE(a_ledger_serves_the_first_cluster_and_refuses_another),
        CASE(only_named_claims_of_the_caller_are_counted),
        CASE(sightings_count_for_one_generation),
        CASE(the_time_of_the_first_sighting_stays),
        CASE(upkeep_drops_old_events_names_and_marks),
        CASE(an_unknown_scheme_is_refused),
    };

    return t_backend(argc, argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
