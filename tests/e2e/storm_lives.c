/* SPDX-License-Identifier: MIT */
#include "storm_client.h"

static void give_birth(struct mix *mix, struct mix_slot *slot)
{
    int stuck = MIX_BOX_WRITTEN + 1 + slot->number;

    /* Messages that the dead one was writing are void, and those in its own box have no reader. */
    for (size_t i = 0; i < mix->n; i++) {
        int state = stuck;
        (void) atomic_compare_exchange_strong(&mix->slots[i].box.state, &state, MIX_BOX_EMPTY);
    }
    memset(slot->held, 0, sizeof slot->held);
    slot->incarnation++;
    slot->pid = 0;
    atomic_store(&slot->is_doomed, 0);
    pid_t pid = storm_fork();
    if (pid == 0) {
        slot->pid = getpid();
        mix_live(mix, slot);
    }
    slot->pid = pid;
}

static void kill_one(struct mix *mix, struct mix_slot *slot)
{
    if (slot->incarnation >= MIX_LIVES_MAX)
        storm_die("more than %d lives in one slot", MIX_LIVES_MAX);
    atomic_store(&slot->is_doomed, 1);
    slot->killed_ns[slot->incarnation] = storm_now_ns();
    storm_kill(slot->pid);
    mix->n_killed++;
}

void mix_rage(struct mix *mix, int64_t seconds)
{
    struct storm_random random = storm_random_of(mix->seed, UINT64_MAX);
    int64_t end = storm_now_ns() + seconds * 1000000000;

    for (size_t i = 0; i < mix->n; i++)
        give_birth(mix, &mix->slots[i]);
    while (storm_now_ns() < end) {
        struct mix_slot *slot = &mix->slots[storm_below(&random, (uint32_t) mix->n)];

        storm_sleep_us(1000 + (long) storm_below(&random, 30000));
        kill_one(mix, slot);
        give_birth(mix, slot);
    }
    atomic_store(&mix->is_over, 1);
    for (size_t s = 0; s < mix->n; s++)
        for (int tries = 0; !atomic_load(&mix->slots[s].is_waiting); tries++) {
            if (tries > 20000)
                storm_die("client %zu does not come to rest", s);
            storm_sleep_us(1000);
        }
}

void mix_check_none_lost(struct mix *mix)
{
    dibs *handle = storm_open();
    size_t n = 0;

    for (size_t s = 0; s < mix->n; s++) {
        for (size_t i = 0; i <= MIX_HELD_MAX; i++) {
            const struct mix_held *h = i < MIX_HELD_MAX ? &mix->slots[s].held[i] : &mix->slots[s].kept;
            dibs_which which = { .token = h->token };
            dibs_claim claim = { 0 };
            dibs_err err = { 0 };

            if (!h->port || !mix_is_certain(h))
                continue;
            n++;
            if (dibs_claim_find(handle, &which, &claim, &err) != DIBS_OK || claim.port != h->port)
                storm_violation("lost: port %u of client %zu: %s", h->port, s, err.msg);
        }
    }
    printf("  %zu claims are held at the end, each found by its token\n", n);
    dibs_close(handle);
}

/* If no client reaps, the daemon does, and soon. */
static int64_t what_is_left(const char *sql, void (*reap)(void))
{
    int64_t left = 0;

    if (reap)
        reap();
    for (int tries = 0; (left = storm_sql(sql)) != 0 && !reap && tries < 500; tries++)
        storm_sleep_us(20000);
    return left;
}

void mix_check_none_leaked(struct mix *mix, void (*reap)(void))
{
    struct storm_run run = { 0 };
    char range[32] = "";
    char count[16] = "";

    for (size_t s = 0; s < mix->n; s++) {
        char name[32] = "";

        kill_one(mix, &mix->slots[s]);
        (void) snprintf(name, sizeof name, "/mix/kept%zu", s);
        STORM_DIBS(&run, "release", name);
        if (run.code != 0)
            storm_violation("release of a kept name: exit %d: %s", run.code, run.err);
    }
    int64_t left = what_is_left("SELECT count(*) FROM claims WHERE holder = 1", reap);
    if (left != 0)
        storm_violation("leaked: dead processes hold %lld claims", (long long) left);
    storm_sleep_us((MIX_TTL_MS + 100) * 1000L);
    left = what_is_left("SELECT count(*) FROM claims", reap);
    if (left != 0)
        storm_violation("leaked: %lld leases or kept claims", (long long) left);
    (void) snprintf(range, sizeof range, "%d-%d", MIX_FIRST, MIX_LAST);
    (void) snprintf(count, sizeof count, "%d", MIX_LAST - MIX_FIRST + 1);
    STORM_DIBS(&run, "claim", "-n", count, "--range", range, "--proto", "tcp+udp", "--ttl", "1m");
    if (run.code != 0)
        storm_violation("leaked: the whole range cannot be claimed: %s", run.err);
    storm_check_ledger("at the end");
}
