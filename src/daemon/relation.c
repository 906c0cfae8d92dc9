/* SPDX-License-Identifier: MIT */
/* Most relations follow from the engine's copy of the claims. A claim on some addresses, a kept one without a
 * holder, and a holder in another pid namespace have to be read from the ledger. */
#include "daemon/relation.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

enum { READS_MAX = 512 }; /* some 10 ms; for more claims the user alone counts */

static int by_port(const void *a, const void *b)
{
    return ((const struct engine_claim *) a)->port - ((const struct engine_claim *) b)->port;
}

static void note_claim(void *ctx, const struct engine_claim *claim)
{
    struct relations *r = ctx;

    if (!(claim->protos >> r->table->proto & 1) || !portbits_has(&r->ports, claim->port) ||
        !grow((void **) &r->claims, r->n, &r->max, sizeof *r->claims))
        return;
    r->claims[r->n++] = *claim;
}

void relations_load(struct relations *out, struct engine *engine, const struct call *call,
                    const struct socket_table *table)
{
    *out = (struct relations){ .engine = engine, .call = call, .table = table };
    for (size_t i = 0; i < table->n; i++)
        portbits_add(&out->ports, table->sockets[i].socket.port);
    engine_each_claim(engine, note_claim, out);
    if (out->n > 1)
        qsort(out->claims, out->n, sizeof *out->claims, by_port);
}

void relations_done(struct relations *relations)
{
    free(relations->claims);
}

/* Does the process work in the directory or below? */
static bool works_in(const struct table_process *process, const char *directory)
{
    const char *at = process ? process->details.directory : "";
    size_t n = strlen(directory);

    return strncmp(at, directory, n) == 0 && (at[n] == '/' || at[n] == '\0');
}

static enum wire_relation to_process(const struct relations *r, const struct table_socket *socket,
                                     uint32_t uid, pid_t holder, uint32_t claim_uid)
{
    const struct table_process *owner = socket_table_process(r->table, socket->pid);
    bool is_users = uid == claim_uid;

    if (holder > 0 && socket->pid == holder)
        return WIRE_HOLDER;
    /* Also as another user: servers give up the rights of root. A detached server still has the session of
     * the command that `dibs run` started. */
    if (holder > 0 && socket->pid != 0 &&
        (socket_table_descends(r->table, socket->pid, holder) ||
         (is_users && owner && owner->facts.session == holder)))
        return WIRE_DESCENDANT;
    return is_users ? WIRE_SAME_USER : WIRE_FOREIGN;
}

/* Decide by the whole claim. */
static enum wire_relation exactly(const struct relations *r, const struct table_socket *socket, uint32_t uid,
                                  const dibs_claim *claim)
{
    const dibs_socket used = { .proto = socket->socket.proto, .address = socket->socket.address };

    if (!core_socket_uses(&used, claim))
        return WIRE_UNCLAIMED;
    if (claim->holder == DIBS_HELD_BY_PROCESS)
        return to_process(r, socket, uid, process_pid_here(&r->engine->core->view, &claim->process),
                          claim->uid);
    if (uid != claim->uid)
        return WIRE_FOREIGN;
    if (claim->holder == DIBS_HELD_BY_LEASE)
        return WIRE_HOLDER;
    return !claim->project[0] || works_in(socket_table_process(r->table, socket->pid), claim->project)
               ? WIRE_PROJECT
               : WIRE_SAME_USER;
}

static enum wire_relation to_claim(struct relations *r, const struct table_socket *socket,
                                   const struct engine_claim *claim)
{
    const struct process_view *view = &r->engine->core->view;
    uint32_t uid = uid_map_above_seen(&view->users, socket->socket.uid);
    bool is_here = claim->holder != DIBS_HELD_BY_PROCESS || claim->pidns == view->pidns;
    dibs_claim whole;

    if (claim->holder != DIBS_HELD_BY_NOBODY && is_here &&
        claim->protos_anywhere >> socket->socket.proto & 1) {
        const struct table_process *holder = socket_table_process(r->table, claim->pid);
        bool is_same = holder && holder->facts.process.start_ticks == claim->start_ticks;

        return claim->holder == DIBS_HELD_BY_PROCESS
                   ? to_process(r, socket, uid, is_same ? claim->pid : 0, claim->uid)
               : uid == claim->uid ? WIRE_HOLDER /* a lease belongs to its user */
                                   : WIRE_FOREIGN;
    }
    if (r->n_read++ < READS_MAX &&
        ledger_find_id(r->engine->ledger, r->call, claim->id, &whole, NULL) == DIBS_OK)
        return exactly(r, socket, uid, &whole);
    return uid == claim->uid ? WIRE_SAME_USER : WIRE_FOREIGN;
}

enum wire_relation relation_of(struct relations *relations, const struct table_socket *socket)
{
    const struct engine_claim key = { .port = socket->socket.port };
    const struct engine_claim *at =
        relations->n > 0 ? bsearch(&key, relations->claims, relations->n, sizeof key, by_port) : NULL;
    enum wire_relation best = WIRE_UNCLAIMED;

    while (at && at > relations->claims && at[-1].port == key.port)
        at--;
    for (; at && at < relations->claims + relations->n && at->port == key.port; at++) {
        enum wire_relation now = to_claim(relations, socket, at);

        best = now > best ? now : best;
    }
    return best;
}
