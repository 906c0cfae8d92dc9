/* SPDX-License-Identifier: MIT */
/* The storm of storm_mix through the daemon, which is killed by SIGKILL and started again every second or so.
 *
 *   storm_serve clients=24 seconds=60
 *
 * Of four clients one goes through libdibs and the socket, two write HTTP themselves, and one does not know
 * of the daemon and uses the ledger beside it. What must hold:
 *   - a claim that was answered and not released is in the ledger, and nobody else has its port (INV-1,
 * INV-2);
 *   - a key asked for again brings the same claim, also from the daemon's next life;
 *   - what dead clients held comes back by itself. */
#include "storm_daemon.h"
#include "storm_raw.h"

/* The daemon may be down just now: only a call that nobody answers in time is an error. */
static void *library_open(void)
{
    dibs *handle = NULL;
    dibs_err err = { 0 };

    for (int tries = 0; dibs_open(NULL, &handle, &err) != DIBS_OK; tries++) {
        if (tries > 2000)
            storm_die("the daemon does not open: %s", err.msg);
        storm_sleep_us(10000);
    }
    return handle;
}

static void *beside_open(void)
{
    if (setenv("DIBS_SOCKET", "none", 1) != 0)
        storm_die("the socket cannot be set");
    return storm_open();
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_serve");
    struct mix *mix = mix_new((size_t) storm_number(argc, argv, "clients", 24), seed);
    struct storm_daemon *daemon = storm_daemon_begin(seed);
    struct mix_access through = mix_library;
    struct mix_access beside = mix_library;

    through.open = library_open;
    beside.open = beside_open;
    mix->accesses[0] = &through;
    mix->accesses[1] = mix->accesses[2] = &mix_raw;
    mix->accesses[3] = &beside;
    mix->upsets = &daemon->upsets;
    mix_rage(mix, storm_number(argc, argv, "seconds", 8));
    storm_daemon_calm(daemon);
    mix_check_none_lost(mix);
    mix_check_none_leaked(mix, NULL);
    storm_daemon_end(daemon);
    mix_check(mix);
    return storm_end("storm_serve");
}
