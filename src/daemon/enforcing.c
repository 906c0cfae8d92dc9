/* SPDX-License-Identifier: MIT */
/* Let the kernel enforce the claims of the ledger (dibs serve --enforce). */
#include "base/err.h"
#include "daemon/engine_internal.h"
#include "hold/holds.h"
#include "server/log.h"

#include "base/banned.h"

/* A claim that the kernel cannot be given is not enforced, and counted: in the ledger it is still nobody
 * else's. */
void engine_enforce_claim(struct engine *e, const dibs_claim *claim)
{
    dibs_err err = { 0 };

    if (!e->enforce || enforce_put(e->enforce, claim, &err) == DIBS_OK)
        return;
    if (e->counts.unenforced++ == 0)
        LOG(LOG_WARNING, "a claim is not enforced; further ones are only counted", "why", err.msg);
}

static bool enforce_one(void *ctx, const dibs_claim *claim)
{
    engine_enforce_claim(ctx, claim);
    return true;
}

dibs_status engine_enforce(struct engine *engine, struct enforce *enforce, dibs_err *err)
{
    const struct call call = handle_call(engine->handle);

    engine->enforce = enforce;
    holds_enforce(engine->holds);
    dibs_status s =
        ledger_list(engine->ledger, &call, &(struct ledger_filter){ 0 }, enforce_one, engine, err);
    if (s == DIBS_OK)
        enforce_sweep(enforce);
    return s;
}

/* Only a child of the caller: `dibs run` claims for the command that it is about to execute, while `dibs
 * claim
 * --pid` names a process that others started and that may have children already. */
void engine_isolate(struct engine *engine, pid_t parent, const dibs_claim *claim)
{
    const struct process_view *view = &engine->core->view;
    struct process_facts facts = { 0 };
    char path[RUN_CGROUP_PATH_MAX + 1];
    dibs_err err = { 0 };

    if (!engine->enforce || parent <= 0 || claim->holder != DIBS_HELD_BY_PROCESS)
        return;
    pid_t pid = process_pid_here(view, &claim->process);
    if (pid <= 0 || process_identify(view, pid, &facts, NULL) != DIBS_OK || facts.ppid != parent)
        return;
    facts.process.pid = pid; /* also where the process is in a pid namespace below ours */
    if (enforce_isolate(engine->enforce, &facts.process, path, &err) != DIBS_OK && !engine->has_no_cgroups)
        LOG(LOG_WARNING,
            "commands get no cgroup of their own: a descendant that leaves them may bind nothing", "why",
            err.msg);
    engine->has_no_cgroups = err.code != DIBS_OK;
}
