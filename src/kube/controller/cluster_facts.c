/* SPDX-License-Identifier: MIT */
/* Bring facts about the cluster into the ledger, where the webhook, which has no rights, reads them. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "kube/controller/internal.h"
#include "ledger/ledger.h"

#include "base/banned.h"

void controller_note_namespace(struct controller *c, const jsonr_value *object)
{
    if (strcmp(jsonr_text_at(object, "metadata.name"), "kube-system") == 0)
        (void) text_copy(c->cluster, sizeof c->cluster, jsonr_text_at(object, "metadata.uid"));
}

dibs_status controller_check_cluster(struct controller *c, dibs_err *err)
{
    dibs_status s = kube_ledger_serve(&c->ledger, &c->installation, c->cluster, err);

    if (s != DIBS_TAKEN)
        return s;
    c->wrong = *err;
    c->runtime.is_stopping = true;
    return s;
}

struct quotas {
    struct fact_record *all;
    size_t n, max;
    bool is_lost;
};

static void add_quota(void *ctx, struct hash_table_item *item)
{
    const struct inventory_object *o = (const struct inventory_object *) item;
    struct quotas *q = ctx;

    if (!o->has_quota || o->is_gone)
        return;
    q->is_lost = q->is_lost || !grow((void **) &q->all, q->n, &q->max, sizeof *q->all);
    if (q->is_lost)
        return;
    q->all[q->n] = (struct fact_record){ .quota = o->quota };
    memcpy(q->all[q->n++].subject, o->principal, sizeof o->principal);
}

dibs_status controller_write_quotas(struct controller *c, dibs_err *err)
{
    const struct source *source = &c->sources[SOURCE_NAMESPACES];
    const struct call call = handle_call(&c->ledger.acting);
    struct quotas q = { 0 };

    if (source->is_incomplete || informer_status(source->informer)->state != INFORMER_KNOWN)
        return DIBS_OK;
    hash_table_each(&c->inventory.objects, add_quota, &q);
    dibs_status s = q.is_lost ? err_set(err, DIBS_FAILURE, "reading quotas: out of memory")
                              : ledger_set_quotas(c->ledger.server.ledger, &call, q.all, q.n, err);
    free(q.all);
    return s;
}
