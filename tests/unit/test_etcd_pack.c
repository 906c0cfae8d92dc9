/* SPDX-License-Identifier: MIT */
/* The values of a ledger in etcd: every field comes back, and what is damaged harms nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/etcd/block.h"
#include "support/t.h"

enum { CLAIMS_MAX = 8 };

struct seen {
    struct claim_record claims[CLAIMS_MAX];
    struct ledger_slot cooling[CLAIMS_MAX];
    uint16_t damaged[CLAIMS_MAX];
    size_t n_claims, n_cooling, n_damaged;
};

static bool see_claim(void *ctx, struct claim_record *row)
{
    struct seen *seen = ctx;

    assert_true(seen->n_claims < CLAIMS_MAX);
    seen->claims[seen->n_claims++] = *row;
    return true;
}

static bool see_damaged(void *ctx, uint16_t port)
{
    struct seen *seen = ctx;

    assert_true(seen->n_damaged < CLAIMS_MAX);
    seen->damaged[seen->n_damaged++] = port;
    return true;
}

static bool see_cooling(void *ctx, const struct ledger_slot *slot)
{
    struct seen *seen = ctx;

    assert_true(seen->n_cooling < CLAIMS_MAX);
    seen->cooling[seen->n_cooling++] = *slot;
    return true;
}

static bool unpack(const void *at, size_t n, struct seen *seen)
{
    const struct block_reader reader = { seen, see_claim, see_damaged, see_cooling };

    *seen = (struct seen){ 0 };
    return unpack_block((struct etcd_bytes){ at, n }, &reader);
}

static struct etcd_bytes packed(const struct bytes *bytes)
{
    assert_false(bytes->is_lost);
    return (struct etcd_bytes){ (const uint8_t *) bytes->at, bytes->n };
}

/* As long as it can be: every field says something. */
static struct claim_record full_claim(void)
{
    struct claim_record row = { .node = UINT32_MAX, .lease = INT64_MAX };
    dibs_claim *c = &row.claim;

    memset(row.secret, 0xc3, sizeof row.secret);
    c->id = INT64_MAX;
    c->generation = INT64_MAX - 1;
    c->port = DIBS_PORT_MAX;
    c->kind = DIBS_STATIC;
    c->holder = DIBS_HELD_BY_PROCESS;
    c->is_exclusive = c->is_kept = true;
    c->uid = UINT32_MAX;
    c->netns = UINT64_MAX;
    c->created_ms = INT64_MAX;
    c->changed_ms = INT64_MIN;
    c->process = (dibs_process){ .pid = INT32_MAX, .pidns = UINT64_MAX, .start_ticks = UINT64_MAX };
    memset(c->process.boot_id, 'b', DIBS_BOOT_ID_MAX);
    c->lease_ttl_ms = 1;
    c->lease_until_ms = INT64_MIN;
    memset(c->principal, 'p', DIBS_PRINCIPAL_MAX);
    memset(c->pool, 'o', DIBS_POOL_NAME_MAX);
    memset(c->command, 'c', DIBS_COMMAND_MAX);
    memset(c->name, 'n', DIBS_NAME_PARTS_MAX * (DIBS_NAME_PART_MAX + 1) - 1);
    for (size_t i = 1; i < DIBS_NAME_PARTS_MAX; i++)
        c->name[i * (DIBS_NAME_PART_MAX + 1) - 1] = '/';
    memset(c->project, '/', DIBS_PROJECT_MAX);
    memset(c->env, 'e', DIBS_ENV_MAX);
    memset(c->keeper, 'k', DIBS_KEEPER_MAX);
    c->run = DIBS_PORT_MAX;
    c->hold = DIBS_HOLD_ENFORCE;
    c->as_port = DIBS_PORT_MAX;
    c->n_bindings = DIBS_BINDINGS_MAX;
    for (size_t i = 0; i < DIBS_BINDINGS_MAX; i++) {
        c->bindings[i] = (dibs_binding){ .proto = (dibs_proto) (1 + i % 3), .address.len = i % 2 ? 4 : 16 };
        c->bindings[i].address.v6only = i == 2;
        memset(c->bindings[i].address.bytes, (int) (200 + i), c->bindings[i].address.len);
    }
    return row;
}

