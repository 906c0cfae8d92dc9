/* SPDX-License-Identifier: MIT */
/* Let the kernel enforce the claims of the ledger (dibs serve --enforce). */
#include "base/err.h"
#include "daemon/engine_internal.h"
#include "hold/bpf/numbers_map.h"
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

static bool is_enforced(void *ctx, const dibs_claim *claim)
{
    return enforce_has(ctx, claim->id);
}

dibs_status engine_enforce(struct engine *engine, struct enforce *enforce, dibs_err *err)
{
    const struct call call = handle_call(engine->handle);

    engine->enforce = enforce;
    engine->core->options.is_enforced = is_enforced;
    engine->core->options.enforcer = enforce;
    holds_enforce(engine->holds);
    dibs_status s =
        ledger_list(engine->ledger, &call, &(struct ledger_filter){ 0 }, enforce_one, engine, err);
    if (s == DIBS_OK)
        enforce_sweep(enforce);
    return s;
}

/* Find a child of `parent` that it is about to execute; false: it is none. `dibs claim --pid` names a process
 * that others started, and that may have children already. */
static bool find_child(const struct engine *e, pid_t parent, pid_t pid, struct process_facts *out)
{
    if (pid <= 0 || parent <= 0 || process_identify(&e->core->view, pid, out, NULL) != DIBS_OK ||
        out->ppid != parent)
        return false;
    out->process.pid = pid; /* also where the process is in a pid namespace below ours */
    return true;
}

void engine_isolate(struct engine *engine, pid_t parent, const dibs_claim *claim)
{
    struct process_facts facts = { 0 };
    char path[RUN_CGROUP_PATH_MAX + 1];
    dibs_err err = { 0 };

    if (!engine->enforce || claim->holder != DIBS_HELD_BY_PROCESS ||
        !find_child(engine, parent, process_pid_here(&engine->core->view, &claim->process), &facts))
        return;
    if (enforce_isolate(engine->enforce, &facts.process, facts.uid, path, &err) != DIBS_OK &&
        !engine->has_no_cgroups)
        LOG(LOG_WARNING,
            "commands get no cgroup of their own: a descendant that leaves them may bind nothing", "why",
            err.msg);
    engine->has_no_cgroups = err.code != DIBS_OK;
}

dibs_status engine_number(struct engine *engine, pid_t parent, pid_t pid, struct numbers *numbers,
                          char *cgroup, dibs_err *err)
{
    struct process_facts facts = { 0 };

    if (!engine->enforce)
        return err_set(err, DIBS_UNAVAILABLE,
                       "this daemon has no programs in the kernel: start it with 'dibs serve --enforce'");
    if (!find_child(engine, parent, pid, &facts))
        return err_set(err, DIBS_DENIED, "process %d is not a child of yours", (int) pid);
    /* A program that gains rights when it starts would trust the numbers that an ordinary user gave it. */
    if (numbers->n > 0 && numbers->is_users && !process_cannot_gain_rights(pid))
        return err_set(err, DIBS_DENIED, "process %d could still gain rights: set PR_SET_NO_NEW_PRIVS first",
                       (int) pid);
    dibs_status s = enforce_isolate(engine->enforce, &facts.process, facts.uid, cgroup, err);
    return s == DIBS_OK && numbers->n > 0 ? enforce_numbers(engine->enforce, &facts.process, numbers, err)
                                          : s;
}
