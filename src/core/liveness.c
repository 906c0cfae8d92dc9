/* SPDX-License-Identifier: MIT */
/* Judges whether a claim is still held (INV-5), by process identity, lease and sockets. A dead holder whose
 * socket is still bound is an orphan. A call judges outside its own transactions (P9). */
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "core/core.h"
#include "host/kernel.h"
#include "net/bindings.h"

#include "base/banned.h"

struct in_use {
    const struct core *core;
    const dibs_claim *claim;
    bool is_found;
    bool is_unknown; /* a socket of a user who has no number in our user namespace */
};

static bool is_its_socket(void *ctx, const struct kernel_socket *socket)
{
    struct in_use *u = ctx;
    uint32_t uid = uid_map_above_seen(&u->core->view.users, socket->uid);
    const dibs_binding used = { socket->proto, socket->address };
    bool is_conflict = bindings_conflict(u->claim->bindings, u->claim->n_bindings, &used, 1);

    /* A socket of another user does not keep the claim alive. */
    u->is_found = is_conflict && uid == u->claim->uid;
    u->is_unknown = u->is_unknown || (is_conflict && uid == UID_MAP_UNKNOWN);
    return !u->is_found;
}

static bool note_port(void *ctx, const struct kernel_socket *socket)
{
    portbits_add(ctx, socket->port);
    return true;
}

/* Return whether no socket of any user and address is on the port. */
static bool has_no_socket(struct core_sockets *sockets, const dibs_claim *claim)
{
    bool is_unused = sockets && claim->netns == kernel_netns();

    for (size_t i = 0; i < claim->n_bindings && is_unused; i++) {
        dibs_proto proto = claim->bindings[i].proto;

        if (!sockets->is_known[proto])
            sockets->is_known[proto] =
                kernel_sockets(0, proto, 0, note_port, &sockets->used[proto], NULL) == DIBS_OK;
        is_unused = sockets->is_known[proto] && !portbits_has(&sockets->used[proto], claim->port);
    }
    return is_unused;
}

dibs_life core_socket_life(struct core *core, struct core_sockets *sockets, const dibs_claim *claim,
                           const char **why)
{
    struct in_use use = { .core = core, .claim = claim };
    unsigned asked = 0;

    if (has_no_socket(sockets, claim))
        return DIBS_DEAD;

    for (size_t i = 0; i < claim->n_bindings && !use.is_found; i++) {
        dibs_proto proto = claim->bindings[i].proto;

        if (asked & 1u << proto)
            continue;
        asked |= 1u << proto;
        dibs_status s = kernel_sockets(claim->netns, proto, claim->port, is_its_socket, &use, NULL);
        /* The namespace is gone with all its sockets, or with those of our own user. */
        if (s == DIBS_NOT_FOUND ||
            (s == DIBS_DENIED && claim->uid == uid_map_above(&core->view.users, geteuid())))
            return DIBS_DEAD;
        *why = "its network namespace cannot be reached from here";
        if (s != DIBS_OK)
            return DIBS_UNKNOWN;
    }
    *why = "the owner of its socket is not visible from this user namespace";
    return use.is_found ? DIBS_ALIVE : use.is_unknown ? DIBS_UNKNOWN : DIBS_DEAD;
}

/* Judge by the lease of the claim's host first: when it has expired, every claim attached to it is dead, even
 * if the process runs. False: this host must judge by process, clock and sockets. */
static bool is_judged_by_node(dibs_claim *claim, const char **why)
{
    claim->life = claim->holder == DIBS_HELD_BY_NOBODY ? DIBS_ALIVE : claim->node_life;
    if (claim->life == DIBS_DEAD)
        *why = "the lease of its host in the cluster has ended";
    else if (claim->life == DIBS_UNKNOWN)
        *why =
            claim->node[0] ? "only its own host can tell" : "this host cannot renew its lease in the cluster";
    return claim->holder == DIBS_HELD_BY_NOBODY || claim->node[0] || claim->life != DIBS_ALIVE;
}

dibs_life core_judge_without_holder(struct core *core, struct core_sockets *sockets, dibs_claim *claim,
                                    const char **why)
{
    const char *unused = "";
    const char *trouble = "";

    if (!why)
        why = &unused;
    if (is_judged_by_node(claim, why))
        return claim->life;
    claim->life = DIBS_DEAD;
    /* A declared port is not exclusive: a socket there proves nothing about its holder. */
    if (strcmp(claim->process.boot_id, core->view.boot_id) != 0 ||
        (claim->holder == DIBS_HELD_BY_PROCESS && !claim->is_exclusive))
        return DIBS_DEAD;
    claim->life = core_socket_life(core, sockets, claim, &trouble);
    claim->is_orphan = claim->life == DIBS_ALIVE;
    if (claim->life != DIBS_DEAD)
        *why = claim->is_orphan ? "its holder is gone, but its socket is still bound" : trouble;
    return claim->life;
}

dibs_life core_judge(struct core *core, const struct call *call, struct core_sockets *sockets,
                     dibs_claim *claim, const char **why)
{
    bool is_this_boot = strcmp(claim->process.boot_id, core->view.boot_id) == 0;
    const char *unused = "";

    if (!why)
        why = &unused;
    *why = "";
    claim->is_orphan = false;
    if (is_judged_by_node(claim, why))
        return claim->life;
    switch (claim->holder) {
    case DIBS_HELD_BY_NOBODY: return DIBS_ALIVE;
    case DIBS_HELD_BY_PROCESS: claim->life = process_judge(&core->view, &claim->process, why); break;
    case DIBS_HELD_BY_LEASE:
        if (!is_this_boot || call->now.boot_ms >= claim->lease_until_ms) {
            claim->life = DIBS_DEAD;
            *why = is_this_boot ? "its lease has ended" : "another boot";
        }
        break;
    }
    return claim->life == DIBS_DEAD ? core_judge_without_holder(core, sockets, claim, why) : claim->life;
}

void core_see_command(struct core *core, dibs_claim *claim)
{
    struct process_facts now;

    if (claim->holder != DIBS_HELD_BY_PROCESS || claim->life != DIBS_ALIVE || claim->is_orphan)
        return;
    pid_t pid = process_pid_here(&core->view, &claim->process);
    if (pid > 0 && process_identify(&core->view, pid, &now, NULL) == DIBS_OK)
        (void) text_copy(claim->command, sizeof claim->command, now.command);
}
