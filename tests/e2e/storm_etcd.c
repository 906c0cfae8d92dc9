/* SPDX-License-Identifier: MIT */
/* Clients of several hosts in one pool of a cluster, while the members of its etcd die, stop and lose data,
 * or while hosts are cut off.
 *
 *   storm_etcd clients=16 ports=2768 seconds=60
 *   storm_etcd clients=16 ports=2768 seconds=60 cut=1
 *
 * Each client claims until the pool is exhausted, then releases most of what it has, again and again. It has
 * a real socket on each port that is its own. What must hold:
 *   - from an answered claim to the call that releases it nobody else has that port (INV-1);
 *   - what was answered is there when all is calm, as every host sees it (INV-2);
 *   - after the death of all clients nothing is held, and every port can be had.
 *
 * Where hosts are cut off, clients ask their daemon again and again whether they still have what they have.
 * A client has a port up to the last answer that confirmed it. Then must hold, too:
 *   - no client loses a claim, and no other client gets it, before the TTL of its host's lease has
 *     passed since it was renewed last;
 *   - what a host that stays away has held can be claimed by others. */
#include "storm_cluster.h"

#define POOL "storm"
enum { FIRST = 30000, PORTS_MAX = 2768, LAST = FIRST + PORTS_MAX - 1 };
enum {
    CLIENTS_MAX = 64,
    RECORDS_MAX = 1 << 16,
    HELD_MAX = PORTS_MAX,
    CALM_S = 40,
    SLOW_S = 60,
    CONFIRM_EVERY = 16,
    REST_US = 20000
};

/* The life of a claim by its client's own words. */
struct record {
    int64_t from_ns, to_ns; /* 0: it lives */
    int64_t lost_ns;        /* when it was reported lost; 0: never */
    uint16_t port;
    uint16_t client;
};

struct held {
    uint32_t record;
    bool is_uncertain; /* the record is closed: nobody says that it is ours now */
    uint16_t port;
    int64_t sure_ns; /* of the last answer that it is ours */
    int fd;
    char token[DIBS_TOKEN_MAX + 1];
};

struct client {
    size_t number;
    pid_t pid;
    _Atomic int is_still;
    size_t n_held, n_records;
    size_t n_claimed, n_released, n_exhausted, n_unsure;
    size_t n_became_uncertain, n_lost;
    struct held held[HELD_MAX];
    struct record records[RECORDS_MAX];
};

struct storm {
    _Atomic int is_over;
    struct storm_cluster *cluster;
    uint64_t seed;
    uint16_t n_ports;
    size_t n_moved; /* ports that were lost by one host, and another's then */
    size_t n;
    struct client clients[];
};

/* ---- a client ---- */

static bool is_unsure(dibs_status s)
{
    return s == DIBS_UNAVAILABLE || s == DIBS_FAILURE;
}

static const dibs_binding binding = { DIBS_TCP, { .len = 4 } };

/* From now on it is ours. */
static void begin_record(struct client *c, struct held *held)
{
    if (c->n_records == RECORDS_MAX)
        storm_die("client %zu: too many claims", c->number);
    held->fd = storm_listen(&binding, held->port);
    if (held->fd < 0)
        storm_violation("client %zu: port %u is its own and cannot be bound: %s", c->number, held->port,
                        strerror(errno));
    held->record = (uint32_t) c->n_records;
    held->is_uncertain = false;
    held->sure_ns = storm_now_ns();
    c->records[c->n_records++] =
        (struct record){ .from_ns = held->sure_ns, .port = held->port, .client = (uint16_t) c->number };
}

static void end_record(struct client *c, struct held *held, int64_t to_ns)
{
    if (!held->is_uncertain)
        c->records[held->record].to_ns = to_ns;
    held->is_uncertain = true;
    if (held->fd >= 0)
        (void) close(held->fd);
    held->fd = -1;
}

/* False: there is none left. */
static bool claim_one(struct client *c, dibs *handle)
{
    const dibs_request request = { .pool = POOL,
                                   .mode = DIBS_RANDOM,
                                   .holder = DIBS_HELD_BY_PROCESS,
                                   .n_bindings = 1,
                                   .bindings = { binding } };
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
    if (c->n_held == HELD_MAX)
        storm_die("client %zu: too many claims", c->number);
    *held = (struct held){ .port = claim.port };
    memcpy(held->token, claim.token, sizeof held->token);
    begin_record(c, held);
    c->n_held++;
    c->n_claimed++;
    return true;
}

/* It has ended, and it was not us who ended it. */
static void note_loss(struct client *c, const struct held *held)
{
    c->records[held->record].lost_ns = storm_now_ns();
    c->n_lost++;
}

/* Return false when the outcome is unknown. */
static bool release_one(const struct storm *storm, struct client *c, dibs *handle,
                        struct storm_random *random)
{
    size_t which = storm_below(random, (uint32_t) c->n_held);
    struct held held = c->held[which];
    dibs_err err = { 0 };
    size_t n = 0;

