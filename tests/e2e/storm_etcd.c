/* SPDX-License-Identifier: MIT */
/* Clients of several hosts in one pool of a cluster, while the members of its etcd die, hang and forget.
 *
 *   storm_etcd clients=16 ports=2768 seconds=60
 *
 * Each client claims until the pool is exhausted, then releases most of what it has, again and again. It has
 * a real socket on each port that is its own. What must hold:
 *   - from an answered claim to the call that releases it nobody else has that port (INV-1);
 *   - what was answered is there when all is calm, as every host sees it (INV-2);
 *   - after everybody's death nothing is held, and every port can be had. */
#include "storm_cluster.h"

#define POOL "storm"
enum { FIRST = 30000, PORTS_MAX = 2768, LAST = FIRST + PORTS_MAX - 1 };
enum { CLIENTS_MAX = 64, RECORDS_MAX = 1 << 16, HELD_MAX = PORTS_MAX, CALM_S = 40 };

/* The life of a claim by its client's own words. */
struct record {
    int64_t from_ns, to_ns; /* 0: it lives */
    uint16_t port;
    uint16_t client;
};

struct held {
    uint32_t record;
    int fd;
    char token[DIBS_TOKEN_MAX + 1];
};

struct client {
    size_t number;
    pid_t pid;
    _Atomic int is_still;
    size_t n_held, n_records;
    size_t n_claimed, n_released, n_exhausted, n_unsure;
    struct held held[HELD_MAX];
    struct record records[RECORDS_MAX];
};

struct storm {
    _Atomic int is_over;
    struct storm_cluster *cluster;
    uint64_t seed;
    uint16_t n_ports;
    size_t n;
    struct client clients[];
};

/* ---- a client ---- */

static bool is_unsure(dibs_status s)
{
    return s == DIBS_UNAVAILABLE || s == DIBS_FAILURE;
}

/* False: there is none left. */
static bool claim_one(struct client *c, dibs *handle)
{
    const dibs_request request = { .pool = POOL,
                                   .mode = DIBS_RANDOM,
                                   .holder = DIBS_HELD_BY_PROCESS,
                                   .n_bindings = 1,
                                   .bindings = { { DIBS_TCP, { .len = 4 } } } };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    dibs_status s = dibs_claim_ports(handle, &(dibs_batch){ .requests = &request, .n = 1 }, &claim, &err);
    struct held *held = &c->held[c->n_held];

    if (s == DIBS_EXHAUSTED) {
        c->n_exhausted++;
        return false;
    }
    if (s != DIBS_OK) {
        c->n_unsure++;
        if (!is_unsure(s))
            storm_violation("client %zu: a claim is answered with %d: %s", c->number, (int) s, err.msg);
        return true;
    }
    if (c->n_records == RECORDS_MAX || c->n_held == HELD_MAX)
        storm_die("client %zu: too many claims", c->number);
    *held = (struct held){ .record = (uint32_t) c->n_records };
    memcpy(held->token, claim.token, sizeof held->token);
    held->fd = storm_listen(&request.bindings[0], claim.port);
    if (held->fd < 0)
        storm_violation("client %zu: port %u is its own and cannot be bound: %s", c->number, claim.port,
                        strerror(errno));
    c->records[c->n_records] =
        (struct record){ .from_ns = storm_now_ns(), .port = claim.port, .client = (uint16_t) c->number };
    c->n_records++;
    c->n_held++;
    c->n_claimed++;
    return true;
}

static void release_one(struct client *c, dibs *handle, struct storm_random *random)
{
    size_t which = storm_below(random, (uint32_t) c->n_held);
    struct held held = c->held[which];
    dibs_err err = { 0 };
    size_t n = 0;

    c->records[held.record].to_ns = storm_now_ns();
    c->held[which] = c->held[--c->n_held];
    if (held.fd >= 0)
        (void) close(held.fd);
    dibs_status s = dibs_claim_release(handle, &(dibs_which){ .token = held.token }, 0, &n, &err);
    if (s == DIBS_OK && n != 1)
        storm_violation("client %zu: its claim on port %u was gone when it released it", c->number,
                        c->records[held.record].port);
    else if (s != DIBS_OK && !is_unsure(s))
        storm_violation("client %zu: a release is answered with %d: %s", c->number, (int) s, err.msg);
    c->n_released += s == DIBS_OK;
    c->n_unsure += s != DIBS_OK;
}

