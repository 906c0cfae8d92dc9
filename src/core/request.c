/* SPDX-License-Identifier: MIT */
#include "core/request.h"
#include "core/adopt.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/name_part.h"
#include "base/text.h"
#include "core/adopt.h"
#include "host/kernel.h"
#include "net/bindings.h"

#include "base/banned.h"

/* Check that a server can bind all addresses at once. */
static dibs_status check_overlap(const dibs_claim *claim, dibs_err *err)
{
    char one[DIBS_ADDRESS_TEXT_MAX + 1];
    char two[DIBS_ADDRESS_TEXT_MAX + 1];

    for (size_t i = 0; i < claim->n_bindings; i++) {
        const dibs_binding *b = &claim->bindings[i];
        size_t k = 0;

        while (k < i && !bindings_conflict(&claim->bindings[k], 1, b, 1))
            k++;
        if (k == i)
            continue;
        dibs_address_format(&claim->bindings[k].address, one);
        dibs_address_format(&b->address, two);
        return err_set(err, DIBS_INVALID, "%s addresses %s and %s overlap; one of them is enough",
                       dibs_proto_text(b->proto), one, two);
    }
    return DIBS_OK;
}

static dibs_status fill_bindings(struct core *core, const struct call *call, const dibs_request *r,
                                 struct ask *ask, struct ledger_want *want, dibs_err *err)
{
    static const dibs_binding anywhere = { DIBS_TCP, { .len = 16 } };
    dibs_claim *claim = &want->claim;
    size_t n = r->n_bindings ? r->n_bindings : 1;

    assert(r->n_bindings <= DIBS_BINDINGS_MAX); /* checked by lib/args.c */
    for (size_t i = 0; i < n; i++) {
        const dibs_binding *b = r->n_bindings ? &r->bindings[i] : &anywhere;
        const uint8_t *bytes = b->address.bytes;
        bool is_link_local = b->address.len == 16 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;

        /* A link-local address can be bound only with an interface, and a binding has none. */
        if (r->mode != DIBS_DECLARED && is_link_local)
            return err_set(err, DIBS_INVALID, "an IPv6 link-local address cannot be claimed, only declared");
        if (!bindings_cover(claim->bindings, claim->n_bindings, b))
            claim->bindings[claim->n_bindings++] = *b;
    }
    dibs_status s = check_overlap(claim, err);
    if (s != DIBS_OK || call->is_elsewhere || core_host(core, call)->has_ipv6)
        return s;
    memcpy(want->wide, claim->bindings, sizeof want->wide);
    n = claim->n_bindings;
    ask->is_narrowed = bindings_narrow(want->wide, n, claim->bindings, &claim->n_bindings);
    want->n_wide = ask->is_narrowed ? n : 0;
    return DIBS_OK;
}

/* Read the facts of the process, whose pid can be reused; cache only our own and those of watched ones. */
static dibs_status identify(struct core *core, const struct call *call, pid_t pid, struct core_self *out,
                            dibs_err *err)
{
    const struct core_host *host = core_host(core, call);
    bool is_self = pid == getpid();

    if (is_self && core->self.facts.process.pid == pid && core->self.loaded_ms == host->loaded_ms) {
        *out = core->self;
        out->netns = kernel_netns();
        return DIBS_OK;
    }
    /* Watched facts can have an old uid: read them again before refusing the request. */
    if (core->options.known && core->options.known(core->options.known_ctx, pid, out) &&
        out->facts.uid == call->uid) {
        /* A process can leave its network namespace; the server has just read the caller's. */
        out->netns = pid == call->pid && call->netns ? call->netns : kernel_netns_of(pid);
        return DIBS_OK;
    }
    dibs_status s = process_identify(&core->view, pid, &out->facts, err);
    if (s != DIBS_OK)
        return s;
    out->netns = kernel_netns_of(pid);
    out->loaded_ms = host->loaded_ms;
    if (is_self)
        core->self = *out;
    return DIBS_OK;
}

dibs_status core_holder(struct core *core, const struct call *call, const dibs_heir *heir, dibs_claim *out,
                        dibs_err *err)
{
    int32_t pid = heir->pid ? heir->pid : call->pid;
    struct core_self who;
    struct ledger_lease lease;

    out->holder = heir->holder;
    out->uid = call->uid;
    out->netns = call->netns ? call->netns : kernel_netns();
    switch (heir->holder) {
    case DIBS_HELD_BY_NOBODY: return DIBS_OK;
    case DIBS_HELD_BY_LEASE:
        if (heir->ttl_ms <= 0 || heir->ttl_ms > DIBS_TTL_MAX_MS)
            return err_set(err, DIBS_INVALID, "a lease must last between 1 ms and ten years");
        out->lease_ttl_ms = heir->ttl_ms;
        memcpy(out->process.boot_id, core->view.boot_id, sizeof out->process.boot_id);
        return DIBS_OK;
    case DIBS_HELD_BY_PROCESS: break;
    }
    if (heir->holder != DIBS_HELD_BY_PROCESS)
        return err_set(err, DIBS_INVALID, "an unknown kind of holder");
    if (pid < 0)
        return err_set(err, DIBS_INVALID, "pid %d is not a process", pid);
    if (pid == 0)
        return err_set(err, DIBS_INVALID, "no process can hold this claim: yours cannot be seen from here");
    ledger_lease(core->ledger, &lease);
    if (lease.is_cluster && !lease.is_member) /* without its lease no other host would see the holder end */
        return err_set(
            err, DIBS_INVALID,
            "in a cluster a process holds a claim only through the daemon of its host ('dibs serve'); "
            "hold it for a time (--ttl) or keep it (--keep)");
    dibs_status s = identify(core, call, pid, &who, err);
    if (s != DIBS_OK)
        return s;
    if (who.facts.uid != call->uid && !call->is_admin)
        return err_set(err, DIBS_DENIED, "process %d belongs to uid %u; you are uid %u", pid, who.facts.uid,
                       call->uid);
    out->process = who.facts.process;
    out->uid = who.facts.uid;
    memcpy(out->command, who.facts.command, sizeof out->command);
    if (who.netns != 0) /* its sockets are in its own namespace */
        out->netns = who.netns;
    return DIBS_OK;
}