    /* Where it can be lost it was ours as long as somebody said so. */
    end_record(c, &held, storm->cluster->is_apart ? held.sure_ns : storm_now_ns());
    c->held[which] = c->held[--c->n_held];
    dibs_status s = dibs_claim_release(handle, &(dibs_which){ .token = held.token }, 0, &n, &err);
    if (s == DIBS_OK && n != 1 && !storm->cluster->is_apart)
        storm_violation("client %zu: its claim on port %u was gone when it released it", c->number,
                        held.port);
    else if (s == DIBS_OK && n != 1)
        note_loss(c, &held);
    else if (s != DIBS_OK && !is_unsure(s))
        storm_violation("client %zu: a release is answered with %d: %s", c->number, (int) s, err.msg);
    c->n_released += s == DIBS_OK;
    c->n_unsure += s != DIBS_OK;
    return s == DIBS_OK;
}

/* Is it still ours? False: it is gone. */
static bool confirm_one(struct client *c, dibs *handle, struct held *held)
{
    int64_t asked_ns = storm_now_ns();
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    dibs_status s = dibs_claim_find(handle, &(dibs_which){ .token = held->token }, &claim, &err);

    if (s == DIBS_OK && held->is_uncertain)
        begin_record(c, held);
    else if (s == DIBS_OK)
        held->sure_ns = asked_ns;
    if (s == DIBS_OK)
        return true;
    c->n_became_uncertain += !held->is_uncertain;
    end_record(c, held, held->sure_ns);
    if (is_unsure(s))
        return true;
    if (s != DIBS_NOT_FOUND)
        storm_violation("client %zu: port %u is looked for, answered with %d: %s", c->number, held->port,
                        (int) s, err.msg);
    note_loss(c, held);
    return false;
}

static void confirm_all(struct client *c, dibs *handle)
{
    for (size_t i = 0; i < c->n_held;)
        if (confirm_one(c, handle, &c->held[i]))
            i++;
        else
            c->held[i] = c->held[--c->n_held];
}

/* After the storm: all that is held is held for certain. */
static void settle(struct client *c, dibs *handle)
{
    for (int tries = 0; tries < CALM_S * 10; tries++, storm_sleep_us(100000)) {
        size_t n_uncertain = 0;

        confirm_all(c, handle);
        for (size_t i = 0; i < c->n_held; i++)
            n_uncertain += c->held[i].is_uncertain;
        if (n_uncertain == 0)
            return;
    }
    storm_violation("client %zu: it does not learn whether it has its ports", c->number);
}

_Noreturn static void live(struct storm *storm, struct client *c)
{
    struct storm_random random = storm_random_of(storm->seed, 1000 + c->number);
    size_t host = c->number % HOSTS;
    dibs *handle = storm_host_open(storm->cluster, host);
    bool is_apart = storm->cluster->is_apart;

    storm_host_enter(storm->cluster, host);
    while (!atomic_load(&storm->is_over)) {
        bool is_more = true;
        bool is_answered = true;

        for (size_t i = 0; is_more && !atomic_load(&storm->is_over); i++) {
            size_t n_unsure = c->n_unsure;

            is_more = claim_one(c, handle);
            is_answered = c->n_unsure == n_unsure;
            if (is_more && is_answered)
                atomic_fetch_add(&storm->cluster->n_claimed[host], 1);
            if (is_apart && (!is_answered || i % CONFIRM_EVERY == 0))
                confirm_all(c, handle);
            storm_sleep_us(is_apart && !is_answered ? REST_US : 0);
        }
        for (size_t n = c->n_held - c->n_held / 8; n > 0 && c->n_held > 0 && !atomic_load(&storm->is_over);
             n--) {
            is_answered = release_one(storm, c, handle, &random);
            if (is_apart && (!is_answered || n % CONFIRM_EVERY == 0))
                confirm_all(c, handle);
            if (is_apart && !is_answered)
                break; /* the host is cut off: what is left may be lost, which is to be seen */
        }
    }
    if (is_apart)
        settle(c, handle);
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

/* The first lease that its host can have lost while it had it; 0: none, so it cannot be lost. */
static int64_t lease_lost_ns(const struct storm *storm, const struct record *r)
{
    const struct storm_cluster *cluster = storm->cluster;

    for (size_t i = 0; i < cluster->n_cuts; i++)
        if (cluster->cut[i].host == r->client % HOSTS && cluster->cut[i].lease_ns >= r->from_ns)
            return cluster->cut[i].lease_ns;
    return 0;
}

/* One that was lost, and who had its port next, if anybody. */
static void check_loss(struct storm *storm, const struct record *lost, const struct record *next)
{
    int64_t lease_ns = lease_lost_ns(storm, lost);

    storm->n_moved += next && next->client % HOSTS != lost->client % HOSTS;
    if (storm->cluster->has_stalled[lost->client % HOSTS])
        return;
    if (lease_ns == 0 || lost->lost_ns < lease_ns)
        storm_violation(
            "client %u learns that port %u is lost %lld ms before its host's lease can have ended",
            lost->client, lost->port, (long long) (lease_ns - lost->lost_ns) / 1000000);
    if (next && next->from_ns < lease_ns)
        storm_violation("client %u has port %u of client %u %lld ms too early", next->client, next->port,
                        lost->client, (long long) (lease_ns - next->from_ns) / 1000000);
}

static void check_history(struct storm *storm)
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
    for (size_t i = 0; i < n; i++)
        if (all[i].lost_ns != 0)
            check_loss(storm, &all[i], i + 1 < n && all[i + 1].port == all[i].port ? &all[i + 1] : NULL);
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
    for (size_t host = 0; host < HOSTS; host++) { /* clients there learn of it a moment later */
        dibs_pool seen = { 0 };

        handle = storm_host_open(storm->cluster, host);
        for (int i = 0; dibs_pool_get(handle, POOL, &seen, &err) != DIBS_OK; i++, storm_sleep_us(10000))
            if (i > 100)
                storm_die("host %zu does not see the pool: %s", host, err.msg);
        dibs_close(handle);
    }
}