_Noreturn static void live(struct storm *storm, struct client *c)
{
    struct storm_random random = storm_random_of(storm->seed, 1000 + c->number);
    dibs *handle = storm_host_open(storm->cluster, c->number % HOSTS);

    while (!atomic_load(&storm->is_over)) {
        bool is_more = true;

        while (is_more && !atomic_load(&storm->is_over))
            is_more = claim_one(c, handle);
        for (size_t n = c->n_held - c->n_held / 8; n > 0 && !atomic_load(&storm->is_over); n--)
            release_one(c, handle, &random);
    }
    atomic_store(&c->is_still, 1);
    storm_stay(600);
}

/* ---- what must hold ---- */

static int by_port_and_time(const void *a, const void *b)
{
    const struct record *x = a;
    const struct record *y = b;

    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static void check_history(const struct storm *storm)
{
    size_t n = 0;

    for (size_t i = 0; i < storm->n; i++)
        n += storm->clients[i].n_records;
    struct record *all = calloc(n + 1, sizeof *all);
    if (!all)
        storm_die("out of memory");
    n = 0;
    for (size_t i = 0; i < storm->n; i++)
        for (size_t k = 0; k < storm->clients[i].n_records; k++)
            all[n++] = storm->clients[i].records[k];
    qsort(all, n, sizeof *all, by_port_and_time);
    for (size_t i = 1; i < n; i++) {
        const struct record *first = &all[i - 1];
        const struct record *next = &all[i];

        if (next->port == first->port && (first->to_ns == 0 || first->to_ns > next->from_ns))
            storm_violation("two at once on port %u: client %u from %lld, and client %u from %lld",
                            next->port, first->client, (long long) first->from_ns, next->client,
                            (long long) next->from_ns);
    }
    free(all);
}

struct listing {
    uint8_t n_of[LAST + 1];
    size_t n;
};

static bool note(void *ctx, const dibs_claim *claim)
{
    struct listing *l = ctx;

    if (claim->port >= FIRST && claim->port <= LAST) {
        l->n++;
        l->n_of[claim->port]++;
    }
    return true;
}

/* Asked until the host's daemon answers. */
static void list(dibs *handle, struct listing *out)
{
    dibs_err err = { 0 };

    for (int tries = 0;; tries++) {
        *out = (struct listing){ 0 };
        if (dibs_claim_list(handle, &(dibs_filter){ 0 }, note, out, &err) == DIBS_OK)
            return;
        if (tries > 20)
            storm_die("the claims cannot be listed: %s", err.msg);
        storm_sleep_us(100000);
    }
}

static size_t count_missing(const struct storm *storm, const struct listing *seen)
{
    size_t n = 0;

    for (size_t i = 0; i < storm->n; i++)
        for (size_t k = 0; k < storm->clients[i].n_held; k++)
            n += seen->n_of[storm->clients[i].records[storm->clients[i].held[k].record].port] != 1;
    return n;
}

/* Each host sees what all of them hold; a moment later than the host itself. */
static void check_none_lost(const struct storm *storm)
{
    size_t n_held = 0;
    size_t n_unsure = 0;

    for (size_t i = 0; i < storm->n; i++) {
        n_held += storm->clients[i].n_held;
        n_unsure += storm->clients[i].n_unsure;
    }
    for (size_t host = 0; host < HOSTS; host++) {
        dibs *handle = storm_host_open(storm->cluster, host);
        static struct listing seen;
        size_t n_missing = 0;

        for (int i = 0; i < CALM_S * 10; i++, storm_sleep_us(100000)) {
            list(handle, &seen);
            n_missing = count_missing(storm, &seen);
            if (n_missing == 0 && seen.n <= n_held + n_unsure)
                break;
        }
        if (n_missing > 0)
            storm_violation("host %zu: %zu of %zu claims are not there once", host, n_missing, n_held);
        if (seen.n > n_held + n_unsure)
            storm_violation("host %zu: %zu claims, although %zu are held and %zu answers were lost", host,
                            seen.n, n_held, n_unsure);
        dibs_close(handle);
    }
    printf("  %zu held in the end, %zu calls without an answer\n", n_held, n_unsure);
}

static void check_none_leaked(struct storm *storm)
{
    static struct listing seen;

    for (size_t i = 0; i < storm->n; i++)
        storm_kill(storm->clients[i].pid);
    for (size_t host = 0; host < HOSTS; host++) {
        dibs *handle = storm_host_open(storm->cluster, host);

        seen.n = 1;
        for (int i = 0; i < CALM_S * 10 && seen.n > 0; i++, storm_sleep_us(seen.n ? 100000 : 0))
            list(handle, &seen);
        if (seen.n > 0)
            storm_violation("host %zu: %zu claims are held by nobody", host, seen.n);
        dibs_close(handle);
    }
}

/* ---- the storm ---- */

static void make_pool(const struct storm *storm)
{
    dibs *handle = storm_host_open(storm->cluster, 0);
    const dibs_pool pool = { .name = POOL,
                             .scope = DIBS_SCOPE_CLUSTER,
                             .band = 0,
                             .cooldown_ms = 0,
                             .order = "stride",
                             .ranges = { .item = { { FIRST, (uint16_t) (FIRST + storm->n_ports - 1) } },
                                         .n = 1 } };
    dibs_err err = { 0 };

    if (dibs_pool_put(handle, &pool, &err) != DIBS_OK)
        storm_die("the pool cannot be made: %s", err.msg);
    dibs_close(handle);
    for (size_t host = 0; host < HOSTS; host++) { /* who asks there is told of it a moment later */
        dibs_pool seen = { 0 };

        handle = storm_host_open(storm->cluster, host);
        for (int i = 0; dibs_pool_get(handle, POOL, &seen, &err) != DIBS_OK; i++, storm_sleep_us(10000))
            if (i > 100)
                storm_die("host %zu does not see the pool: %s", host, err.msg);
        dibs_close(handle);
    }
}

static void rage(struct storm *storm, long seconds)
{
    for (size_t i = 0; i < storm->n; i++) {
        struct client *c = &storm->clients[i];

        c->number = i;
        pid_t pid = storm_fork();
        if (pid == 0)
            live(storm, c);
        c->pid = pid;
    }
    storm_cluster_upset(storm->cluster, storm->seed);
    storm_sleep_us(seconds * 1000000);
    storm_cluster_calm(storm->cluster);
    atomic_store(&storm->is_over, 1);
    for (size_t i = 0; i < storm->n; i++)
        for (int k = 0; !atomic_load(&storm->clients[i].is_still); k++, storm_sleep_us(10000))
            if (k > CALM_S * 100)
                storm_die("client %zu waits for ever", i);
}

static void tell(const struct storm *storm)
{
    const struct storm_cluster *cluster = storm->cluster;
    size_t n_claimed = 0;
    size_t n_exhausted = 0;

    for (size_t i = 0; i < storm->n; i++) {
        n_claimed += storm->clients[i].n_claimed;
        n_exhausted += storm->clients[i].n_exhausted;
    }
    printf("  %zu claims by %zu clients of %d hosts, %zu times the pool was exhausted\n", n_claimed, storm->n,
           HOSTS, n_exhausted);
    printf("  members: %u killed (%u led), %u stopped; %u compactions\n", cluster->n_kills,
           cluster->n_leaders, cluster->n_stops, cluster->n_compactions);
    if (n_claimed < storm->n_ports || n_exhausted == 0 || cluster->n_leaders == 0)
        storm_violation("the storm was too small to show anything");
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_etcd");
    long n = storm_number(argc, argv, "clients", 16);
    struct storm_cluster *cluster = storm_cluster_begin();

    if (!cluster) {
        printf("storm_etcd: etcd-server: not installed\n");
        return 77;
    }
    long n_ports = storm_number(argc, argv, "ports", PORTS_MAX);
    if (n < 1 || n > CLIENTS_MAX || n_ports < 1 || n_ports > PORTS_MAX)
        storm_die("clients: 1 to %d, ports: 1 to %d", CLIENTS_MAX, PORTS_MAX);
    struct storm *storm = storm_share(sizeof *storm + (size_t) n * sizeof storm->clients[0]);
    storm->cluster = cluster;
    storm->seed = seed;
    storm->n = (size_t) n;
    storm->n_ports = (uint16_t) n_ports;
    storm_cluster_upset(cluster, seed); /* starts it */
    storm_hosts_begin(cluster);
    make_pool(storm);
    rage(storm, storm_number(argc, argv, "seconds", 60));
    check_none_lost(storm);
    check_none_leaked(storm);
    storm_hosts_end(cluster);
    check_history(storm);
    tell(storm);
    return storm_end("storm_etcd");
}
