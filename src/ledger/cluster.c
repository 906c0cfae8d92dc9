/* SPDX-License-Identifier: MIT */
/* Ledgers that several hosts share: notices, this host's lease, other hosts. No-ops for one host's ledger. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/step.h"

#include "base/banned.h"

static const struct cluster_ops *cluster_of(const struct ledger *ledger)
{
    return ledger->store->ops->cluster;
}

bool ledger_is_cluster(const char *uri)
{
    const char *rest = NULL;
    const struct store_ops *ops = ledger_backend(uri, &rest);

    return ops && ops->cluster;
}

bool ledger_is_shared(const struct ledger *ledger)
{
    return cluster_of(ledger) != NULL;
}

dibs_status ledger_cluster(const char *uri, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err)
{
    const char *rest = NULL;
    const struct store_ops *ops = ledger_backend(uri, &rest);

    if (!ops || !ops->cluster)
        return err_set(err, DIBS_INVALID, "no hosts share the ledger '%.200s'", uri);
    return ops->cluster->members(rest, timeout_ms, out, err);
}

bool ledger_place(const struct ledger *ledger, uint32_t *rank, uint32_t *n)
{
    const struct cluster_state *state = ledger->store->cluster;

    *rank = state ? state->rank : 0;
    *n = state ? state->n_hosts : 0;
    return state && state->has_number;
}

const struct ledger_traffic *ledger_traffic(const struct ledger *ledger)
{
    return ledger->store->cluster ? &ledger->store->cluster->traffic : NULL;
}

bool ledger_lost_race(const struct ledger *ledger)
{
    return ledger->store->cluster && ledger->store->cluster->had_conflict;
}

bool ledger_was_unreachable(const struct ledger *ledger)
{
    return ledger->store->cluster && ledger->store->cluster->was_cut;
}

/* ---- notices ---- */

int ledger_notices(const struct ledger *ledger)
{
    return ledger->store->cluster ? ledger->store->cluster->notices : -1;
}

uint64_t ledger_take_notices(struct ledger *ledger)
{
    if (!cluster_of(ledger))
        return 0;
    cluster_of(ledger)->take_notices(ledger->store);
    return ledger->store->cluster->n_elsewhere;
}

void ledger_revalidate(struct ledger *ledger)
{
    if (ledger->store->cluster)
        ledger->store->cluster->needs_revalidation = true;
}

bool ledger_changed_elsewhere(struct ledger *ledger, struct portbits *out)
{
    struct cluster_state *state = ledger->store->cluster;
    bool is_known = !state || !state->is_all_changed;

    memset(out, 0, sizeof *out);
    if (!state)
        return true;
    *out = state->changed;
    memset(&state->changed, 0, sizeof state->changed);
    state->is_all_changed = false;
    return is_known;
}

/* ---- the lease ---- */

dibs_status ledger_join(struct ledger *ledger, int64_t ttl_ms, const char *boot_id, dibs_err *err)
{
    return cluster_of(ledger) ? cluster_of(ledger)->join(ledger->store, ttl_ms, boot_id, err) : DIBS_OK;
}

void ledger_lease(const struct ledger *ledger, struct ledger_lease *out)
{
    *out = (struct ledger_lease){ 0 };
    if (ledger && cluster_of(ledger))
        cluster_of(ledger)->lease(ledger->store, out);
}

/* ---- handles of other hosts ---- */

dibs_status ledger_beside(struct ledger *ledger, const char *node, struct ledger **out, dibs_err *err)
{
    const struct cluster_ops *cluster = cluster_of(ledger);

    if (!cluster)
        return err_set(err, DIBS_INVALID,
                       "other hosts can be named only in a ledger that they share (etcd://...)");
    AUTO(free_auto) struct ledger *self = calloc(1, sizeof *self);
    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->options = ledger->options;
    self->options.node = NULL; /* borrowed, and used only while a ledger is opened */
    dibs_status s = cluster->beside(ledger->store, node, &self->store, err);
    if (s == DIBS_OK)
        *out = TAKE(self);
    return s;
}

bool ledger_is_of_this_host(const struct ledger *ledger, const struct ledger *beside)
{
    return cluster_of(ledger) && cluster_of(ledger)->is_own_host(ledger->store, beside->store);
}

/* ---- hosts ---- */

dibs_status ledger_check_node(const char *name, dibs_err *err)
{
    return record_check_node(name, false, err);
}

dibs_status ledger_nodes(struct ledger *ledger, const struct call *call, dibs_node_fn fn, void *ctx,
                         dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };

    if (!cluster_of(ledger))
        return DIBS_OK;
    dibs_status s = step_read(&step, ledger, call, err);
    if (s == DIBS_OK)
        cluster_of(ledger)->nodes(ledger->store, fn, ctx);
    return s;
}

