/* SPDX-License-Identifier: MIT */
/* Durable claim and release through the library, and ledgers with many claims for other measurements.
 *
 * usage: ledger serve DIR          one handle and one SQLite ledger in DIR for each scene; prints their names
 * as a JSON array, then answers each line "SCENE COUNT" with a JSON array of the nanoseconds that a claim and
 * its release took together ledger fill PATH COUNT ADDRESS RANGE    a ledger with COUNT claims of ADDRESS in
 * RANGE */
#include <string.h>

#include "bench.h"
#include "dibs/dibs.h"

enum { SAMPLES_MAX = 100000, FILL_BATCH = 2048, DEFAULT_SIZE = 12768 };

static const struct scene {
    const char *name;
    const char *address;
    size_t n_held;
} scenes[] = {
    { "127.0.0.1, empty", "127.0.0.1", 0 },
    { "127.0.0.1, 50 % full", "127.0.0.1", DEFAULT_SIZE / 2 },
    { "127.0.0.1, 10,000 held", "127.0.0.1", 10000 },
    { "127.0.0.1, 99 % full", "127.0.0.1", DEFAULT_SIZE * 99 / 100 },
    { "*, empty", "*", 0 },
    { "*, 50 % full", "*", DEFAULT_SIZE / 2 },
    { "*, 10,000 held", "*", 10000 },
    { "*, 99 % full", "*", DEFAULT_SIZE * 99 / 100 },
};
enum { N_SCENES = sizeof scenes / sizeof scenes[0] };

static dibs *handles[N_SCENES];
static double samples[SAMPLES_MAX];

static void must(dibs_status status, const dibs_err *err)
{
    if (status == DIBS_OK)
        return;
    (void) fprintf(stderr, "ledger: %s\n", err->msg);
    exit(1);
}

static dibs *open_at(const char *path)
{
    char uri[4096];
    dibs_settings settings;
    dibs_err err = { 0 };
    dibs *handle = NULL;

    (void) snprintf(uri, sizeof uri, "sqlite:%s", path);
    const dibs_flag flags[] = {
        { DIBS_SET_LEDGER, uri },    { DIBS_SET_LEDGER_MODE, "strict" },   { DIBS_SET_SOCKET, "none" },
        { DIBS_SET_TIMEOUT, "60s" }, { DIBS_SET_ALLOW_EPHEMERAL, "true" },
    };
    must(dibs_settings_load(flags, sizeof flags / sizeof flags[0], &settings, &err), &err);
    must(dibs_open(&settings, &handle, &err), &err);
    return handle;
}

static dibs_request request_of(const char *address)
{
    dibs_request request = { .holder = DIBS_HELD_BY_PROCESS, .n_bindings = 1 };
    dibs_address addresses[2];
    size_t n = 0;
    dibs_err err = { 0 };

    must(dibs_address_parse(address, addresses, &n, &err), &err);
    request.bindings[0] = (dibs_binding){ DIBS_TCP, addresses[0] };
    return request;
}

/* Held by this process, or by a lease that outlives every measurement. */
static void fill(dibs *handle, dibs_request like, size_t n)
{
    dibs_request *requests = calloc(FILL_BATCH, sizeof *requests);
    dibs_claim *claims = calloc(FILL_BATCH, sizeof *claims);
    dibs_err err = { 0 };

    if (!requests || !claims)
        abort();
    for (size_t i = 0; i < FILL_BATCH; i++)
        requests[i] = like;
    while (n > 0) {
        dibs_batch batch = { .requests = requests, .n = n < FILL_BATCH ? n : FILL_BATCH };

        must(dibs_claim_ports(handle, &batch, claims, &err), &err);
        n -= batch.n;
    }
    free(requests);
    free(claims);
}

static void claim_and_release(dibs *handle, const dibs_request *request)
{
    dibs_batch batch = { .requests = request, .n = 1 };
    dibs_claim claim;
    dibs_err err = { 0 };
    size_t n = 0;

    must(dibs_claim_ports(handle, &batch, &claim, &err), &err);
    dibs_which which = { .token = claim.token };
    must(dibs_claim_release(handle, &which, 0, &n, &err), &err);
    if (n != 1)
        abort();
}

static int serve(const char *dir)
{
    char line[64];

    for (size_t i = 0; i < N_SCENES; i++) {
        char path[4096];

        (void) snprintf(path, sizeof path, "%s/scene-%zu.db", dir, i);
        handles[i] = open_at(path);
        fill(handles[i], request_of(scenes[i].address), scenes[i].n_held);
        (void) printf("%s\"%s\"", i ? ", " : "[", scenes[i].name);
    }
    (void) printf("]\n");
    (void) fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char *rest = NULL;
        size_t scene = strtoul(line, &rest, 10);
        size_t n = strtoul(rest, NULL, 10);

        if (scene >= N_SCENES || n > SAMPLES_MAX)
            return 2;
        dibs_request request = request_of(scenes[scene].address);

        for (size_t i = 0; i < n; i++) {
            int64_t began = bench_now_ns();

            claim_and_release(handles[scene], &request);
            samples[i] = (double) (bench_now_ns() - began);
        }
        bench_print(samples, n);
    }
    for (size_t i = 0; i < N_SCENES; i++)
        dibs_close(handles[i]);
    return 0;
}

static int fill_file(char **argv)
{
    dibs *handle = open_at(argv[0]);
    dibs_request like = request_of(argv[2]);
    dibs_ranges ranges;
    dibs_err err = { 0 };

    must(dibs_ranges_parse(argv[3], &ranges, &err), &err);
    like.ranges = &ranges;
    like.holder = DIBS_HELD_BY_LEASE;
    like.ttl_ms = 86400000; /* a day: longer than any run */
    fill(handle, like, strtoul(argv[1], NULL, 10));
    dibs_close(handle);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "serve"))
        return serve(argv[2]);
    if (argc == 6 && !strcmp(argv[1], "fill"))
        return fill_file(argv + 2);
    (void) fprintf(stderr, "usage: ledger serve DIR | fill PATH COUNT ADDRESS RANGE\n");
    return 2;
}