/* Has enough happened to show something? */
static bool is_enough(const struct storm *storm)
{
    const struct storm_cluster *cluster = storm->cluster;
    size_t n_claimed = 0;
    size_t n_exhausted = 0;

    for (size_t i = 0; i < storm->n; i++) {
        n_claimed += storm->clients[i].n_claimed;
        n_exhausted += storm->clients[i].n_exhausted;
    }
    return n_claimed >= storm->n_ports && n_exhausted > 0 && (cluster->is_apart || cluster->n_leaders > 0);
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
    if (storm->cluster->is_apart)
        storm_hosts_cut(storm->cluster, storm->seed);
    else
        storm_cluster_upset(storm->cluster, storm->seed);
    storm_sleep_us(seconds * 1000000);
    for (int i = 0; i < SLOW_S * 10 && !is_enough(storm); i++)
        storm_sleep_us(100000);
    if (storm->cluster->is_apart)
        storm_hosts_join(storm->cluster);
    else
        storm_cluster_calm(storm->cluster);
    atomic_store(&storm->is_over, 1);
    for (size_t i = 0; i < storm->n; i++)
        for (int k = 0; !atomic_load(&storm->clients[i].is_still); k++, storm_sleep_us(10000))
            if (k > CALM_S * 100)
                storm_die("client %zu waits for ever", i);
}

static void tell_members(const struct storm *storm)
{
    const struct storm_cluster *cluster = storm->cluster;

    printf("  members: %u killed (%u led), %u stopped; %u compactions\n", cluster->n_kills,
           cluster->n_leaders, cluster->n_stops, cluster->n_compactions);
    if (cluster->n_leaders == 0)
        storm_violation("the storm was too small to show anything");
}

static void tell_cuts(const struct storm *storm)
{
    const struct storm_cluster *cluster = storm->cluster;
    size_t n_long = 0;
    size_t n_became_uncertain = 0;
    size_t n_lost = 0;

    for (size_t i = 0; i < cluster->n_cuts; i++)
        n_long += cluster->cut[i].is_long;
    for (size_t i = 0; i < storm->n; i++) {
        n_became_uncertain += storm->clients[i].n_became_uncertain;
        n_lost += storm->clients[i].n_lost;
    }
    for (size_t i = 0; i < HOSTS; i++)
        if (cluster->has_stalled[i])
            printf("  host %zu has lost a lease without being cut off: the machine has stalled\n", i);
    printf("  hosts: %zu times cut off, %zu of them until their lease had ended\n", cluster->n_cuts, n_long);
    printf("  claims: %zu times not certain, %zu lost, %zu of these another host's then\n",
           n_became_uncertain, n_lost, storm->n_moved);
    if (n_long == 0 || n_became_uncertain == 0 || n_lost == 0 || storm->n_moved == 0)
        storm_violation("the storm was too small to show anything");
}

static void tell(const struct storm *storm)
{
    size_t n_claimed = 0;
    size_t n_exhausted = 0;

    for (size_t i = 0; i < storm->n; i++) {
        n_claimed += storm->clients[i].n_claimed;
        n_exhausted += storm->clients[i].n_exhausted;
    }
    printf("  %zu claims by %zu clients of %d hosts, %zu times the pool was exhausted\n", n_claimed, storm->n,
           HOSTS, n_exhausted);
    if (n_claimed < storm->n_ports || n_exhausted == 0)
        storm_violation("the storm was too small to show anything");
    if (storm->cluster->is_apart)
        tell_cuts(storm);
    else
        tell_members(storm);
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_etcd");
    long n = storm_number(argc, argv, "clients", 16);
    bool is_apart = storm_number(argc, argv, "cut", 0) != 0;
    struct storm_cluster *cluster = storm_cluster_begin(is_apart);

    if (!cluster || (is_apart && !storm_has_own_network())) {
        printf("storm_etcd: %s\n", cluster ? "networks of its own need root" : "etcd-server: not installed");
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
    if (is_apart)
        storm_networks_begin(cluster);
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
