/* SPDX-License-Identifier: MIT */
/* Servers that bind and rebind their own claimed ports, while others claim, look and reap all around them.
 *
 *   storm_rebind servers=200 seconds=20
 *
 * No rightful bind ever fails: nothing that dibs does for one caller may touch the port of another. */
#include "storm.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define RANGE "20000-20499"
enum { FIRST_PORT = 20000, LAST_PORT = 20499, SERVERS_MAX = 400, CONNECT_EVERY = 50, HARASSERS = 5 };

struct server {
    _Atomic int port; /* 0: not yet */
    pid_t pid;
    dibs_binding binding;
    _Atomic long n_binds;
};

struct rebind {
    _Atomic int is_over;
    size_t n;
    uint64_t seed;
    _Atomic long n_calls, n_refused, n_foreign_claims;
    struct server servers[SERVERS_MAX];
};

/* ---- a server ---- */

static void claim_own(struct server *me, size_t number)
{
    dibs_ranges ranges = { .n = 1, .item = { { FIRST_PORT, LAST_PORT } } };
    dibs_request request = { .holder = DIBS_HELD_BY_PROCESS, .ranges = &ranges, .n_bindings = 1 };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };
    dibs *handle = storm_open();
    char name[32];

    (void) snprintf(name, sizeof name, "rebind/s%zu", number);
    request.name = name;
    request.bindings[0] = me->binding;
    if (dibs_claim_ports(handle, &batch, &claim, &err) != DIBS_OK)
        storm_die("server %zu has no port: %s", number, err.msg);
    dibs_close(handle);
    atomic_store(&me->port, claim.port);
}

/* A connection that the server closes first stays behind in TIME_WAIT on its port, as in real life. */
static void serve_one(int listener, const struct server *me)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t) me->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int accepted = -1;

    if (client >= 0 && connect(client, (struct sockaddr *) &to, sizeof to) == 0)
        accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (accepted >= 0)
        (void) close(accepted);
    if (client >= 0)
        (void) close(client);
}

__attribute__((noreturn)) static void serve(struct rebind *all, struct server *me)
{
    size_t number = (size_t) (me - all->servers);
    struct storm_random random = storm_random_of(all->seed, number);

    claim_own(me, number);
    while (!atomic_load(&all->is_over)) {
        int fd = storm_listen(&me->binding, (uint16_t) me->port);

        if (fd < 0) {
            storm_violation("server %zu cannot bind its own port %d (%s, address of %d bytes): %s", number,
                            me->port, dibs_proto_text(me->binding.proto), me->binding.address.len,
                            strerror(errno));
            storm_sleep_us(1000);
            continue;
        }
        long n = atomic_fetch_add(&me->n_binds, 1);
        if (me->binding.proto == DIBS_TCP && n % CONNECT_EVERY == 0)
            serve_one(fd, me);
        if (storm_below(&random, 2))
            storm_sleep_us((long) storm_below(&random, 3000));
        (void) close(fd);
        if (storm_below(&random, 2))
            storm_sleep_us((long) storm_below(&random, 3000));
    }
    storm_stay(60); /* the claim stays until the end of the storm is judged */
}

/* ---- those around ---- */

/* `allowed`: the exit codes that are an answer. */
static void call(struct rebind *all, const char *allowed, const char *const *args)
{
    struct storm_run run = { 0 };

    storm_dibs(&run, args);
    atomic_fetch_add(&all->n_calls, 1);
    if (run.code > 9 || !strchr(allowed, '0' + run.code))
        storm_violation("dibs %s %s: exit %d: %s", args[0], args[1] ? args[1] : "", run.code, run.err);
}
#define CALL(all, allowed, ...) call((all), (allowed), (const char *const[]){ __VA_ARGS__, NULL })

__attribute__((noreturn)) static void harass(struct rebind *all, uint64_t number)
{
    struct storm_random random = storm_random_of(all->seed, 1000000 + number);

    while (!atomic_load(&all->is_over)) {
        size_t victim = storm_below(&random, (uint32_t) all->n);
        const struct server *server = &all->servers[victim];
        const char *proto = dibs_proto_text(server->binding.proto);
        char port[8];
        char name[32];

        (void) snprintf(port, sizeof port, "%d", atomic_load(&server->port));
        (void) snprintf(name, sizeof name, "/rebind/s%zu", victim);
        switch (storm_below(&random, 12)) {
        case 0: CALL(all, "0", "claim", "--range", RANGE, "--ttl", "200ms"); break;
        case 1: CALL(all, "0", "claim", "--range", RANGE, "--ttl", "200ms", "--proto", "tcp+udp"); break;
        case 2: CALL(all, "3", "claim", "--port", port, "--proto", proto, "--ttl", "1s"); break;
        case 3:
            CALL(all, "0", "claim", "--prefer", port, "--proto", proto, "--range", RANGE, "--ttl", "200ms");
            break;
        case 4: CALL(all, "0", "claim", "-n", "3", "--range", RANGE, "--dry-run", "--contiguous"); break;
        case 5: CALL(all, "0", "who", port); break;
        case 6: CALL(all, "0", "explain", port, "--proto", proto); break;
        case 7: CALL(all, "0", "reap"); break;
        case 8: CALL(all, "0", "ls", "--audit"); break;
        case 9: CALL(all, "03", "assert", name); break;
        case 10: CALL(all, "01", "doctor"); break;
        default: CALL(all, "0", "repair", "--dry-run"); break;
        }
    }
    _exit(0);
}