/* Little more than what a claim must have. */
static struct claim_record small_claim(uint64_t id, uint16_t port)
{
    struct claim_record row = { .claim = { .id = id,
                                           .generation = 1,
                                           .port = port,
                                           .kind = DIBS_DYNAMIC,
                                           .is_kept = true,
                                           .principal = "uid:1000",
                                           .n_bindings = 1,
                                           .bindings = { { .proto = DIBS_TCP, .address.len = 16 } } } };

    return row;
}

static void every_field_of_a_claim_comes_back(void **state)
{
    struct claim_record store[] = { full_claim(), small_claim(7, 30000), small_claim(8, 30001) };
    struct bytes block = { 0 };
    struct seen seen;

    (void) state;
    store[2].claim.holder = DIBS_HELD_BY_LEASE;
    store[2].claim.is_kept = false;
    store[2].claim.lease_ttl_ms = 600000;
    store[2].claim.lease_until_ms = 12345;
    (void) snprintf(store[2].claim.process.boot_id, sizeof store[2].claim.process.boot_id, "%s",
                    "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
    struct block_writer w = pack_block(&block, 3, 0);
    for (size_t i = 0; i < 3; i++)
        pack_claim(&w, &store[i]);
    assert_true(unpack(packed(&block).at, block.n, &seen));
    assert_int_equal(seen.n_claims, 3);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(&seen.claims[i], &store[i], sizeof store[i]);
    bytes_done(&block);
}

static void a_port_that_cools_comes_back(void **state)
{
    const struct ledger_slot slots[] = {
        { .proto = DIBS_UDP,
          .port = 1,
          .address = { .len = 4, .bytes = { 127, 0, 0, 1 } },
          .released_ms = -5,
          .node = UINT32_MAX,
          .there_ms = -5 },
        { .proto = DIBS_SCTP,
          .port = 65535,
          .address = { .len = 16, .v6only = true },
          .released_ms = INT64_MAX,
          .there_ms = INT64_MAX },
    };
    struct claim_record claim = small_claim(9, 2);
    struct bytes block = { 0 };
    struct seen seen;

    (void) state;
    struct block_writer w = pack_block(&block, 1, 2);
    pack_claim(&w, &claim);
    pack_cooling(&w, &slots[0]);
    pack_cooling(&w, &slots[1]);
    assert_true(unpack(packed(&block).at, block.n, &seen));
    assert_int_equal(seen.n_cooling, 2);
    assert_memory_equal(seen.cooling, slots, sizeof slots);
    bytes_done(&block);
}

static void neighbours_that_cool_cost_little(void **state)
{
    struct ledger_slot slots[CLAIMS_MAX];
    struct bytes block = { 0 };
    struct seen seen;
    size_t first = 0;

    (void) state;
    memset(slots, 0, sizeof slots);
    struct block_writer w = pack_block(&block, 0, CLAIMS_MAX);
    for (size_t i = 0; i < CLAIMS_MAX; i++) {
        slots[i].proto = DIBS_TCP;
        slots[i].port = (uint16_t) (i < CLAIMS_MAX - 1 ? 30000 + i : 29000); /* in any order */
        slots[i].address.len = 16;
        slots[i].node = 3;
        slots[i].released_ms = slots[i].there_ms = 90000000 + (int64_t) i;
        pack_cooling(&w, &slots[i]);
        first = i == 0 ? block.n : first;
    }
    assert_true(block.n - first <= 2 * CLAIMS_MAX + 2);
    assert_true(unpack(packed(&block).at, block.n, &seen));
    assert_int_equal(seen.n_cooling, CLAIMS_MAX);
    assert_memory_equal(seen.cooling, slots, sizeof slots);
    bytes_done(&block);
}

/* Most claims of a block have one user, pool, address and boot: the first claim alone has them. */
static void claims_that_resemble_the_first_one_cost_little(void **state)
{
    struct claim_record store[CLAIMS_MAX];
    struct bytes block = { 0 };
    struct seen seen;

    (void) state;
    struct block_writer w = pack_block(&block, CLAIMS_MAX, 0);
    for (size_t i = 0; i < CLAIMS_MAX; i++) {
        size_t before = block.n;

        store[i] = small_claim(1000 + i, (uint16_t) (30000 + i));
        store[i].claim.created_ms = 1763600000000 + (int64_t) i;
        store[i].claim.changed_ms = store[i].claim.created_ms;
        memset(store[i].claim.process.boot_id, 'b', DIBS_BOOT_ID_MAX);
        if (i == 3) /* of another user */
            store[i].claim.principal[4] = '7';
        pack_claim(&w, &store[i]);
        assert_true((block.n - before <= 40) == (i != 0 && i != 3));
    }
    assert_true(unpack(packed(&block).at, block.n, &seen));
    assert_int_equal(seen.n_claims, CLAIMS_MAX);
    assert_memory_equal(seen.claims, store, sizeof store);
    bytes_done(&block);
}

/* Nothing resembles a first claim that was damaged, and a damaged one loses the ports of none. */
static void without_its_first_claim_a_block_keeps_its_ports(void **state)
{
    struct claim_record store[] = { small_claim(1, 30000), small_claim(2, 30001), small_claim(3, 30002) };
    struct bytes block = { 0 };
    struct seen seen;

    (void) state;
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        size_t first = 0;

        block.n = 0;
        if (is_lost)
            record_make_lost(&store[0], 1, 30000);
        struct block_writer w = pack_block(&block, 3, 0);
        first = block.n;
        for (size_t i = 0; i < 3; i++)
            pack_claim(&w, &store[i]);
        if (!is_lost)
            block.at[first + 5] = (char) 0xff; /* its flags */
        assert_true(unpack(packed(&block).at, block.n, &seen));
        assert_int_equal(seen.n_damaged, is_lost ? 1 : 3);
        assert_int_equal(seen.n_claims, is_lost ? 2 : 0);
        for (size_t i = 0; i < seen.n_damaged; i++)
            assert_int_equal(seen.damaged[i], 30000 + i);
        for (size_t i = 0; i < seen.n_claims; i++)
            assert_memory_equal(&seen.claims[i], &store[1 + i], sizeof store[0]);
    }
    bytes_done(&block);
}

