/* SPDX-License-Identifier: MIT */
/* Opens and closes the engine, caches the facts of the host, and makes random numbers. */
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/err.h"
#include "host/kernel.h"

#include "base/banned.h"

enum { HOST_FACTS_LAST_MS = 1000 };

dibs_status core_open(struct ledger *ledger, const struct core_options *options, struct core **out,
                      dibs_err *err)
{
    struct core *self = calloc(1, sizeof *self);

    if (!self) {
        ledger_close(ledger);
        return err_set(err, DIBS_FAILURE, "opening dibs: out of memory");
    }
    self->ledger = ledger;
    self->options = *options;
    dibs_status s = process_view_load(&self->view, err);
    self->nat = nat_open(self->options.nat_file, self->view.boot_id);
    if (s == DIBS_OK && !self->nat)
        s = err_set(err, DIBS_FAILURE, "opening dibs: out of memory");
    if (s == DIBS_OK && getrandom(&self->random_state, sizeof self->random_state, 0) < 0)
        s = err_os(err, DIBS_FAILURE, errno, "cannot get random bytes");
    if (s != DIBS_OK) {
        core_close(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void core_close(struct core *core)
{
    if (!core)
        return;
    ledger_close(core->ledger);
    core_index_free(&core->index);
    free(core->inventory.inodes);
    nat_close(core->nat);
    for (size_t i = 0; i < SOURCES_MAX; i++)
        free(core->sources[i]);
    free(core);
}

struct instant core_now(const struct core *core)
{
    return core->options.now(core->options.now_ctx);
}

struct call core_part(const struct core *core, const struct call *call)
{
    struct call part = *call;

    part.now = core_now(core);
    part.deadline_ms = clock_monotonic_ms() + call->settings->timeout_ms;
    return part;
}

const struct core_host *core_host(struct core *core, const struct call *call)
{
    struct core_host *host = &core->host;
    int64_t now_ms = call->now.boot_ms;

    if (host->is_loaded && now_ms >= host->loaded_ms && now_ms - host->loaded_ms < HOST_FACTS_LAST_MS)
        return host;
    host->is_loaded = true;
    host->loaded_ms = now_ms;
    host->has_ipv6 = kernel_has_ipv6();
    host->unprivileged_from = kernel_unprivileged_start();
    host->is_ephemeral_detected = kernel_ephemeral(&host->ephemeral);
    (void) kernel_reserved_ports(&host->reserved); /* unreadable: treat no port as reserved */
    return host;
}

/* splitmix64: spreads requests, protects no secret. */
uint64_t core_random(struct core *core)
{
    uint64_t z = core->random_state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