void request_set_choice(struct ask *ask, struct ledger_want *want, bool is_choice)
{
    const dibs_request *r = ask->request;

    ask->is_choice = is_choice;
    want->is_choice = is_choice;
    want->claim.kind = is_choice ? DIBS_DYNAMIC : DIBS_STATIC;
    want->candidates = is_choice ? NULL : &r->port;
    want->n_candidates = is_choice ? 0 : 1;
}

bool core_is_noop(const dibs_request *request)
{
    return request->mode != DIBS_RANDOM && request->port == 0;
}

dibs_status request_prepare(struct core *core, const struct call *call, const dibs_request *r,
                            struct ask *ask, struct ledger_want *want, dibs_err *err)
{
    dibs_claim *claim = &want->claim;

    ask->request = r;
    ask->is_noop = core_is_noop(r);
    if (r->mode < DIBS_RANDOM || r->mode > DIBS_DECLARED)
        return err_set(err, DIBS_INVALID, "a request has an unknown mode");
    if (r->holder == DIBS_HELD_BY_NOBODY && !r->keep)
        return err_set(err, DIBS_INVALID, "a claim needs a holder, or must be kept");
    if (r->name && dibs_name_check(r->name, err) != DIBS_OK)
        return DIBS_INVALID;
    if (r->name && name_part_count(r->name) > DIBS_NAME_PARTS_MAX)
        return err_set(err, DIBS_INVALID, "name '%s': only a claim that was moved has six parts", r->name);
    if (r->name)
        (void) text_copy(claim->name, sizeof claim->name, r->name);
    if (r->project && !text_copy(claim->project, sizeof claim->project, r->project))
        return err_set(err, DIBS_INVALID, "a project directory has at most %d bytes", DIBS_PROJECT_MAX);
    if (r->env && (r->holder != DIBS_HELD_BY_PROCESS || !text_copy(claim->env, sizeof claim->env, r->env)))
        return err_set(err, DIBS_INVALID, "only a process has variables, of at most %d bytes", DIBS_ENV_MAX);
    if (r->keeper && !text_copy(claim->keeper, sizeof claim->keeper, r->keeper))
        return err_set(err, DIBS_INVALID, "a keeper has at most %d bytes", DIBS_KEEPER_MAX);
    (void) text_copy(claim->principal, sizeof claim->principal, call->principal);
    claim->is_kept = r->keep;
    claim->hold = r->hold;
    claim->as_port = r->as_port;
    claim->run = 1;
    claim->is_exclusive = r->mode != DIBS_DECLARED;
    want->is_lookup = r->is_lookup;
    want->is_adopted = r->is_lookup && r->keep && r->is_adopted;
    want->is_same = r->n_bindings > 0;
    want->skips_probe = r->mode == DIBS_DECLARED || call->is_elsewhere;
    want->required = r->mode == DIBS_REQUIRED || r->mode == DIBS_DECLARED ? r->port : 0;
    request_set_choice(ask, want, r->mode == DIBS_RANDOM);
    dibs_status s = fill_bindings(core, call, r, ask, want, err);
    const dibs_heir holder = { .holder = r->holder, .pid = r->pid, .ttl_ms = r->ttl_ms };
    if (s == DIBS_OK)
        s = core_holder(core, call, &holder, claim, err);
    if (s == DIBS_OK && !want->skips_probe && r->mode == DIBS_REQUIRED)
        want->skips_probe = adopt_may(core, call, claim, r->port);
    return s;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

dibs_status request_names_differ(const struct ledger_want *wants, size_t n, dibs_err *err)
{
    AUTO(free_auto) const char **names = calloc(n, sizeof *names);
    size_t n_names = 0;

    if (!names)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    for (size_t i = 0; i < n; i++)
        if (wants[i].claim.name[0])
            names[n_names++] = wants[i].claim.name;
    qsort(names, n_names, sizeof *names, by_name);
    for (size_t i = 1; i < n_names; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return err_set(err, DIBS_INVALID, "name '%s' is asked for twice in one batch", names[i]);
    return DIBS_OK;
}