/* INV-6. After any change of any byte of the middle one its neighbours are as they were. */
static void a_damaged_claim_harms_no_other(void **state)
{
    struct claim_record store[] = { small_claim(1, 30000), full_claim(), small_claim(3, 30002) };
    struct bytes block = { 0 };
    size_t begin[4] = { 0 };
    size_t n_damaged = 0;
    struct seen seen;

    (void) state;
    struct block_writer w = pack_block(&block, 3, 0);
    for (size_t i = 0; i < 3; i++) {
        begin[i] = block.n;
        pack_claim(&w, &store[i]);
    }
    begin[3] = block.n;
    for (size_t at = begin[1] + 2; at < begin[2]; at++) {
        char before = block.at[at];

        for (unsigned bit = 0; bit < 8; bit++) {
            block.at[at] = (char) (before ^ (1 << bit));
            assert_true(unpack(packed(&block).at, block.n, &seen));
            assert_int_equal(seen.n_claims + seen.n_damaged, 3);
            assert_memory_equal(&seen.claims[0], &store[0], sizeof store[0]);
            assert_memory_equal(&seen.claims[seen.n_claims - 1], &store[2], sizeof store[2]);
            n_damaged += seen.n_damaged;
        }
        block.at[at] = before;
    }
    assert_true(n_damaged > 0);
    bytes_done(&block);
}

