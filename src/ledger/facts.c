/* SPDX-License-Identifier: MIT */
/* Facts about the Kubernetes cluster that a ledger serves: which one it is, and the quotas of its
 * namespaces. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "ledger/step.h"

#include "base/banned.h"

dibs_status ledger_fact(struct ledger *ledger, const struct call *call, struct fact_record *fact,
                        dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    return s == DIBS_OK ? step.store->ops->get(step.store, FACTS, fact, err) : s;
}

dibs_status ledger_count(struct ledger *ledger, const struct call *call, uint32_t *n, dibs_err *err)
{
    AUTO(step_auto) struct step step = { 0 };
    dibs_status s = step_read(&step, ledger, call, err);

    return s == DIBS_OK ? step.store->ops->count(step.store, call->principal, n, err) : s;
}

/* ---- the cluster ---- */

/* Compare what is known with `is`, and add what is new. TAKEN: they differ. */
static dibs_status merge(struct fact_record *known, const struct fact_record *is, bool *is_new, dibs_err *err)
{
    if (is->installation[0] && known->installation[0] && strcmp(is->installation, known->installation) != 0)
        return err_set(err, DIBS_TAKEN,
                       "this ledger serves the installation '%s' of dibs, and this one is '%s': each cluster "
                       "needs a prefix of its own (etcd://HOST/PREFIX), and all programs of one cluster the "
                       "same installation",
                       known->installation, is->installation);
    if (is->cluster[0] && known->cluster[0] && strcmp(is->cluster, known->cluster) != 0)
        return err_set(err, DIBS_TAKEN,
                       "this ledger serves the cluster whose namespace kube-system has the uid %s, and here "
                       "it is %s: each cluster needs a prefix (etcd://HOST/PREFIX) and an installation of "
                       "its own",
                       known->cluster, is->cluster);
    *is_new = (is->installation[0] && !known->installation[0]) || (is->cluster[0] && !known->cluster[0]);
    if (!known->installation[0])
        memcpy(known->installation, is->installation, sizeof known->installation);
    if (!known->cluster[0])
        memcpy(known->cluster, is->cluster, sizeof known->cluster);
    return DIBS_OK;
}

dibs_status ledger_serve(struct ledger *ledger, const struct call *call, const struct fact_record *cluster,
                         dibs_err *err)
{
    struct fact_record known = { 0 };
    bool is_new = true;
    dibs_status s = ledger_fact(ledger, call, &known, err);

    if (s == DIBS_OK)
        s = merge(&known, cluster, &is_new, err);
    if ((s != DIBS_OK && s != DIBS_NOT_FOUND) || !is_new)
        return s;
    s = DIBS_OK;
    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, true, &s, err);) {
        known = (struct fact_record){ 0 };
        s = step.store->ops->get(step.store, FACTS, &known, err);
        if (s == DIBS_OK || s == DIBS_NOT_FOUND)
            s = merge(&known, cluster, &is_new, err);
        if (s == DIBS_OK && is_new)
            s = step.store->ops->put(step.store, FACTS, &known, err);
    }
    return s;
}

/* ---- quotas ---- */

/* The facts to compare, and those of the store that are not among them. */
struct comparing {
    const struct fact_record *quotas;
    size_t n;
    struct fact_record *obsolete;
    size_t n_obsolete, max_obsolete;
    bool is_lost;
};

static int by_subject(const void *a, const void *b)
{
    return strcmp(((const struct fact_record *) a)->subject, ((const struct fact_record *) b)->subject);
}

static bool find_obsolete(void *ctx, const void *record)
{
    const struct fact_record *fact = record;
    struct comparing *c = ctx;

    if (!fact->subject[0] || (c->n > 0 && bsearch(fact, c->quotas, c->n, sizeof *fact, by_subject)))
        return true;
    c->is_lost = !grow((void **) &c->obsolete, c->n_obsolete, &c->max_obsolete, sizeof *c->obsolete);
    if (!c->is_lost)
        c->obsolete[c->n_obsolete++] = *fact;
    return !c->is_lost;
}

static dibs_status put_quota(struct step *step, const struct fact_record *quota, dibs_err *err)
{
    struct fact_record known = *quota;
    dibs_status s = step->store->ops->get(step->store, FACTS, &known, err);

    if (s == DIBS_OK && known.quota == quota->quota)
        return DIBS_OK;
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    known.quota = quota->quota;
    return step->store->ops->put(step->store, FACTS, &known, err);
}

dibs_status ledger_set_quotas(struct ledger *ledger, const struct call *call, struct fact_record *quotas,
                              size_t n, dibs_err *err)
{
    struct comparing c = { .quotas = quotas, .n = n };
    dibs_status s = DIBS_OK;

    if (n > 0)
        qsort(quotas, n, sizeof *quotas, by_subject);
    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, true, &s, err);) {
        c.n_obsolete = 0;
        s = step.store->ops->all(step.store, FACTS, find_obsolete, &c, err);
        if (s == DIBS_OK && c.is_lost)
            s = err_set(err, DIBS_FAILURE, "writing quotas: out of memory");
        for (size_t i = 0; i < c.n_obsolete && s == DIBS_OK; i++)
            s = step.store->ops->erase(step.store, FACTS, &c.obsolete[i], err);
        for (size_t i = 0; i < n && s == DIBS_OK; i++)
            s = put_quota(&step, &quotas[i], err);
    }
    free(c.obsolete);
    return s;
}
