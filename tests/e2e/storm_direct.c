/* SPDX-License-Identifier: MIT */
/* Many processes of one host on a ledger in etcd, none of them through a daemon.
 *
 *   storm_direct clients=16 ports=64 rounds=20
 *
 * They share nothing but etcd: each reads, decides, probes and commits by itself. There are as many ports as
 * they hold together, so whoever has released one finds one. What must hold:
 *   - no two have the same port at any moment (INV-1);
 *   - nobody is refused: a port that another one just probes, or that was free a moment ago, is no reason. */
#include "storm_cluster.h"

#define POOL "direct"
enum { FIRST = 28000, PORTS_MAX = 512, CLIENTS_MAX = 64, NOBODY = 0 };

struct storm {
    _Atomic int whose[PORTS_MAX]; /* the client that has it, counted from one */
    _Atomic size_t n_claims;
    uint64_t seed;
    size_t n_clients, n_ports, n_rounds;
};

struct held {
    uint16_t port;
    char token[DIBS_TOKEN_MAX + 1];
};

static void claim_one(struct storm *storm, size_t client, dibs *handle, struct held *out)
{
    /* UDP: a probe is in the way of another one, which for TCP it is not. */
    const dibs_request request = { .pool = POOL,
                                   .mode = DIBS_RANDOM,
                                   .holder = DIBS_HELD_BY_LEASE,
                                   .ttl_ms = 600000,
                                   .n_bindings = 2,
                                   .bindings = { { DIBS_UDP, { .len = 4 } }, { DIBS_TCP, { .len = 4 } } } };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    int nobody = NOBODY;

    if (dibs_claim_ports(handle, &(dibs_batch){ .requests = &request, .n = 1 }, &claim, &err) != DIBS_OK) {
        storm_violation("client %zu is refused: %s", client, err.msg);
        exit(1);
    }
    if (!atomic_compare_exchange_strong(&storm->whose[claim.port - FIRST], &nobody, (int) client + 1))
        storm_violation("two at once on port %u: clients %d and %zu", claim.port, nobody - 1, client);
    atomic_fetch_add(&storm->n_claims, 1);
    *out = (struct held){ .port = claim.port };
    memcpy(out->token, claim.token, sizeof out->token);
}

static void release_one(struct storm *storm, size_t client, dibs *handle, const struct held *held)
{
    dibs_err err = { 0 };
    size_t n = 0;

    atomic_store(&storm->whose[held->port - FIRST], NOBODY);
    if (dibs_claim_release(handle, &(dibs_which){ .token = held->token }, 0, &n, &err) != DIBS_OK || n != 1)
        storm_violation("client %zu cannot release port %u: %s", client, held->port, err.msg);
}

_Noreturn static void live(struct storm *storm, size_t client)
{
    struct storm_random random = storm_random_of(storm->seed, 1000 + client);
    struct held held[PORTS_MAX];
    size_t n = storm->n_ports / storm->n_clients;
    dibs *handle = storm_open();

    for (size_t i = 0; i < n; i++)
        claim_one(storm, client, handle, &held[i]);
    for (size_t i = 0; i < storm->n_rounds; i++) {
        struct held *one = &held[storm_below(&random, (uint32_t) n)];

        release_one(storm, client, handle, one);
        claim_one(storm, client, handle, one);
    }
    dibs_close(handle);
    _exit(0);
}

static void make_pool(const struct storm *storm)
{
    const dibs_pool pool = { .name = POOL,
                             .order = "stride",
                             .ranges = { .item = { { FIRST, (uint16_t) (FIRST + storm->n_ports - 1) } },
                                         .n = 1 } };
    dibs_err err = { 0 };
    dibs *handle = storm_open();

    if (dibs_pool_put(handle, &pool, &err) != DIBS_OK)
        storm_die("the pool cannot be made: %s", err.msg);
    dibs_close(handle);
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_direct");
    struct storm_cluster *cluster = storm_cluster_begin(false);
    struct storm *storm = storm_share(sizeof *storm);
    pid_t pids[CLIENTS_MAX] = { 0 };

    if (!cluster) {
        printf("storm_direct: etcd-server: not installed\n");
        return 77;
    }
    storm->seed = seed;
    storm->n_clients = (size_t) storm_number(argc, argv, "clients", 16);
    storm->n_ports = (size_t) storm_number(argc, argv, "ports", 64);
    storm->n_rounds = (size_t) storm_number(argc, argv, "rounds", 20);
    if (storm->n_clients < 1 || storm->n_clients > CLIENTS_MAX || storm->n_ports > PORTS_MAX ||
        storm->n_ports % storm->n_clients != 0)
        storm_die("clients: 1 to %d, ports: 1 to %d, as many for each", CLIENTS_MAX, PORTS_MAX);
    storm_cluster_upset(cluster, seed); /* starts it */
    if (setenv("DIBS_SOCKET", "none", 1) != 0)
        storm_die("the socket cannot be set");
    make_pool(storm);
    for (size_t i = 0; i < storm->n_clients; i++) {
        pid_t pid = storm_fork();
        if (pid == 0)
            live(storm, i);
        pids[i] = pid;
    }
    for (size_t i = 0; i < storm->n_clients; i++)
        if (storm_wait(pids[i]) != 0)
            storm_violation("client %zu has not come to its end", i);
    printf("  %zu claims by %zu processes without a daemon, on %zu ports\n", atomic_load(&storm->n_claims),
           storm->n_clients, storm->n_ports);
    return storm_end("storm_direct");
}
