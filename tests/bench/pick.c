/* SPDX-License-Identifier: MIT */
/* Choosing a free port in memory: what a claim runs once the index is loaded (candidate_source() and
 * candidate_ports(), which lists the candidates of one claim) against the way Kubernetes' allocator picks.
 *
 * Kubernetes is written in Go. What stands here for it is our own model of its algorithm, not its code: a
 * random start, then bit after bit of a big integer, upper band first. The model is spared what the real one
 * also pays (a lock, its own random number, a write), so a ratio against it is a lower bound.
 * Each pick starts where the result of the one before says, so that no two of them overlap in the CPU.
 * usage: pick      for each case three lines: its name, ours, the model; JSON arrays of ns a pick */
#include <stdbool.h>
#include <string.h>

#include "bench.h"
#include "core/attempt.h"
#include "core/candidate.h"

enum { ROUNDS = 60, PICKS_OURS = 2000, WORDS = 1024 };

struct model {
    uint64_t bits[WORDS];
    uint32_t size, band, n_taken;
};

/* As a big integer is asked: bit i, bounds checked. */
static __attribute__((noinline)) unsigned model_bit(const struct model *m, uint32_t i)
{
    uint32_t word = i / 64;

    return word >= WORDS ? 0 : (unsigned) (m->bits[word] >> (i % 64) & 1);
}

static __attribute__((noinline)) int32_t model_pick(const struct model *m, uint32_t start)
{
    uint32_t upper = m->size - m->band;

    if (m->n_taken >= m->size)
        return -1;
    for (uint32_t i = 0; i < upper; i++) {
        uint32_t at = m->band + (start + i) % upper;

        if (!model_bit(m, at))
            return (int32_t) at;
    }
    for (uint32_t i = 0; i < m->band; i++) {
        uint32_t at = (start + i) % m->band;

        if (!model_bit(m, at))
            return (int32_t) at;
    }
    return -1;
}

struct scene {
    const char *name;
    dibs_range range;
    uint32_t n_free; /* 0: all */
    uint32_t picks_model;
};

static struct core *core;
static dibs_pool pool_used;
static dibs_claim wanted; /* TCP on every address */
static struct call call;
static struct model model;
static volatile uint32_t zero; /* what the compiler cannot know */

static struct instant now(void *ctx)
{
    (void) ctx;
    return (struct instant){ 1700000000000, 5000000 };
}

static void open_core(void)
{
    const struct core_options options = { .now = now };
    struct ledger *ledger = NULL;
    dibs_err err = { 0 };

    if (ledger_open("memory:", &(struct ledger_options){ .timeout_ms = 1000 }, &ledger, &err) != DIBS_OK ||
        core_open(ledger, &options, &core, &err) != DIBS_OK ||
        core_index_refresh(core, &call, &err) != DIBS_OK) {
        (void) fprintf(stderr, "pick: %s\n", err.msg);
        exit(1);
    }
}

static void set_up(const struct scene *scene, uint64_t *seed)
{
    dibs_pool pool = { .name = "ports",
                       .ranges = { .item = { scene->range }, .n = 1 },
                       .band = DIBS_BAND_AUTO,
                       .order = "stride" };
    uint32_t size = (uint32_t) (scene->range.last - scene->range.first + 1);
    uint32_t n_taken = scene->n_free ? size - scene->n_free : 0;

    open_core();
    pool_used = pool;
    const struct candidate_source *source = candidate_source(core, &call, &pool, candidate_kind_of(&wanted));
    memset(&model, 0, sizeof model);
    model.size = size;
    model.band = source->band;
    for (uint32_t i = 0; i < size; i++) /* what is withheld from choice is taken, to the model */
        if (!portbits_has(&source->choosable, (uint16_t) (scene->range.first + i))) {
            model.bits[i / 64] |= UINT64_C(1) << (i % 64);
            model.n_taken++;
        }
    while (model.n_taken < n_taken) {
        uint32_t i = (uint32_t) (bench_random(seed) % size);

        if (model_bit(&model, i))
            continue;
        wanted.port = (uint16_t) (scene->range.first + i);
        core_index_note_claim(core, &wanted);
        model.bits[i / 64] |= UINT64_C(1) << (i % 64);
        model.n_taken++;
    }
}

static double time_ours(uint64_t seed)
{
    static const struct portbits nothing;
    struct candidate_choice choice = {
        .claim = &wanted, .skipped = &nothing, .now_ms = call.now.boot_ms, .enough = 1
    };
    uint16_t ports[EXACT_MAX] = { 0 };
    int64_t began = bench_now_ns();

    for (int i = 0; i < PICKS_OURS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        choice.cursor = (seed >> 40) + (ports[0] & zero);
        choice.source = candidate_source(core, &call, &pool_used, candidate_kind_of(&wanted));
        if (candidate_ports(core, &choice, ports, EXACT_MAX) == 0)
            abort();
    }
    return (double) (bench_now_ns() - began) / PICKS_OURS;
}

static double time_model(const struct scene *scene, uint64_t seed)
{
    uint32_t upper = model.size - model.band;
    int32_t at = 0;
    int64_t began = bench_now_ns();

    for (uint32_t i = 0; i < scene->picks_model; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t offset = (uint32_t) ((seed >> 32) * upper >> 32);

        at = model_pick(&model, offset + ((uint32_t) at & zero));
        if (at < 0)
            abort();
    }
    return (double) (bench_now_ns() - began) / scene->picks_model;
}

int main(void)
{
    static const struct scene scenes[] = {
        { "2768 ports, empty", { 30000, 32767 }, 0, 20000 },
        { "2768 ports, 50 % taken", { 30000, 32767 }, 1384, 20000 },
        { "2768 ports, 90 % taken", { 30000, 32767 }, 277, 10000 },
        { "2768 ports, 99 % taken", { 30000, 32767 }, 28, 4000 },
        { "the last of 65535", { 1, 65535 }, 1, 40 },
    };
    static const dibs_settings settings = { .pool = "default", .band = DIBS_BAND_AUTO, .order = "stride" };
    uint64_t seed = 1;
    double ours[ROUNDS];
    double theirs[ROUNDS];

    wanted.bindings[0] = (dibs_binding){ .proto = DIBS_TCP, .address = { .len = 16 } };
    wanted.n_bindings = 1;
    call = (struct call){ .principal = "uid:1000", .settings = &settings, .now = now(NULL) };
    for (size_t s = 0; s < sizeof scenes / sizeof scenes[0]; s++) {
        set_up(&scenes[s], &seed);
        for (int round = -3; round < ROUNDS; round++) { /* below 0: warming up */
            double a = time_ours(seed + (uint64_t) round);
            double b = time_model(&scenes[s], seed + (uint64_t) round);

            if (round >= 0) {
                ours[round] = a;
                theirs[round] = b;
            }
        }
        (void) printf("%s\n", scenes[s].name);
        bench_print(ours, ROUNDS);
        bench_print(theirs, ROUNDS);
        core_close(core);
    }
    return 0;
}