static void the_rest_of_a_damaged_claim_is_still_damaged(void **state)
{
    struct claim_record lost;
    struct claim_record well = small_claim(3, 30002);
    struct bytes block = { 0 };
    struct seen seen;

    (void) state;
    record_make_lost(&lost, 5, 30001);
    struct block_writer w = pack_block(&block, 2, 0);
    pack_claim(&w, &lost);
    pack_claim(&w, &well);
    assert_true(unpack(packed(&block).at, block.n, &seen));
    assert_int_equal(seen.n_damaged, 1);
    assert_int_equal(seen.damaged[0], 30001);
    assert_int_equal(seen.n_claims, 1);
    assert_memory_equal(&seen.claims[0], &well, sizeof well);
    bytes_done(&block);
}

static void a_block_that_was_cut_is_refused(void **state)
{
    struct claim_record claim = full_claim();
    struct bytes block = { 0 };
    struct seen seen;

    (void) state;
    struct block_writer w = pack_block(&block, 1, 0);
    pack_claim(&w, &claim);
    for (size_t n = 0; n < block.n; n++) {
        char *part = malloc(n ? n : 1); /* its end is where a sanitizer sees it */

        memcpy(part, block.at, n);
        assert_false(unpack(part, n, &seen));
        free(part);
    }
    bytes_add(&block, "", 1);
    assert_false(unpack(packed(&block).at, block.n, &seen));
    block.at[0] = 2; /* another version */
    assert_false(unpack(packed(&block).at, block.n - 1, &seen));
    bytes_done(&block);
}

/* ---- the others ---- */