dibs_status ledger_node_enrol(struct ledger *ledger, const char *name, dibs_err *err)
{
    dibs_status s = name ? record_check_node(name, true, err) : DIBS_OK;

    if (s != DIBS_OK)
        return s;
    if (!cluster_of(ledger))
        return err_set(err, DIBS_INVALID, "this ledger belongs to one host: it knows no others");
    return cluster_of(ledger)->node_enrol(ledger->store, name, err);
}

void ledger_compact(struct ledger *ledger)
{
    if (cluster_of(ledger))
        cluster_of(ledger)->compact(ledger->store);
}

dibs_status ledger_attach(struct ledger *ledger, const struct call *call, size_t *n, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    *n = 0;
    if (!cluster_of(ledger))
        return DIBS_OK;
    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);)
        s = step.store->ops->cluster->attach(step.store, n, err);
    return s;
}

struct sought {
    const char *name;
    dibs_node found; /* name empty: not found */
};

static bool is_sought(void *ctx, const dibs_node *node)
{
    struct sought *s = ctx;

    if (strcmp(node->name, s->name) == 0)
        s->found = *node;
    return !s->found.name[0];
}

static dibs_status check(struct ledger *ledger, const struct call *call, const char *name, bool is_forced,
                         dibs_err *err)
{
    struct sought sought = { .name = name };
    dibs_status s = ledger_nodes(ledger, call, is_sought, &sought, err);

    if (s != DIBS_OK)
        return s;
    if (!sought.found.name[0])
        return err_set(err, DIBS_NOT_FOUND, "no host is called '%.60s' in the cluster", name);
    if (sought.found.is_here)
        return err_set(err, DIBS_INVALID, "'%s' is this host: remove it from another host", name);
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
    struct id_list *ids;
};

static bool note_claim(void *ctx, const struct claim_record *row)
{
    struct of_node *o = ctx;

    return strcmp(row->claim.node, o->name) != 0 || id_list_add(o->ids, row->claim.id);
}

/* End the claim of a user of the removed host. A kept claim of a namespace only loses its holder. */
static dibs_status end_claim(struct step *step, struct claim_record *row, size_t *n, dibs_err *err)
{
    dibs_claim *c = &row->claim;
    bool is_kept = c->is_kept && strncmp(c->principal, "uid:", 4) != 0;

    if (is_kept && c->holder == DIBS_HELD_BY_NOBODY)
        return DIBS_OK;
    ++*n;
    if (!is_kept)
        return step_end(step, row, DIBS_EV_REAPED, err);
    c->holder = DIBS_HELD_BY_NOBODY;
    c->process = (dibs_process){ 0 };
    c->lease_ttl_ms = c->lease_until_ms = 0;
    c->command[0] = c->env[0] = '\0';
    return step_rehold(step, row, DIBS_EV_UNHELD, err);
}

/* End the host's claims in pools of the scope cluster. */
static dibs_status end_claims(struct ledger *ledger, const struct call *call, const char *name, size_t *n,
                              dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, true, &s, err);) {
        AUTO(id_list_auto) struct id_list ids = { 0 };
        struct of_node of = { .name = name, .ids = &ids };

        *n = 0;
        s = step.store->ops->claims(step.store, &(struct ledger_filter){ 0 }, note_claim, &of, err);
        if (s == DIBS_OK && ids.is_failed)
            return err_set(err, DIBS_FAILURE, "removing a host: out of memory");
        for (size_t i = 0; i < ids.n && s == DIBS_OK; i++) {
            struct claim_record row;

            s = store_get_claim(step.store, ids.id[i], &row, err);
            if (s == DIBS_OK)
                s = end_claim(&step, &row, n, err);
        }
    }
    return s;
}

static dibs_status remove_node(struct ledger *ledger, const struct call *call, const char *name, size_t *n,
                               dibs_err *err)
{
    const struct cluster_ops *cluster = cluster_of(ledger);
    size_t n_shared = 0;
    size_t n_own = 0;
    int64_t since = 0;
    dibs_status s = cluster->node_count(ledger->store, name, &n_own, &since, err);

    if (s == DIBS_OK)
        s = end_claims(ledger, call, name, &n_shared, err);
    *n += n_shared; /* committed, even if the next step fails */
    if (s == DIBS_OK)
        s = cluster->node_forget(ledger->store, name, since, err);
    if (s == DIBS_OK)
        *n += n_own;
    return s;
}

dibs_status ledger_node_remove(struct ledger *ledger, const struct call *call, const char *name,
                               bool is_forced, size_t *n, dibs_err *err)
{
    size_t ended = 0;
    dibs_status s = check(ledger, call, name, is_forced, err);

    if (s != DIBS_OK)
        return s;
    s = DIBS_TAKEN;
    for (int i = 0; i < STORE_TRIES_MAX && s == DIBS_TAKEN; i++)
        s = remove_node(ledger, call, name, &ended, err);
    if (s == DIBS_OK)
        *n = ended;
    return s;
}
