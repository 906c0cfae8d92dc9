/* SPDX-License-Identifier: MIT */
/* Is a claim still held? (DESIGN "Life and death", INV-5)
 *
 * A process by its identity; a lease by its end, and after that by a socket of the same user; a dead holder
 * whose socket is still bound (an inherited descriptor) is an orphan until the socket closes. Never called
 * while the ledger's write lock is held. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "kernel/kernel.h"

#include "base/banned.h"

struct in_use {
    const struct core *core;
    const dibs_claim *claim;
    bool is_found;
    bool is_unknown; /* somebody's, who has no number in our user namespace */
};

static bool is_its_socket(void *ctx, const struct kernel_socket *socket)
{
    struct in_use *u = ctx;
    uint32_t uid = owner_seen_uid(&u->core->view.users, socket->uid);
    bool is_conflict = false;

    for (size_t i = 0; i < u->claim->n_bindings && !is_conflict; i++)
        is_conflict = u->claim->bindings[i].proto == socket->proto &&
                      dibs_address_conflict(&u->claim->bindings[i].address, &socket->address);
    /* A stranger's socket keeps nobody's claim alive. */
    u->is_found = is_conflict && uid == u->claim->uid;
    u->is_unknown = u->is_unknown || (is_conflict && uid == OWNER_UID_UNKNOWN);
    return !u->is_found;
}

static bool note_port(void *ctx, const struct kernel_socket *socket)
{
    portbits_add(ctx, socket->port);
    return true;
}

void core_judge_begin(struct core *core)
{
    core->sockets = calloc(1, sizeof *core->sockets); /* without memory each port is looked at by itself */
}

void core_judge_end(struct core *core)
{
    free(core->sockets);
    core->sockets = NULL;
}

/* Nobody at all has a socket on that port, of whatever user and address. */
static bool has_no_socket(struct core *core, const dibs_claim *claim)
{
    struct core_sockets *sockets = core->sockets;
    bool is_unused = sockets && claim->netns == core_host(core)->netns;

    for (size_t i = 0; i < claim->n_bindings && is_unused; i++) {
        dibs_proto proto = claim->bindings[i].proto;

        if (!sockets->is_known[proto])
            sockets->is_known[proto] =
                kernel_sockets(0, proto, 0, note_port, &sockets->used[proto], NULL) == DIBS_OK;
        is_unused = sockets->is_known[proto] && !portbits_has(&sockets->used[proto], claim->port);
    }
    return is_unused;
}

dibs_life core_socket_life(struct core *core, const dibs_claim *claim, const char **why)
{
    uint64_t here = core_host(core)->netns;
    struct in_use use = { .core = core, .claim = claim };
    unsigned asked = 0;

    if (has_no_socket(core, claim))
        return DIBS_DEAD;

    for (size_t i = 0; i < claim->n_bindings && !use.is_found; i++) {
        dibs_proto proto = claim->bindings[i].proto;

        if (asked & 1u << proto)
            continue;
        asked |= 1u << proto;
        dibs_status s = kernel_sockets(claim->netns == here ? 0 : claim->netns, proto, claim->port,
                                       is_its_socket, &use, NULL);
        if (s == DIBS_NOT_FOUND)
            return DIBS_DEAD; /* the namespace is gone, and every socket with it */
        *why = "its network namespace cannot be reached from here";
        if (s != DIBS_OK)
            return DIBS_UNKNOWN;
    }
    *why = "whose socket it is cannot be told from this user namespace";
    return use.is_found ? DIBS_ALIVE : use.is_unknown ? DIBS_UNKNOWN : DIBS_DEAD;
}

static void say(char *why, size_t size, const char *text)
{
    if (why)
        (void) snprintf(why, size, "%s", text);
}

/* What the cluster says of the claim's host comes first: a lease that has ended is the end of all that hangs
 * on it, whoever lives. A process, a clock and a socket of another host say nothing here: boot id, pid and
 * CLOCK_BOOTTIME are its own, and only it judges by them. True: that is all there is to say. */
static bool is_judged_by_node(dibs_claim *claim, char *why, size_t why_size)
{
    if (claim->holder == DIBS_HELD_BY_NOBODY || claim->node_life == DIBS_DEAD) {
        claim->life = claim->holder == DIBS_HELD_BY_NOBODY ? DIBS_ALIVE : DIBS_DEAD;
        if (claim->life == DIBS_DEAD)
            say(why, why_size, "the lease of its host in the cluster has ended");
        return true;
    }
    claim->life = claim->node_life;
    if (claim->life == DIBS_UNKNOWN)
        say(why, why_size,
            claim->node[0] ? "only its own host can tell"
                           : "this host cannot renew its lease in the cluster");
    return claim->node[0] || claim->life == DIBS_UNKNOWN;
}

dibs_life core_judge_bereft(struct core *core, dibs_claim *claim, char *why, size_t why_size)
{
    const char *unknown = "";

    if (is_judged_by_node(claim, why, why_size))
        return claim->life;
    claim->life = DIBS_DEAD;
    /* A port that a process has only declared is not its own: sockets there say nothing about it. */
    if (strcmp(claim->process.boot_id, core->view.boot_id) != 0 ||
        (claim->holder == DIBS_HELD_BY_PROCESS && !claim->is_exclusive))
        return DIBS_DEAD;
    claim->life = core_socket_life(core, claim, &unknown);
    claim->is_orphan = claim->life == DIBS_ALIVE;
    if (claim->is_orphan)
        say(why, why_size, "its holder is gone, but its socket is still bound");
    else if (claim->life == DIBS_UNKNOWN)
        say(why, why_size, unknown);
    return claim->life;
}

dibs_life core_judge(struct core *core, dibs_claim *claim, char *why, size_t why_size)
{
    bool is_this_boot = strcmp(claim->process.boot_id, core->view.boot_id) == 0;

    claim->life = DIBS_ALIVE;
    claim->is_orphan = false;
    say(why, why_size, "");
    if (is_judged_by_node(claim, why, why_size))
        return claim->life;
    switch (claim->holder) {
    case DIBS_HELD_BY_NOBODY: return DIBS_ALIVE;
    case DIBS_HELD_BY_PROCESS: claim->life = owner_judge(&core->view, &claim->process, why, why_size); break;
    case DIBS_HELD_BY_LEASE:
        if (!is_this_boot || core_now(core).boot_ms >= claim->lease_until_ms) {
            claim->life = DIBS_DEAD;
            say(why, why_size, is_this_boot ? "its lease has ended" : "another boot");
        }
        break;
    }
    return claim->life == DIBS_DEAD ? core_judge_bereft(core, claim, why, why_size) : claim->life;
}
