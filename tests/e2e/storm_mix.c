/* SPDX-License-Identifier: MIT */
/* Processes that claim, release, transfer, renew and die by SIGKILL, all at once, on a few ports.
 *
 *   storm_mix clients=64 seconds=60
 *
 * Each client (storm_client.h) writes its own history and holds real sockets on what it believes is its own.
 * The checker believes the clients and the kernel, not the ledger's own log. */
#include "storm_client.h"

static void reap(void)
{
    struct storm_run run = { 0 };

    STORM_DIBS(&run, "reap");
    if (run.code != 0)
        storm_violation("reap: exit %d: %s", run.code, run.err);
}

static pid_t start_reaper(const struct mix *mix)
{
    pid_t pid = storm_fork();

    if (pid != 0)
        return pid;
    while (!atomic_load(&mix->is_over)) {
        reap();
        storm_sleep_us(30000);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_mix");
    struct mix *mix = mix_new((size_t) storm_number(argc, argv, "clients", 64), seed);

    for (int i = 0; i < MIX_ACCESSES; i++)
        mix->accesses[i] = &mix_library;
    pid_t reaper = start_reaper(mix);
    mix_rage(mix, storm_number(argc, argv, "seconds", 8));
    (void) storm_wait(reaper);
    mix_check_none_lost(mix);
    mix_check_none_leaked(mix, reap);
    mix_check(mix);
    return storm_end("storm_mix");
}
