/* SPDX-License-Identifier: MIT */
/* The reaper: ends the claims of dead holders in chunks, off the request path and never at start (D17).
 * Holders are judged between transactions; each transaction ends only the generations that were judged. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/core.h"

#include "base/banned.h"

enum { CHUNK_CLAIMS = 128 };

struct chunk {
    struct core_sockets sockets;
    dibs_claim claims[CHUNK_CLAIMS];
    size_t n;
    dibs_status failed; /* of a claim that could not be ended: it must not keep the others (INV-6) */
};

static bool gather(void *ctx, const dibs_claim *claim)
{
    struct chunk *chunk = ctx;

    chunk->claims[chunk->n++] = *claim;
    return chunk->n < CHUNK_CLAIMS;
}

/* Return whether the project directory is gone; unknown ("no") for users of another pid namespace. */
static bool project_is_gone(const dibs_claim *claim)
{
    struct stat st;

    return claim->project[0] && !strchr(claim->principal, '@') && stat(claim->project, &st) != 0 &&
           (errno == ENOENT || errno == ENOTDIR);
}

static bool is_due(struct core *core, const struct call *call, struct core_sockets *sockets,
                   dibs_claim *claim, unsigned flags, bool *is_stale)
{
    bool is_held = claim->holder != DIBS_HELD_BY_NOBODY;
    bool is_dead = is_held && core_judge(core, call, sockets, claim, NULL) == DIBS_DEAD;
    const char *why = "";
    bool is_own = call->is_admin || strcmp(claim->principal, call->principal) == 0;

    *is_stale = (flags & DIBS_REAP_STALE) && claim->is_kept && is_own && (!is_held || is_dead) &&
                project_is_gone(claim) && core_socket_life(core, sockets, claim, &why) == DIBS_DEAD;
    return is_dead || *is_stale;
}

static dibs_status reap_chunk(struct core *core, const struct call *call, struct chunk *chunk,
                              struct core_reaping *r, bool *goes_on, dibs_err *err)
{
    *goes_on = true;
    for (size_t i = 0; i < chunk->n && *goes_on; i++) {
        dibs_claim *claim = &chunk->claims[i];
        bool is_stale = false;
        size_t ended = 1;
        dibs_status s = DIBS_OK;

        if (!is_due(core, call, &chunk->sockets, claim, r->flags, &is_stale))
            continue;
        if (!(r->flags & DIBS_REAP_DRY_RUN)) {
            struct ledger_seen seen = { claim->id, claim->generation, claim->lease_until_ms };

            s = ledger_end(core->ledger, call,
                           &(struct ledger_ending){ &seen, 1, is_stale ? LEDGER_END_STALE : LEDGER_END_REAP },
                           &ended, err);
        }
        if (s != DIBS_OK && clock_monotonic_ms() >= call->deadline_ms)
            return s;
        if (s != DIBS_OK)
            chunk->failed = s;
        if (s != DIBS_OK || ended == 0)
            continue; /* another process changed its holder or ended it */
        r->n++;
        claim->life = DIBS_DEAD;
        *goes_on = !r->fn || r->fn(r->ctx, claim);
    }
    return DIBS_OK;
}

dibs_status core_reap(struct core *core, const struct call *call, struct core_reaping *r, dibs_err *err)
{
    AUTO(free_auto) struct chunk *chunk = calloc(1, sizeof *chunk);
    struct ledger_filter filter = { .held_only = !(r->flags & DIBS_REAP_STALE), .limit = CHUNK_CLAIMS };
    bool goes_on = true;
    dibs_status s = DIBS_OK;

    if (!chunk)
        return err_set(err, DIBS_FAILURE, "reaping: out of memory");
    while (goes_on && s == DIBS_OK) {
        struct call part = core_part(core, call);

        memset(&chunk->sockets, 0, sizeof chunk->sockets);
        chunk->n = 0;
        s = ledger_list(core->ledger, &part, &filter, gather, chunk, err);
        if (s != DIBS_OK || chunk->n == 0)
            break;
        filter.after_id = chunk->claims[chunk->n - 1].id;
        s = reap_chunk(core, &part, chunk, r, &goes_on, err);
    }
    struct call last = core_part(core, call);
    dibs_status failed = chunk->failed;
    if (s == DIBS_OK && !(r->flags & DIBS_REAP_DRY_RUN))
        s = ledger_upkeep(core->ledger, &last, NULL, err);
    core_index_forget(core);
    return s == DIBS_OK ? failed : s;
}

/* ---- hosts ---- */

dibs_status core_node_remove(struct core *core, const struct call *call, const char *name, unsigned flags,
                             size_t *n, dibs_err *err)
{
    size_t ended = 0;

    if (!call->is_admin)
        return err_set(err, DIBS_DENIED,
                       "only an administrator removes a host, with all that it has claimed");
    dibs_status s = ledger_node_remove(core->ledger, call, name, (flags & DIBS_NODE_FORCE) != 0, &ended, err);
    core_index_forget(core);
    if (s == DIBS_OK && n)
        *n = ended;
    return s;
}
