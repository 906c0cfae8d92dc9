/* SPDX-License-Identifier: MIT */
/* Metrics of an engine on a real ledger. */
#include "daemon/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/api/internal.h"
#include "support/ledger.h"

#define TOTAL "dibs_allocator_allocation_total"
#define ERRORS "dibs_allocator_allocation_errors_total"
#define KUBE "kube_apiserver_nodeport_allocator_"

struct fixture {
    struct loop *loop;
    struct engine *engine;
    struct metrics *metrics;
    struct bytes text;
    dibs_settings settings;
    char dir[256];
    uint64_t n_changes;
    dibs_err err;
};

static void changed(void *ctx, const dibs_event *event, const char *pool, int change)
{
    struct fixture *f = ctx;

    (void) change;
    f->n_changes++;
    metrics_changed(f->metrics, event, pool);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char uri[300];

    assert_non_null(f);
    t_make_directory(f->dir);
    (void) snprintf(uri, sizeof uri, "sqlite:%s/ledger.db", f->dir);
    const dibs_flag flags[] = { { DIBS_SET_LEDGER, uri }, { DIBS_SET_SOCKET, "none" } };
    ASSERT_OK(dibs_settings_load(flags, 2, &f->settings, &f->err), &f->err);
    ASSERT_OK(loop_open(&f->loop, &f->err), &f->err);
    const struct engine_options options = {
        .loop = f->loop, .settings = &f->settings, .changed = changed, .ctx = f
    };
    ASSERT_OK(engine_open(&options, &f->engine, &f->err), &f->err);
    ASSERT_OK(metrics_open(f->engine, NULL, &f->metrics, &f->err), &f->err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    engine_close(f->engine);
    metrics_close(f->metrics);
    loop_close(f->loop);
    bytes_done(&f->text);
    t_remove_directory(f->dir);
    free(f);
    return 0;
}

/* Scrapes, once the engine has seen this many changes. */
static void scrape(struct fixture *f, uint64_t n_changes)
{
    int64_t until_ms = clock_monotonic_ms() + 10000;

    while (f->n_changes < n_changes && clock_monotonic_ms() < until_ms) {
        assert_int_equal(loop_turn(f->loop, 100, NULL), DIBS_OK);
        engine_turn(f->engine);
    }
    assert_int_equal(f->n_changes, n_changes);
    f->text.n = 0;
    metrics_write(f->metrics, 7, &f->text);
    bytes_add(&f->text, "", 1);
    assert_false(f->text.is_lost);
}

static bool has(const struct fixture *f, const char *series)
{
    size_t n = strlen(series);
    const char *at = f->text.at;

    for (at = strstr(at, series); at; at = strstr(at + n, series))
        if (at[-1] == '\n' && at[n] == ' ')
            return true;
    return false;
}

static unsigned long value(const struct fixture *f, const char *series)
{
    char line[256];
    unsigned long found = 0;

    (void) snprintf(line, sizeof line, "\n%s ", series);
    const char *at = strstr(f->text.at, line);
    if (!at)
        fail_msg("there is no %s", series);
    assert_int_equal(sscanf(at + strlen(line), "%lu", &found), 1);
    return found;
}

#define ASSERT_VALUE(f, series, number) assert_int_equal(value(f, series), number)

static void add_pool(struct fixture *f, const char *name, const char *ranges, int32_t band)
{
    dibs_pool pool = { .order = "lowest", .band = band };

    (void) snprintf(pool.name, sizeof pool.name, "%s", name);
    ASSERT_OK(dibs_ranges_parse(ranges, &pool.ranges, &f->err), &f->err);
    ASSERT_OK(dibs_pool_put(f->engine->handle, &pool, &f->err), &f->err);
}

/* On an address of our own, where only a wildcard of somebody else could be in the way. */
static dibs_claim claim(struct fixture *f, const char *pool, uint16_t port, const char *address)
{
    dibs_request request = { .pool = pool, .port = port, .mode = port ? DIBS_REQUIRED : DIBS_RANDOM };
    dibs_claim got;
    dibs_address addresses[2];
    size_t n = 0;

    ASSERT_OK(dibs_address_parse(address, addresses, &n, &f->err), &f->err);
    request.bindings[0] = (dibs_binding){ DIBS_TCP, addresses[0] };
    request.n_bindings = 1;
    request.keep = true;
    ASSERT_OK(
        dibs_claim_ports(f->engine->handle, &(dibs_batch){ .requests = &request, .n = 1 }, &got, &f->err),
        &f->err);
    return got;
}

static void every_series_is_there_before_anything_happens(void **state)
{
    static const char *const zero[] = {
        "dibs_allocator_allocated_ports{pool=\"default\",kind=\"static\"}",
        "dibs_allocator_allocated_ports{pool=\"(other)\",kind=\"dynamic\"}",
        TOTAL "{pool=\"default\",scope=\"dynamic\"}",
        ERRORS "{pool=\"default\",scope=\"static\",reason=\"taken\"}",
        ERRORS "{pool=\"(other)\",scope=\"dynamic\",reason=\"exhausted\"}",
        "dibs_allocator_spilled_total{pool=\"default\"}",
        "dibs_allocator_reaped_total{pool=\"default\"}",
        "dibs_allocator_leaked_total{pool=\"(other)\"}",
        "dibs_events_total{kind=\"claimed\"}",
        "dibs_repair_findings_total{type=\"leak\"}",
        "dibs_probe_refusals_total",
        "dibs_degraded",
        "dibs_commit_jobs_bucket{le=\"512\"}",
        "dibs_watched_processes{by=\"pidfd\"}",
        "dibs_request_duration_seconds_count{route=\"(other)\",code=\"4xx\"}",
    };
    struct fixture *f = *state;
    char series[256];

    scrape(f, 0);
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        ASSERT_VALUE(f, zero[i], 0);
    for (size_t i = 0; i < api_router.n; i++) {
        (void) snprintf(series, sizeof series,
                        "dibs_request_duration_seconds_count{route=\"%s %s\",code=\"2xx\"}",
                        api_routes[i].route.method, api_routes[i].route.path);
        ASSERT_VALUE(f, series, 0);
    }
    ASSERT_VALUE(f, "dibs_connections", 7);
    ASSERT_VALUE(f, "dibs_build_info{version=\"" DIBS_VERSION "\"}", 1);
}

static void compare_with_usage(struct fixture *f, const char *pool)
{
    dibs_pool_usage usage;
    char series[256];
    unsigned long available = 0;

    ASSERT_OK(dibs_pool_usage_of(f->engine->handle, pool, &usage, &f->err), &f->err);
    (void) snprintf(series, sizeof series, "dibs_allocator_allocated_ports{pool=\"%s\",kind=\"static\"}",
                    pool);
    ASSERT_VALUE(f, series, usage.n_static);
    (void) snprintf(series, sizeof series, "dibs_allocator_allocated_ports{pool=\"%s\",kind=\"dynamic\"}",
                    pool);
    ASSERT_VALUE(f, series, usage.n_dynamic);
    (void) snprintf(series, sizeof series, "dibs_allocator_available_ports{pool=\"%s\",band=\"static\"}",
                    pool);
    available = value(f, series);
    (void) snprintf(series, sizeof series, "dibs_allocator_available_ports{pool=\"%s\",band=\"dynamic\"}",
                    pool);
    assert_int_equal(available + value(f, series), usage.n_available);
}

static void the_counts_of_a_pool_are_those_of_the_ledger(void **state)
{
    struct fixture *f = *state;

    add_pool(f, "small", "31500-31549", 20);
    (void) claim(f, "small", 31500, "127.70.0.1");
    (void) claim(f, "small", 31500, "127.70.0.2"); /* one port, two claims */
    (void) claim(f, "small", 31501, "127.70.0.1");
    dibs_claim chosen = claim(f, "small", 0, "127.70.0.1");
    (void) claim(f, "small", chosen.port, "127.70.0.2"); /* of both kinds: static */
    (void) claim(f, "small", 0, "127.70.0.1");
    (void) claim(f, NULL, 19000, "127.70.0.1"); /* of no pool */
    dibs_claim spare = claim(f, "small", 31502, "127.70.0.1");
    scrape(f, 9);
    ASSERT_OK(dibs_claim_release(f->engine->handle, &(dibs_which){ .token = spare.token }, 0, NULL, &f->err),
              &f->err);
    scrape(f, 10);
    compare_with_usage(f, "small");
    compare_with_usage(f, "default");
    ASSERT_VALUE(f, "dibs_allocator_allocated_ports{pool=\"small\",kind=\"static\"}", 3);
    ASSERT_VALUE(f, "dibs_allocator_allocated_ports{pool=\"small\",kind=\"dynamic\"}", 1);
    ASSERT_VALUE(f, "dibs_allocator_available_ports{pool=\"small\",band=\"static\"}", 18);
    ASSERT_VALUE(f, "dibs_allocator_available_ports{pool=\"small\",band=\"dynamic\"}", 28);
    ASSERT_VALUE(f, "dibs_allocator_allocated_ports{pool=\"(other)\",kind=\"static\"}", 1);
    ASSERT_VALUE(f, TOTAL "{pool=\"small\",scope=\"static\"}", 5);
    ASSERT_VALUE(f, TOTAL "{pool=\"small\",scope=\"dynamic\"}", 2);
    ASSERT_VALUE(f, TOTAL "{pool=\"(other)\",scope=\"static\"}", 1);
    ASSERT_VALUE(f, "dibs_events_total{kind=\"released\"}", 1);
    ASSERT_VALUE(f, "dibs_claims", 7);
}

static void dynamic_claims_of_the_static_band_are_spilled(void **state)
{
    struct fixture *f = *state;
    unsigned long spilled = 0;

    add_pool(f, "tiny", "31600-31607", 5);
    for (size_t i = 0; i < 6; i++)
        spilled += claim(f, "tiny", 0, "127.70.0.3").port < 31605;
    assert_true(spilled >= 3);
    scrape(f, 7);
    ASSERT_VALUE(f, "dibs_allocator_spilled_total{pool=\"tiny\"}", spilled);
    ASSERT_VALUE(f, "dibs_allocator_spilled_total{pool=\"default\"}", 0);
}

static void refusals_are_counted_by_pool_scope_and_reason(void **state)
{
    struct fixture *f = *state;
    dibs_ranges ranges;
    dibs_request request = { 0 };
    const dibs_batch batch = { .requests = &request, .n = 1 };

    ASSERT_OK(dibs_ranges_parse("40000-40001", &ranges, &f->err), &f->err);
    metrics_refused(f->metrics, &batch, &f->settings, DIBS_EXHAUSTED);
    request.mode = DIBS_REQUIRED;
    metrics_refused(f->metrics, &batch, &f->settings, DIBS_TAKEN);
    request.pool = "nowhere";
    metrics_refused(f->metrics, &batch, &f->settings, DIBS_NOT_FOUND);
    request = (dibs_request){ .ranges = &ranges, .mode = DIBS_PREFERRED };
    metrics_refused(f->metrics, &batch, &f->settings, DIBS_EXHAUSTED);
    metrics_refused(f->metrics, &(dibs_batch){ 0 }, &f->settings, DIBS_INVALID); /* it could not be read */
    scrape(f, 0);
    ASSERT_VALUE(f, ERRORS "{pool=\"default\",scope=\"dynamic\",reason=\"exhausted\"}", 1);
    ASSERT_VALUE(f, ERRORS "{pool=\"default\",scope=\"static\",reason=\"taken\"}", 1);
    ASSERT_VALUE(f, ERRORS "{pool=\"(other)\",scope=\"static\",reason=\"not_found\"}", 1);
    ASSERT_VALUE(f, ERRORS "{pool=\"(other)\",scope=\"dynamic\",reason=\"exhausted\"}", 1);
    ASSERT_VALUE(f, ERRORS "{pool=\"default\",scope=\"dynamic\",reason=\"invalid\"}", 1);
    ASSERT_VALUE(f, "dibs_degraded", 0);
}

static void a_missing_ledger_is_reported_until_a_write_succeeds(void **state)
{
    struct fixture *f = *state;
    const dibs_request request = { 0 };

    metrics_refused(f->metrics, &(dibs_batch){ .requests = &request, .n = 1 }, &f->settings,
                    DIBS_UNAVAILABLE);
    scrape(f, 0);
    ASSERT_VALUE(f, "dibs_degraded", 1);
    (void) claim(f, NULL, 0, "127.70.0.4");
    scrape(f, 1);
    ASSERT_VALUE(f, "dibs_degraded", 0);
}

static void pools_beyond_the_limit_are_reported_together(void **state)
{
    struct fixture *f = *state;
    char name[16];
    char series[128];
    size_t n_shown = 0;

    for (unsigned i = 0; i < METRICS_POOLS_MAX + 5; i++) {
        (void) snprintf(name, sizeof name, "p%03u", i);
        add_pool(f, name, "31700-31799", 0);
    }
    scrape(f, METRICS_POOLS_MAX + 5);
    for (unsigned i = 0; i < METRICS_POOLS_MAX + 5; i++) {
        (void) snprintf(series, sizeof series, "dibs_allocator_spilled_total{pool=\"p%03u\"}", i);
        n_shown += has(f, series);
    }
    assert_int_equal(n_shown, METRICS_POOLS_MAX - 1); /* and the default one */
    assert_false(has(f, "dibs_allocator_spilled_total{pool=\"p068\"}"));
    (void) claim(f, "p068", 0, "127.70.0.5");
    (void) claim(f, "p001", 0, "127.70.0.5");
    scrape(f, METRICS_POOLS_MAX + 7);
    ASSERT_VALUE(f, TOTAL "{pool=\"(other)\",scope=\"dynamic\"}", 1);
    ASSERT_VALUE(f, TOTAL "{pool=\"p001\",scope=\"dynamic\"}", 1);
    /* A removed pool frees its place, and the others keep their counts. */
    ASSERT_OK(dibs_pool_remove(f->engine->handle, "p000", &f->err), &f->err);
    scrape(f, METRICS_POOLS_MAX + 8);
    assert_false(has(f, "dibs_allocator_spilled_total{pool=\"p000\"}"));
    scrape(f, METRICS_POOLS_MAX + 8);
    assert_true(has(f, "dibs_allocator_spilled_total{pool=\"p063\"}"));
    ASSERT_VALUE(f, TOTAL "{pool=\"p001\",scope=\"dynamic\"}", 1);
}

static void a_pool_can_have_the_names_of_kubernetes(void **state)
{
    struct fixture *f = *state;
    struct metrics *other = NULL;
    const dibs_request request = { .pool = "nodeports", .mode = DIBS_REQUIRED, .port = 31800 };

    assert_int_equal(metrics_open(f->engine, "nodeports", &other, &f->err), DIBS_NOT_FOUND);
    assert_null(other);
    assert_non_null(strstr(f->err.msg, "nodeports"));
    add_pool(f, "nodeports", "31800-31999", DIBS_BAND_AUTO);
    scrape(f, 1);
    assert_false(has(f, KUBE "allocated_ports"));
    metrics_close(f->metrics);
    ASSERT_OK(metrics_open(f->engine, "nodeports", &f->metrics, &f->err), &f->err);
    scrape(f, 1);
    ASSERT_VALUE(f, KUBE "allocated_ports", 0);
    ASSERT_VALUE(f, KUBE "available_ports", 200);
    ASSERT_VALUE(f, KUBE "allocation_total{scope=\"static\"}", 0);
    (void) claim(f, "nodeports", 31800, "127.70.0.6");
    (void) claim(f, "nodeports", 0, "127.70.0.6");
    (void) claim(f, "nodeports", 0, "127.70.0.6");
    metrics_refused(f->metrics, &(dibs_batch){ .requests = &request, .n = 1 }, &f->settings, DIBS_TAKEN);
    metrics_refused(f->metrics, &(dibs_batch){ .requests = &request, .n = 1 }, &f->settings, DIBS_DENIED);
    scrape(f, 4);
    ASSERT_VALUE(f, KUBE "allocated_ports", 3);
    ASSERT_VALUE(f, KUBE "available_ports", 197);
    ASSERT_VALUE(f, KUBE "allocation_total{scope=\"static\"}", 1);
    ASSERT_VALUE(f, KUBE "allocation_total{scope=\"dynamic\"}", 2);
    ASSERT_VALUE(f, KUBE "allocation_errors_total{scope=\"static\"}", 2);
    ASSERT_VALUE(f, KUBE "allocation_errors_total{scope=\"dynamic\"}", 0);
}

static void latencies_stand_in_growing_buckets(void **state)
{
    static const int64_t us[] = { 0, 250, 251, 900, 5000, 2000000 };
    struct fixture *f = *state;
    char series[160];
#define LATENCY(what, more)                                                                              \
    (snprintf(series, sizeof series, "dibs_request_duration_seconds_%s{route=\"%s %s\",code=\"2xx\"%s}", \
              what, api_routes[0].route.method, api_routes[0].route.path, more),                         \
     series)

    for (size_t i = 0; i < sizeof us / sizeof *us; i++)
        metrics_request(f->metrics, &api_routes[0], 201, us[i]);
    metrics_request(f->metrics, NULL, 404, 10);
    scrape(f, 0);
    ASSERT_VALUE(f, LATENCY("bucket", ",le=\"0.00025\""), 2);
    ASSERT_VALUE(f, LATENCY("bucket", ",le=\"0.001\""), 4);
    ASSERT_VALUE(f, LATENCY("bucket", ",le=\"0.016\""), 5);
    ASSERT_VALUE(f, LATENCY("bucket", ",le=\"1\""), 5);
    ASSERT_VALUE(f, LATENCY("bucket", ",le=\"+Inf\""), 6);
    ASSERT_VALUE(f, LATENCY("count", ""), 6);
    ASSERT_VALUE(f, LATENCY("sum", ""), 2); /* and 6401 us */
    ASSERT_VALUE(f, "dibs_request_duration_seconds_count{route=\"(other)\",code=\"4xx\"}", 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_series_is_there_before_anything_happens),
        CASE(the_counts_of_a_pool_are_those_of_the_ledger),
        CASE(dynamic_claims_of_the_static_band_are_spilled),
        CASE(refusals_are_counted_by_pool_scope_and_reason),
        CASE(a_missing_ledger_is_reported_until_a_write_succeeds),
        CASE(pools_beyond_the_limit_are_reported_together),
        CASE(a_pool_can_have_the_names_of_kubernetes),
        CASE(latencies_stand_in_growing_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
