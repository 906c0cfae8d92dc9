/* SPDX-License-Identifier: MIT */
/* What a Txn says of holders: that of ours hang on a lease that lives, and what others are to know. */
#include "ledger/etcd_compose.h"

#include "base/banned.h"

static bool is_first(const struct composing *c, size_t change)
{
    const struct memory_change *journal = c->self->near.tables.journal;
    uint64_t id = ((const struct row_claim *) compose_record(&journal[change]))->claim.id;

    for (size_t i = 0; i < change; i++)
        if (journal[i].table == CLAIMS &&
            ((const struct row_claim *) compose_record(&journal[i]))->claim.id == id)
            return false;
    return true;
}

/* Its host finds it in its own records. */
static void add_loss(struct composing *c, const struct row_claim *before)
{
    const char *node = before->node < c->self->n_nodes ? c->self->nodes[before->node].name : "";
    struct store_key key = store_lost_key(c->self, node, before->claim.id);
    struct kept_value *put = node[0] ? compose_keep(c, &key) : NULL;
    struct row_claim row = *before;
    bool is_known = before->lease == 0;

    if (!put)
        return; /* it was removed */
    store_principal_out(c->self, row.node, row.claim.principal);
    struct block_writer w = pack_block(&put->value, 1, 0, NULL);
    pack_claim(&w, &row);
    compose_put(c, put);
    for (size_t i = 0; i < c->n_other; i++)
        is_known = is_known || c->other[i] == before->node;
    if (!is_known && c->n_other < OTHERS_MAX)
        c->other[c->n_other++] = before->node;
}

void compose_holder(struct composing *c, size_t change)
{
    const struct memory_tables *tables = &c->self->near.tables;
    const struct row_claim *before = tables->journal[change].before;
    const struct row_claim *now = memory_get(tables, CLAIMS, compose_record(&tables->journal[change]));
    bool is_ours = now && store_is_own(c->self, now->node);

    c->hangs = c->hangs || (is_ours && now->lease != 0);
    /* What goes back to its host with its port has not ended. */
    if (before && !c->self->hands && !store_is_own(c->self, before->node) && (!now || is_ours) &&
        is_first(c, change))
        add_loss(c, before);
}

static void add_lease_compare(struct composing *c, const char *node, int64_t incarnation)
{
    struct store_key key = store_lease_key(c->self, node);
    size_t n = c->n_compares;

    compose_compare(c, compose_keep(c, &key), incarnation);
    if (c->n_compares > n)
        c->compares[n].target = ETCD_CREATE_REVISION;
}

void compose_lease_compares(struct composing *c)
{
    const struct etcd_rows *self = c->self;
    struct ledger_lease mine = { 0 };

    for (size_t i = 0; i < c->n_other; i++)
        add_lease_compare(c, self->nodes[c->other[i]].name, self->nodes[c->other[i]].incarnation);
    if (!c->hangs)
        return;
    store_lease_state(self, &mine);
    add_lease_compare(c, self->node,
                      mine.is_member ? mine.incarnation : self->nodes[store_number(self)].incarnation);
}

void compose_mourned(struct composing *c)
{
    for (size_t i = 0; i < c->self->n_lost && c->self->is_mourning; i++) {
        struct store_key key = store_lost_key(c->self, c->self->node, c->self->lost[i].claim.id);

        (void) compose_op(c, ETCD_DELETE, compose_keep(c, &key));
    }
}
