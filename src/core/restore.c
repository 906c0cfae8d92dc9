/* SPDX-License-Identifier: MIT */
/* Restores a full snapshot, all or nothing, without holders that have ended meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/core.h"

#include "base/banned.h"

/* Return whether the text is "INODE.START" of a pid namespace: "4026532501.239373". */
static bool is_pidns(const char *text)
{
    uint64_t number = 0;
    size_t n = strcspn(text, ".");

    return text_number(text, n, INT64_MAX, &number) && text[n] == '.' &&
           text_number(text + n + 1, strlen(text + n + 1), INT64_MAX, &number);
}

/* Return whether the text is "uid:1000", or "uid:0@4026532501.239373" of another pid namespace, exactly as
 * dibs writes it. Any other text would match no user, so that only an admin could end the claim. */
static bool is_principal(const char *text)
{
    uint64_t number = 0;
    size_t n = strcspn(text, "@");
    const char *pidns = text + n + (text[n] == '@');

    return strncmp(text, "uid:", 4) == 0 && n > 4 && text_number(text + 4, n - 4, UINT32_MAX - 1, &number) &&
           (text[4] != '0' || n == 5) &&
           (text[n] == '\0' || strcmp(pidns, "unknown") == 0 || is_pidns(pidns));
}

/* Select the pools that differ from the stored ones, the built-in default included. */
static dibs_status changed_pools(struct core *core, const struct call *call, const dibs_snapshot *snapshot,
                                 dibs_pool *out, size_t *n, dibs_err *err)
{
    dibs_pool now = { 0 };

    for (size_t i = 0; i < snapshot->n_pools; i++) {
        const dibs_pool *pool = &snapshot->pools[i];
        dibs_status s = core_pool_check(pool, err);

        if (s != DIBS_OK)
            return err_wrap(err, s, "pools[%zu]", i);
        s = core_pool_stored(core, call, pool->name, &now, err);
        if (s != DIBS_OK && s != DIBS_NOT_FOUND)
            return s;
        if (s == DIBS_NOT_FOUND || !core_pool_is_same(pool, &now))
            out[(*n)++] = *pool;
    }
    return DIBS_OK;
}

static bool note_here(void *ctx, const dibs_node *node)
{
    if (node->is_here)
        memcpy(ctx, node->name, sizeof node->name);
    return !node->is_here;
}

/* Check that claim and principal ("uid:1000@b") name the same other host. This host's become local. */
static dibs_status find_home(const char *here, dibs_claim *c, dibs_err *err)
{
    char *at = strrchr(c->principal, '@');

    if (!c->node[0])
        return DIBS_OK;
    if (!at || strcmp(at + 1, c->node) != 0)
        return err_set(err, DIBS_INVALID, "port %u belongs to host '%s', but its principal does not", c->port,
                       c->node);
    if (strcmp(c->node, here) == 0)
        *at = c->node[0] = '\0';
    return DIBS_OK;
}

static dibs_status check_right(struct core *core, const struct call *call, const dibs_claim *c, dibs_err *err)
{
    char user[sizeof c->principal] = ""; /* without the other host's name */

    memcpy(user, c->principal, strlen(c->principal) - (c->node[0] ? strlen(c->node) + 1 : 0));
    if (!is_principal(user))
        return err_set(err, DIBS_INVALID, "port %u: '%s' is no principal of this host; uid:NUMBER is wanted",
                       c->port, c->principal);
    if (strcmp(c->principal, call->principal) != 0 && !call->is_admin)
        return err_set(err, DIBS_DENIED, "port %u belongs to %s; you are %s", c->port, c->principal,
                       call->principal);
    return c->is_exclusive ? core_may_bind(core, call, &c->bindings[0], c->port, err) : DIBS_OK;
}

/* Judge the holder of a restored claim, unless another host must, and remove a dead one. */
static dibs_status judge_restored(struct core *core, const struct call *call, const char *here, dibs_claim *c,
                                  bool *stays, dibs_err *err)
{
    dibs_status s = find_home(here, c, err);

    if (s == DIBS_OK)
        s = check_right(core, call, c, err);
    if (s == DIBS_OK && c->node[0])
        s = ledger_node_enrol(core->ledger, c->node, err);
    if (s != DIBS_OK)
        return s;
    if (core_judge(core, call, NULL, c, NULL) == DIBS_DEAD) {
        c->holder = DIBS_HELD_BY_NOBODY;
        c->process = (dibs_process){ 0 };
        c->lease_ttl_ms = c->lease_until_ms = 0;
        c->command[0] = c->env[0] = '\0';
    }
    *stays = c->is_kept || c->holder != DIBS_HELD_BY_NOBODY;
    return DIBS_OK;
}

dibs_status core_restore(struct core *core, const struct call *call, const dibs_snapshot *snapshot,
                         size_t *n_restored, dibs_err *err)
{
    AUTO(free_auto) dibs_claim *claims = calloc(snapshot->n + 1, sizeof *claims);
    AUTO(free_auto) dibs_pool *pools = calloc(snapshot->n_pools + 1, sizeof *pools);
    char here[DIBS_NODE_MAX + 1] = "";
    size_t n_claims = 0;
    size_t n_pools = 0;

    if (!claims || !pools)
        return err_set(err, DIBS_FAILURE, "restoring: out of memory");
    dibs_status s = changed_pools(core, call, snapshot, pools, &n_pools, err);
    if (s == DIBS_OK && n_pools > 0)
        s = core_may_change_pools(call, err);
    for (size_t i = 0; i < snapshot->n && s == DIBS_OK && !here[0]; i++)
        if (snapshot->claims[i].node[0]) {
            s = ledger_node_enrol(core->ledger, NULL, err);
            if (s == DIBS_OK)
                s = ledger_nodes(core->ledger, call, note_here, here, err);
        }
    for (size_t i = 0; i < snapshot->n && s == DIBS_OK; i++) {
        bool stays = false;

        claims[n_claims] = snapshot->claims[i];
        s = judge_restored(core, call, here, &claims[n_claims], &stays, err);
        if (s != DIBS_OK)
            return err_wrap(err, s, "claims[%zu]", i);
        n_claims += stays;
    }
    core_index_forget(core);
    core->last_pool.is_loaded = false;
    return s == DIBS_OK
               ? ledger_restore(core->ledger, call, &(dibs_snapshot){ claims, n_claims, pools, n_pools },
                                n_restored, NULL, err)
               : s;
}
