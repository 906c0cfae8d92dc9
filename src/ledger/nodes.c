/* SPDX-License-Identifier: MIT */
/* Hosts that share a ledger. */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/rows.h"

#include "base/banned.h"

dibs_status ledger_nodes(struct ledger *ledger, dibs_node_fn fn, void *ctx, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = ledger->rows->ops->nodes ? tx_begin(&tx, ledger, false, false, NULL, err) : DIBS_OK;

    if (s == DIBS_OK && ledger->rows->ops->nodes)
        ledger->rows->ops->nodes(ledger->rows, fn, ctx);
    return s;
}

dibs_status ledger_node_enrol(struct ledger *ledger, const char *name, dibs_err *err)
{
    dibs_status s = name ? ledger_check_node(name, err) : DIBS_OK;

    if (s != DIBS_OK)
        return s;
    if (!ledger->rows->ops->node_enrol)
        return err_set(err, DIBS_INVALID, "this ledger is one host's own: it knows no others");
    return ledger->rows->ops->node_enrol(ledger->rows, name, err);
}

void ledger_tend(struct ledger *ledger)
{
    if (ledger->rows->ops->tend)
        ledger->rows->ops->tend(ledger->rows);
}

static dibs_status hang(struct ledger *ledger, const struct ledger_actor *actor, size_t *n, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_status s = tx_begin(&tx, ledger, true, false, actor, err);

    if (s == DIBS_OK)
        s = tx.rows->ops->hang(tx.rows, n, err);
    return s == DIBS_OK && *n > 0 ? tx_commit(&tx, err) : s;
}

dibs_status ledger_hang(struct ledger *ledger, const struct ledger_actor *actor, size_t *n, dibs_err *err)
{
    *n = 0;
    return ledger->rows->ops->hang ? DECIDE(ledger, hang(ledger, actor, n, err)) : DIBS_OK;
}

struct sought {
    const char *name;
    dibs_node found; /* its name is empty: there is none */
};

static bool is_sought(void *ctx, const dibs_node *node)
{
    struct sought *s = ctx;

    if (strcmp(node->name, s->name) == 0)
        s->found = *node;
    return !s->found.name[0];
}

static dibs_status check(struct ledger *ledger, const char *name, bool is_forced, dibs_err *err)
{
    struct sought sought = { .name = name };
    dibs_status s = ledger_nodes(ledger, is_sought, &sought, err);

    if (s != DIBS_OK)
        return s;
    if (!sought.found.name[0])
        return err_set(err, DIBS_NOT_FOUND, "no host is called '%.60s' in the cluster", name);
    if (sought.found.is_here)
        return err_set(err, DIBS_INVALID, "'%s' is this host itself: remove it from another one", name);
    if (sought.found.is_alive && !is_forced)
        return err_set(
            err, DIBS_TAKEN,
            "host '%s' is alive: its daemon renews its lease; stop that, and wait until it has ended "
            "(--force removes it nevertheless)",
            name);
    return DIBS_OK;
}

struct of_node {
    const char *name;
    struct id_list ids;
};

static void of_node_auto(struct of_node *o)
{
    id_list_auto(&o->ids);
}

static bool note_claim(void *ctx, const struct row_claim *row)
{
    struct of_node *o = ctx;

    return strcmp(row->claim.node, o->name) != 0 || id_list_add(&o->ids, row->claim.id);
}

/* A user of the host is gone with it; what is a namespace's and kept stays. */
static dibs_status end_claim(struct ledger_tx *tx, struct row_claim *row, size_t *n, dibs_err *err)
{
    dibs_claim *c = &row->claim;
    bool is_kept = c->is_kept && strncmp(c->principal, "uid:", 4) != 0;

    if (is_kept && c->holder == DIBS_HELD_BY_NOBODY)
        return DIBS_OK;
    ++*n;
    if (!is_kept)
        return tx_end(tx, row, DIBS_EV_REAPED, err);
    c->holder = DIBS_HELD_BY_NOBODY;
    c->process = (dibs_process){ 0 };
    c->lease_ttl_ms = c->lease_until_ms = 0;
    c->command[0] = '\0';
    return tx_rehold(tx, row, DIBS_EV_UNHELD, err);
}

/* What it has of ports that are everybody's. */
static dibs_status end_claims(struct ledger *ledger, const char *name, const struct ledger_actor *actor,
                              size_t *n, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    AUTO(of_node_auto) struct of_node of = { .name = name };
    size_t ended = 0;
    dibs_status s = tx_begin(&tx, ledger, true, true, actor, err);

    if (s == DIBS_OK)
        s = tx.rows->ops->claims(tx.rows, &(struct ledger_filter){ 0 }, note_claim, &of, err);
    if (s == DIBS_OK && of.ids.is_failed)
        return err_set(err, DIBS_FAILURE, "removing a host: out of memory");
    for (size_t i = 0; i < of.ids.n && s == DIBS_OK; i++) {
        struct row_claim row;

        s = tx.rows->ops->claim_get(tx.rows, of.ids.id[i], &row, err);
        if (s == DIBS_OK)
            s = end_claim(&tx, &row, &ended, err);
    }
    if (s == DIBS_OK && ended > 0)
        s = tx_commit(&tx, err);
    *n = ended;
    return s;
}

static dibs_status remove_node(struct ledger *ledger, const char *name, const struct ledger_actor *actor,
                               size_t *n, dibs_err *err)
{
    const struct rows_ops *ops = ledger->rows->ops;
    size_t n_shared = 0;
    size_t n_own = 0;
    int64_t since = 0;
    dibs_status s = ops->node_count(ledger->rows, name, &n_own, &since, err);

    if (s == DIBS_OK)
        s = DECIDE(ledger, end_claims(ledger, name, actor, &n_shared, err));
    *n += n_shared; /* for good, whatever follows */
    if (s == DIBS_OK)
        s = ops->node_forget(ledger->rows, name, since, err);
    if (s == DIBS_OK)
        *n += n_own;
    return s;
}

dibs_status ledger_node_remove(struct ledger *ledger, const char *name, bool is_forced,
                               const struct ledger_actor *actor, size_t *n, dibs_err *err)
{
    enum { TRIES = 8 }; /* a host that lives may be at work */
    size_t ended = 0;
    dibs_status s = check(ledger, name, is_forced, err);

    if (s != DIBS_OK)
        return s;
    s = DIBS_TAKEN;
    for (int i = 0; i < TRIES && s == DIBS_TAKEN; i++)
        s = remove_node(ledger, name, actor, &ended, err);
    if (s == DIBS_OK)
        *n = ended;
    return s;
}