/* Claims without the cost of a process: as many probes in the range as can be. */
__attribute__((noreturn)) static void harass_by_library(struct rebind *all)
{
    struct storm_random random = storm_random_of(all->seed, 2000000);
    dibs_ranges ranges = { .n = 1, .item = { { FIRST_PORT, LAST_PORT } } };
    dibs *handle = storm_open();

    while (!atomic_load(&all->is_over)) {
        const struct server *server = &all->servers[storm_below(&random, (uint32_t) all->n)];
        dibs_request request = { .holder = DIBS_HELD_BY_PROCESS, .ranges = &ranges, .n_bindings = 1 };
        dibs_batch batch = { .requests = &request, .n = 1 };
        dibs_claim claim = { 0 };
        dibs_which which = { .token = claim.token };
        dibs_err err = { 0 };

        request.bindings[0] = (dibs_binding){ .proto = server->binding.proto, .address.len = 16 };
        if (storm_below(&random, 4) == 0) {
            request.mode = DIBS_REQUIRED;
            request.port = (uint16_t) server->port;
        }
        dibs_status s = dibs_claim_ports(handle, &batch, &claim, &err);
        if (s == DIBS_OK && request.mode == DIBS_REQUIRED)
            storm_violation("port %u of a living server was given to another", claim.port);
        if (s != DIBS_OK && (s != DIBS_TAKEN || request.mode != DIBS_REQUIRED))
            storm_violation("claim: %s", err.msg);
        if (s == DIBS_TAKEN)
            atomic_fetch_add(&all->n_refused, 1);
        if (s == DIBS_OK && dibs_claim_release(handle, &which, 0, NULL, &err) != DIBS_OK)
            storm_violation("release: %s", err.msg);
        atomic_fetch_add(&all->n_foreign_claims, s == DIBS_OK);
    }
    dibs_close(handle);
    _exit(0);
}

/* ---- the storm ---- */

static dibs_binding binding_of(size_t i)
{
    static const dibs_binding kinds[] = {
        { DIBS_TCP, { .len = 16 } },
        { DIBS_TCP, { .len = 16 } },
        { DIBS_TCP, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
        { DIBS_UDP, { .len = 16 } },
        { DIBS_TCP, { .len = 4 } },
        { DIBS_UDP, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
    };

    return kinds[i % (sizeof kinds / sizeof kinds[0])];
}

static void start_servers(struct rebind *all)
{
    for (size_t i = 0; i < all->n; i++) {
        all->servers[i].binding = binding_of(i);
        pid_t pid = storm_fork();
        if (pid == 0)
            serve(all, &all->servers[i]);
        all->servers[i].pid = pid;
    }
    for (size_t i = 0; i < all->n; i++)
        for (int tries = 0; atomic_load(&all->servers[i].n_binds) == 0; tries++) {
            if (tries > 60000)
                storm_die("server %zu does not start", i);
            storm_sleep_us(1000);
        }
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_rebind");
    struct rebind *all = storm_share(sizeof *all);
    pid_t others[HARASSERS + 1];
    long n_binds = 0;
    long fewest = -1;

    all->seed = seed;
    all->n = (size_t) storm_number(argc, argv, "servers", 60);
    if (all->n < 1 || all->n > SERVERS_MAX)
        storm_die("1 to %d servers", SERVERS_MAX);
    start_servers(all);
    for (uint64_t i = 0; i <= HARASSERS; i++) {
        others[i] = storm_fork();
        if (others[i] == 0 && i == HARASSERS)
            harass_by_library(all);
        if (others[i] == 0)
            harass(all, i);
    }
    storm_sleep_us(storm_number(argc, argv, "seconds", 5) * 1000000);
    atomic_store(&all->is_over, 1);
    for (size_t i = 0; i <= HARASSERS; i++)
        if (storm_wait(others[i]) != 0)
            storm_violation("one of those around did not end well");
    for (size_t i = 0; i < all->n; i++) {
        long n = atomic_load(&all->servers[i].n_binds);

        n_binds += n;
        fewest = fewest < 0 || n < fewest ? n : fewest;
    }
    if (storm_sql("SELECT count(*) FROM claims WHERE holder = 1") != (int64_t) all->n)
        storm_violation("%lld claims of %zu servers are left",
                        (long long) storm_sql("SELECT count(*) FROM claims WHERE holder = 1"), all->n);
    for (size_t i = 0; i < all->n; i++)
        storm_kill(all->servers[i].pid);
    storm_check_ledger("at the end");
    printf("  %zu servers bound %ld times, the least busy one %ld times\n", all->n, n_binds, fewest);
    printf("  meanwhile %ld commands, %ld claims of others in the range, %ld refused\n", all->n_calls,
           all->n_foreign_claims, all->n_refused);
    if (all->n_calls == 0 || all->n_foreign_claims == 0 || all->n_refused == 0)
        storm_violation("nothing happened around the servers: nothing was shown");
    return storm_end("storm_rebind");
}