/* Of a static object, whose gaps are zero. */
#define ROUND_TRIP(kind, before)                                                             \
    do {                                                                                     \
        static __typeof__(before) after;                                                     \
        struct bytes text = { 0 };                                                           \
                                                                                             \
        pack_##kind(&text, &(before));                                                       \
        assert_true(unpack_##kind(packed(&text), &after));                                   \
        assert_memory_equal(&after, &(before), sizeof after);                                \
        for (size_t n = 0; n < text.n; n++)                                                  \
            assert_false(unpack_##kind((struct etcd_bytes){ packed(&text).at, n }, &after)); \
        bytes_done(&text);                                                                   \
    } while (0)

static void a_name_and_a_pool_come_back(void **state)
{
    static struct name_record name;
    static dibs_pool pool;

    (void) state;
    memset(name.principal, 'p', DIBS_PRINCIPAL_MAX);
    memset(name.name, 'n', DIBS_NAME_MAX);
    memset(name.project, '/', DIBS_PROJECT_MAX);
    name.claim_id = INT64_MAX;
    name.port = DIBS_PORT_MAX;
    name.used_ms = INT64_MIN;
    ROUND_TRIP(name, name);
    memset(pool.name, 'x', DIBS_POOL_NAME_MAX);
    (void) snprintf(pool.order, sizeof pool.order, "stride");
    pool.scope = DIBS_SCOPE_CLUSTER;
    pool.band = DIBS_BAND_AUTO;
    pool.cooldown_ms = DIBS_COOLDOWN_MAX_MS;
    pool.ranges.n = DIBS_RANGES_MAX;
    for (size_t i = 0; i < DIBS_RANGES_MAX; i++)
        pool.ranges.item[i] = (dibs_range){ (uint16_t) (1 + 3 * i), (uint16_t) (2 + 3 * i) };
    pool.ranges.item[DIBS_RANGES_MAX - 1].last = DIBS_PORT_MAX;
    ROUND_TRIP(pool, pool);
}

static void every_other_record_comes_back(void **state)
{
    static struct node_tail tail = {
        .seq = INT64_MAX, .cursor = UINT64_MAX, .gone = INT64_MAX, .nonce = UINT64_MAX
    };
    static struct ledger_header header = { .major = UINT32_MAX, .salt = UINT64_MAX };
    static struct sighting_record sighting = {
        .seen = { .id = INT64_MAX, .generation = INT64_MAX, .lease_until_ms = INT64_MIN }, .count = UINT32_MAX
    };
    static struct answer_record answer;
    static uint64_t number = UINT64_MAX;

    (void) state;
    ROUND_TRIP(tail, tail);
    ROUND_TRIP(header, header);
    ROUND_TRIP(sighting, sighting); /* as an older dibs writes it */
    sighting.since_ms = INT64_MIN;
    struct sighting_record newer = { 0 };
    struct bytes with_time = { 0 };
    pack_sighting(&with_time, &sighting);
    assert_true(unpack_sighting(packed(&with_time), &newer));
    assert_true(newer.since_ms == INT64_MIN && newer.count == UINT32_MAX);
    bytes_done(&with_time);
    static struct fact_record fact = { .cluster = "3f0f7a52-1c2d", .installation = "cd0b61", .quota = 65535 };
    ROUND_TRIP(fact, fact);
    memset(answer.principal, 'p', DIBS_PRINCIPAL_MAX);
    memset(answer.key, 'k', sizeof answer.key - 1);
    answer.part = answer.n = UINT32_MAX;
    answer.seq = answer.claim_id = answer.generation = INT64_MAX;
    answer.digest = UINT64_MAX;
    ROUND_TRIP(answer, answer);
    ROUND_TRIP(number, number);
}

static bool see_event(void *ctx, const struct event_record *event)
{
    struct event_record **next = ctx;

    *(*next)++ = *event;
    return true;
}

static void events_come_back_in_their_order(void **state)
{
    static struct event_record full, seen[3];
    const struct event_record small = { .event = { .seq = 1, .kind = DIBS_EV_CLAIMED, .principal = "x" } };
    const struct event_record *const events[] = { &small, &full, &small };
    struct event_record *next = seen;
    struct bytes value = { 0 };

    (void) state;
    full.event = (dibs_event){ .seq = INT64_MAX,
                               .time_ms = INT64_MIN,
                               .kind = DIBS_EV_POOL,
                               .claim_id = INT64_MAX,
                               .generation = INT64_MAX,
                               .port = DIBS_PORT_MAX,
                               .protos = UINT8_MAX,
                               .is_dynamic = true,
                               .actor_uid = UINT32_MAX,
                               .actor_pid = INT32_MIN };
    memset(full.event.principal, 'p', DIBS_PRINCIPAL_MAX);
    memset(full.event.name, 'n', DIBS_NAME_MAX);
    full.cursor = UINT64_MAX;
    pack_events(&value, events, 3);
    assert_true(unpack_events(packed(&value), see_event, &next));
    assert_ptr_equal(next, seen + 3);
    assert_memory_equal(&seen[0], &small, sizeof small);
    assert_memory_equal(&seen[1].event.principal, &full.event.principal, sizeof full.event.principal);
    assert_int_equal(seen[1].event.time_ms, INT64_MIN);
    assert_int_equal(seen[1].event.actor_pid, INT32_MIN);
    assert_true(seen[1].cursor == UINT64_MAX && seen[1].event.seq == INT64_MAX);
    for (size_t i = 0; i < 3; i++) { /* texts end with a NUL, behind which there may be anything */
        assert_string_equal(seen[i].event.principal, events[i]->event.principal);
        assert_string_equal(seen[i].event.name, events[i]->event.name);
        memset(seen[i].event.principal, 0, sizeof seen[i].event.principal);
        memset(seen[i].event.name, 0, sizeof seen[i].event.name);
    }
    struct event_record bare = full;
    memset(bare.event.principal, 0, sizeof bare.event.principal);
    memset(bare.event.name, 0, sizeof bare.event.name);
    assert_memory_equal(&seen[1], &bare, sizeof bare);
    bytes_done(&value);
}

/* The fuzzer's seeds, behind the byte that says which record it is. */
static size_t read_corpus(const char *name, char *out, size_t size)
{
    const char *source = getenv("SOURCE");
    char path[1024] = "";

    (void) snprintf(path, sizeof path, "%s/tests/fuzz/corpus/etcd_pack/%s", source ? source : ".", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(out, 1, size, file);
    (void) fclose(file);
    assert_true(n > 1 && n < size && out[0] == 0);
    return n;
}

/* One of an older format is refused at its first byte, and shows nothing. */
static void the_corpus_of_the_fuzzer_is_of_this_format(void **state)
{
    static const struct {
        const char *name;
        size_t n_claims, n_damaged, n_cooling;
    } blocks[] = {
        { "block-kept", 1, 0, 0 },         { "block-process", 1, 0, 0 }, { "block-lease", 1, 0, 0 },
        { "block-several", 4, 0, 2 },      { "block-damaged", 2, 1, 1 }, { "block-many", 6, 0, 3 },
        { "block-copy-damaged", 6, 0, 3 },
    };
    char text[4096] = "";

    (void) state;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        size_t n = read_corpus(blocks[i].name, text, sizeof text);
        struct seen seen;

        assert_true(unpack(text + 1, n - 1, &seen));
        assert_int_equal(seen.n_claims, blocks[i].n_claims);
        assert_int_equal(seen.n_damaged, blocks[i].n_damaged);
        assert_int_equal(seen.n_cooling, blocks[i].n_cooling);
    }
}

static void events_of_one_commit_cost_little(void **state)
{
    enum { MANY = 64, AN_EVENT_BYTES = 5 };
    static struct event_record all[MANY], seen[MANY];
    const struct event_record *events[MANY];
    struct event_record *next = seen;
    struct bytes value = { 0 };

    (void) state;
    for (size_t i = 0; i < MANY; i++) {
        all[i].event = (dibs_event){ .seq = 22000 + i,
                                     .time_ms = 1700000000000 + (int64_t) i,
                                     .kind = i % 2 ? DIBS_EV_CLAIMED : DIBS_EV_RELEASED,
                                     .claim_id = 1099511650049 + i,
                                     .generation = 1,
                                     .port = (uint16_t) (23616 + i),
                                     .protos = 2,
                                     .is_dynamic = true,
                                     .actor_pid = 26879,
                                     .principal = "uid:0" };
        all[i].cursor = 11000 + (i + 1) / 2;
        events[i] = &all[i];
    }
    pack_events(&value, events, MANY);
    assert_true(value.n <= MANY * AN_EVENT_BYTES);
    assert_true(unpack_events(packed(&value), see_event, &next));
    assert_ptr_equal(next, seen + MANY);
    assert_memory_equal(seen, all, sizeof all);
    bytes_done(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_a_claim_comes_back),
        cmocka_unit_test(a_port_that_cools_comes_back),
        cmocka_unit_test(neighbours_that_cool_cost_little),
        cmocka_unit_test(claims_that_resemble_the_first_one_cost_little),
        cmocka_unit_test(without_its_first_claim_a_block_keeps_its_ports),
        cmocka_unit_test(a_damaged_claim_harms_no_other),
        cmocka_unit_test(the_rest_of_a_damaged_claim_is_still_damaged),
        cmocka_unit_test(a_block_that_was_cut_is_refused),
        cmocka_unit_test(a_name_and_a_pool_come_back),
        cmocka_unit_test(every_other_record_comes_back),
        cmocka_unit_test(events_come_back_in_their_order),
        cmocka_unit_test(the_corpus_of_the_fuzzer_is_of_this_format),
        cmocka_unit_test(events_of_one_commit_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
