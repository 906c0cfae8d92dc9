/* SPDX-License-Identifier: MIT */
/* The engine's own state: who asks, what the host says, and where randomness comes from. */
#include "core/core.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/attempt.h"
#include "kernel/kernel.h"

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
    self->caller = options->caller;
    dibs_status s = owner_view_load(&self->view, err);
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
    kernel_inventory_done(&core->inventory);
    free(core->desk);
    free(core);
}

void core_act_for(struct core *core, const struct core_caller *caller)
{
    const dibs_settings *before = core->caller.settings;

    core->caller = caller ? *caller : core->options.caller;
    if (core->caller.settings != before) /* the default pool is made of them */
        core->last_pool.is_loaded = false;
}

struct instant core_clock(const struct core *core)
{
    return core->options.now(core->options.now_ctx);
}

void core_begin_moment(struct core *core)
{
    core->moment = core_clock(core);
}

void core_end_moment(struct core *core)
{
    core->moment = (struct instant){ 0 };
    attempt_forget_rest(core);
}

struct instant core_now(const struct core *core)
{
    return core->moment.wall_ms ? core->moment : core_clock(core);
}

struct ledger_actor core_actor(const struct core *core, struct instant now)
{
    return (struct ledger_actor){
        .now = now,
        .uid = core->caller.uid,
        .pid = core->caller.pid,
        .principal = core->caller.principal,
        .is_admin = core->caller.is_admin,
        .allowance = core->caller.allowance,
    };
}

const struct core_host *core_host(struct core *core)
{
    struct core_host *host = &core->host;
    int64_t now_ms = core_now(core).boot_ms;
    enum kernel_source source = KERNEL_DEFAULT;

    if (host->is_loaded && now_ms >= host->loaded_ms && now_ms - host->loaded_ms < HOST_FACTS_LAST_MS)
        return host;
    host->is_loaded = true;
    host->loaded_ms = now_ms;
    host->has_ipv6 = kernel_has_ipv6();
    host->netns = kernel_netns();
    host->unprivileged_from = kernel_unprivileged_start();
    kernel_ephemeral(&host->ephemeral, &source);
    host->is_ephemeral_detected = source == KERNEL_DETECTED;
    memset(&host->reserved, 0, sizeof host->reserved);
    (void) kernel_reserved_ports(&host->reserved); /* unreadable: nothing is known to be reserved */
    return host;
}

/* splitmix64: spreads requests, guards no secret. */
uint64_t core_random(struct core *core)
{
    uint64_t z = core->random_state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
