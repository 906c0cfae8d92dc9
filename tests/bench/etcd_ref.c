/* SPDX-License-Identifier: MIT */
/* The design that Kubernetes uses for NodePorts, as a client of the same etcd through the same gateway: one
 * key with a bitmap of all ports, changed by compare-and-swap, once for each claim and each release. Callers
 * of one server wait for its lock there, one after another, so however many they are they are one stream of
 * swaps; each server is a process here. A server that lost the race gets the new value with the answer and
 * retries.
 *
 * usage: etcd_ref URL SERVERS SECONDS          prints one JSON object */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"
#include "store/etcd/client/etcd.h"

enum { PORTS = 12768, BYTES = (PORTS + 7) / 8, SERVERS_MAX = 256, DEADLINE_MS = 20000 };

struct counts {
    uint64_t n_done, n_conflicts, n_errors;
};

struct bitmap {
    int64_t revision; /* 0: it is not there */
    uint8_t bits[BYTES];
};

static bool has(const struct bitmap *b, uint32_t port)
{
    return b->bits[port / 8] >> port % 8 & 1;
}

/* Kubernetes' allocator: any free one, from a random place on. */
static uint32_t choose(const struct bitmap *b, uint64_t *random)
{
    uint32_t from = (uint32_t) (bench_random(random) % PORTS);

    for (uint32_t i = 0; i < PORTS; i++)
        if (!has(b, (from + i) % PORTS))
            return (from + i) % PORTS;
    return 0;
}

static void take(struct bitmap *b, const struct etcd_kv *kv)
{
    b->revision = kv->mod_revision;
    if (kv->value.n == BYTES)
        memcpy(b->bits, kv->value.at, BYTES);
}

/* True: the swap was made. */
static bool swap(struct etcd *etcd, struct bitmap *b, const struct bitmap *next, struct counts *counts)
{
    const struct etcd_bytes key = ETCD_BYTES("/registry/ranges/servicenodeports");
    const struct etcd_compare same = { .target = ETCD_MOD_REVISION, .key = key, .number = b->revision };
    const struct etcd_op put = { .kind = ETCD_PUT, .key = key, .value = { next->bits, BYTES } };
    const struct etcd_op look = { .kind = ETCD_RANGE, .key = key };
    const struct etcd_txn txn = { &same, 1, &put, 1, &look, 1 };
    const struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + DEADLINE_MS };
    struct etcd_answer answer = { 0 };

    if (etcd_do(etcd, &call, &op, &answer, NULL) != DIBS_OK) {
        counts->n_errors++;
        return false;
    }
    bool is_done = answer.result.succeeded;
    if (is_done) {
        *b = *next;
        b->revision = answer.revision;
    } else if (answer.result.n_results == 1 && answer.result.results[0].n_kvs == 1) {
        take(b, &answer.result.results[0].kvs[0]);
    }
    counts->n_done += is_done;
    counts->n_conflicts += !is_done;
    etcd_answer_done(&answer);
    return is_done;
}

static void call_for(const char *url, uint64_t number, int64_t from_ns, int64_t until_ns, struct counts *out)
{
    struct etcd_config config;
    struct etcd *etcd = NULL;
    static struct bitmap now, next;
    struct counts warm_up = { 0 };
    uint64_t random = number;
    uint32_t port = 0;
    bool is_held = false;

    if (etcd_config_parse(url, &config, NULL) != DIBS_OK || etcd_open(&config, &etcd, NULL) != DIBS_OK)
        _exit(1);
    while (bench_now_ns() < until_ns) {
        struct counts *counts = bench_now_ns() < from_ns ? &warm_up : out;

        next = now;
        if (!is_held)
            port = choose(&now, &random);
        next.bits[port / 8] ^= (uint8_t) (1 << port % 8);
        if (swap(etcd, &now, &next, counts))
            is_held = !is_held;
    }
    etcd_close(etcd);
}

int main(int argc, char **argv)
{
    long servers = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;
    struct counts *counts =
        mmap(NULL, SERVERS_MAX * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct counts sum = { 0 };

    if (servers < 1 || servers > SERVERS_MAX || seconds <= 0 || counts == MAP_FAILED) {
        (void) fprintf(stderr, "usage: etcd_ref URL SERVERS SECONDS\n");
        return 2;
    }
    int64_t from_ns = bench_now_ns() + (int64_t) (seconds / 4 * 1e9);
    int64_t until_ns = from_ns + (int64_t) (seconds * 1e9);
    for (long i = 0; i < servers; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            call_for(argv[1], (uint64_t) i + 1, from_ns, until_ns, &counts[i]);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        continue;
    for (long i = 0; i < servers; i++) {
        sum.n_done += counts[i].n_done;
        sum.n_conflicts += counts[i].n_conflicts;
        sum.n_errors += counts[i].n_errors;
    }
    (void) printf("{\"servers\":%ld,\"requests\":%" PRIu64 ",\"per_second\":%.0f,\"conflicts\":%" PRIu64
                  ",\"errors\":%" PRIu64 "}\n",
                  servers, sum.n_done, (double) sum.n_done / seconds, sum.n_conflicts, sum.n_errors);
    return sum.n_done > 0 ? 0 : 1;
}
