/* SPDX-License-Identifier: MIT */
/* Keys that are asked for twice at once while the daemon is killed again and again: each makes one claim.
 *
 *   storm_keys clients=8 seconds=60
 *
 * Every claim is kept and none is released, so the ledger can be counted: as many claims as keys, no more and
 * no less, and no port returned twice. */
#include "storm_daemon.h"

enum { CLIENTS_MAX = 64, KEYS_MAX = 8000, FIRST_PORT = 20000 };

struct shared {
    _Atomic int is_over;
    _Atomic long n_keys;
    _Atomic long n_twice; /* asked on two connections that both answered */
};

struct asker {
    struct shared *shared;
    struct storm_http first, second;
    struct storm_random random;
    int number;
    long n_keys;
    bool is_returned[1 << 16]; /* ports of this client's own address */
};

/* An answer is a claim; true with its port and token. */
static bool read_claim(const struct storm_answer *answer, long *port, char token[DIBS_TOKEN_MAX + 1])
{
    *port = storm_json_number(answer->body, "port", 0);
    if (answer->status / 100 == 2 && *port > 0 && *port <= 65535 &&
        storm_json_text(answer->body, "token", token, DIBS_TOKEN_MAX + 1))
        return true;
    storm_violation("%d instead of a claim: %.300s", answer->status, answer->body);
    return false;
}

/* On two connections before either has answered; one of them may close instead of reading. */
static void ask_twice(struct asker *a, const char *key, const char *body)
{
    struct storm_answer first = { 0 };
    struct storm_answer second = { 0 };
    char tokens[2][DIBS_TOKEN_MAX + 1] = { "", "" };
    long ports[2] = { 0 };
    bool is_first = storm_http_say(&a->first, "POST /v1/claims", key, body);

    if (is_first && storm_below(&a->random, 4) == 0) {
        storm_http_disconnect(&a->first);
        is_first = false;
    }
    bool is_second = storm_http_insist(&a->second, "POST /v1/claims", key, body, &second);
    is_first = is_first && storm_http_hear(&a->first, &first);
    if (!is_second) {
        storm_violation("no answer to key %s at all", key);
        return;
    }
    if (!read_claim(&second, &ports[1], tokens[1]))
        return;
    if (a->is_returned[ports[1]])
        storm_violation("port %ld was returned for two keys", ports[1]);
    a->is_returned[ports[1]] = true;
    if (!is_first || !read_claim(&first, &ports[0], tokens[0]))
        return;
    atomic_fetch_add(&a->shared->n_twice, 1);
    if (ports[0] != ports[1] || strcmp(tokens[0], tokens[1]) != 0)
        storm_violation("key %s brought port %ld and port %ld", key, ports[0], ports[1]);
}

_Noreturn static void live(struct shared *shared, int number, uint64_t seed)
{
    static struct asker a;

    a = (struct asker){ .shared = shared, .first = { -1 }, .second = { -1 }, .number = number };
    a.random = storm_random_of(seed, (uint64_t) number);
    while (!atomic_load(&shared->is_over) && a.n_keys < KEYS_MAX) {
        char key[64] = "";
        char body[256] = "";

        (void) snprintf(key, sizeof key, "client-%d-%ld", number, a.n_keys);
        (void) snprintf(body, sizeof body,
                        "{\"keep\":true,\"holder\":null,\"ranges\":\"%d-32767\",\"bindings\":"
                        "[{\"proto\":\"tcp\",\"address\":\"127.0.1.%d\"}]}",
                        FIRST_PORT, number + 1);
        ask_twice(&a, key, body);
        a.n_keys++;
    }
    atomic_fetch_add(&shared->n_keys, a.n_keys);
    _exit(0);
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_keys");
    long clients = storm_number(argc, argv, "clients", 8);
    struct shared *shared = storm_share(sizeof *shared);
    struct storm_daemon *daemon = storm_daemon_begin(seed);
    int64_t end = storm_now_ns() + storm_number(argc, argv, "seconds", 5) * 1000000000;
    pid_t pids[CLIENTS_MAX] = { 0 };

    if (clients < 1 || clients > CLIENTS_MAX)
        storm_die("1 to %d clients", CLIENTS_MAX);
    for (int i = 0; i < clients; i++) {
        pids[i] = storm_fork();
        if (pids[i] == 0)
            live(shared, i, seed);
    }
    while (storm_now_ns() < end)
        storm_sleep_us(10000);
    atomic_store(&shared->is_over, 1);
    for (int i = 0; i < clients; i++)
        if (storm_wait(pids[i]) != 0)
            storm_violation("client %d did not end well", i);
    storm_daemon_calm(daemon);
    int64_t n = storm_sql("SELECT count(*) FROM claims");
    printf("  %ld keys, %ld of them answered on two connections, %lld claims\n", atomic_load(&shared->n_keys),
           atomic_load(&shared->n_twice), (long long) n);
    if (n != atomic_load(&shared->n_keys))
        storm_violation("%ld keys made %lld claims", atomic_load(&shared->n_keys), (long long) n);
    if (atomic_load(&shared->n_twice) == 0 || daemon->n_lives < 3)
        storm_violation("the storm was too small to show anything");
    storm_daemon_end(daemon);
    return storm_end("storm_keys");
}
