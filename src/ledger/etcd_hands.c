/* SPDX-License-Identifier: MIT */
#include "ledger/etcd_hands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ledger/etcd_compose.h"

#include "base/banned.h"

enum {
    FENCE_TTL_S = 5, /* longer than the Txn can take; after that ports are free for their hosts again */
    HOSTS_MAX = 32,  /* that one change moves claims of: each is a comparison of the Txn */
};

/* ---- whose ports are whose ---- */

static void count_shared(const struct etcd_rows *self, struct portbits *out)
{
    const struct memory_table *t = &self->near.tables.table[POOLS];

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < t->n; i++) {
        const dibs_pool *pool = t->item[i];

        if (pool->scope == DIBS_SCOPE_CLUSTER)
            portbits_add_ranges(out, &pool->ranges);
    }
}

void store_hands_undone(struct etcd_rows *self)
{
    if (self->hands)
        count_shared(self, &self->shared);
}

static void free_hands(struct store_hands *hands)
{
    for (size_t i = 0; i < hands->n_blocks; i++) {
        free(hands->blocks[i].claims);
        free(hands->blocks[i].cooling);
    }
    free(hands->blocks);
    free(hands);
}

/* The fence goes at once if that can be done, else by itself. */
void store_hands_end(struct etcd_rows *self)
{
    enum { REVOKE_MS = 1000 };
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + REVOKE_MS };

    if (!self->hands)
        return;
    if (self->hands->lease)
        (void) etcd_lease_revoke(self->etcd, &call, self->hands->lease, NULL);
    free_hands(self->hands);
    self->hands = NULL;
}

/* ---- the fence ---- */

/* Fenced ports are nobody's to claim once this is done. */
static dibs_status put_fence(struct etcd_rows *self, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct store_hands *hands = self->hands;
    struct store_key fence = store_fence_key(self);
    struct store_key pools = store_key(self, SPACE_CLUSTER, 'p');
    struct store_key end = store_key_end(&pools);
    struct etcd_call call = store_call(self);
    struct bytes value = { 0 };
    int64_t granted_s = 0;
    dibs_status s = DIBS_OK;

    if (!hands->lease)
        s = etcd_lease_grant(self->etcd, &call, FENCE_TTL_S, &hands->lease, &granted_s, err);
    if (s != DIBS_OK)
        return s;
    pack_ports(&value, &hands->fenced);
    struct etcd_compare same = { .target = ETCD_MOD_REVISION,
                                 .relation = ETCD_LESS,
                                 .key = store_key_bytes(&pools),
                                 .end = store_key_bytes(&end),
                                 .number = self->pools_revision + 1 };
    struct etcd_op put = { .kind = ETCD_PUT,
                           .key = store_key_bytes(&fence),
                           .value = { value.at, value.n },
                           .lease = hands->lease };
    struct etcd_txn txn = { .compares = &same, .n_compares = 1, .then = &put, .n_then = 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    call = store_call(self);
    s = value.is_lost ? err_set(err, DIBS_FAILURE, "changing a pool: out of memory")
                      : etcd_do(self->etcd, &call, &op, &answer, err);
    bytes_done(&value);
    if (s == DIBS_OK && !answer.result.succeeded)
        return store_beaten(self, err);
    if (s == DIBS_OK)
        self->pools_revision = hands->fence_revision = answer.revision;
    return s;
}

/* ---- claims that move ---- */

static dibs_status refuse(const dibs_claim *a, const dibs_claim *b, const char *what, dibs_err *err)
{
    return err_set(
        err, DIBS_TAKEN,
        "port %u cannot become everybody's: %s'%s' of %s and '%s' of %s are both there; release one "
        "of them first",
        a->port, what, b->name, b->principal, a->name, a->principal);
}

static bool are_namesakes(const dibs_claim *a, const dibs_claim *b)
{
    return a->name[0] && strcmp(a->name, b->name) == 0 && strcmp(a->principal, b->principal) == 0;
}

static bool do_conflict(const dibs_claim *a, const dibs_claim *b)
{
    for (size_t i = 0; i < a->n_bindings; i++)
        for (size_t k = 0; k < b->n_bindings; k++)
            if (a->bindings[i].proto == b->bindings[k].proto &&
                dibs_address_conflict(&a->bindings[i].address, &b->bindings[k].address))
                return a->port == b->port && a->is_exclusive && b->is_exclusive;
    return false;
}

/* INV-1, and one claim for one name: what held on each host must hold for all of them. */
static dibs_status check_adopted(const struct etcd_rows *self, const dibs_claim *claim, dibs_err *err)
{
    const struct memory_table *t = &self->near.tables.table[CLAIMS];

    for (size_t i = 0; i < t->n; i++) {
        const struct row_claim *other = t->item[i];

        if (other->claim.id == claim->id)
            continue;
        if (do_conflict(claim, &other->claim))
            return refuse(claim, &other->claim, "", err);
        if (are_namesakes(claim, &other->claim) && store_space(self, other->claim.port) == SPACE_CLUSTER)
            return refuse(claim, &other->claim, "a name is one claim's, and ", err);
    }
    return DIBS_OK;
}

static dibs_status adopt(struct etcd_rows *self, const struct row_claim *row, dibs_err *err)
{
    struct memory_tables *tables = &self->near.tables;
    struct row_claim ours = *row;
    const dibs_claim *c = &ours.claim;

    store_principal_in(self, ours.node, ours.claim.principal);
    dibs_status s = check_adopted(self, c, err);
    if (s == DIBS_OK)
        s = memory_put(tables, CLAIMS, &ours, err);
    for (size_t i = 0; i < c->n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = { .proto = c->bindings[i].proto,
                                    .port = c->port,
                                    .address = c->bindings[i].address,
                                    .claim_id = c->id,
                                    .is_exclusive = c->is_exclusive };

        s = memory_put(tables, SLOTS, &slot, err);
    }
    return s;
}

static dibs_status adopt_all(struct etcd_rows *self, const struct portbits *grown, dibs_err *err)
{
    const struct store_hands *hands = self->hands;
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < hands->n_blocks; i++)
        for (size_t k = 0; k < hands->blocks[i].n_claims && s == DIBS_OK; k++)
            if (portbits_has(grown, hands->blocks[i].claims[k].claim.port))
                s = adopt(self, &hands->blocks[i].claims[k], err);
    return s;
}

/* Each claim on a port that is everybody's no longer has a host to go to. */
static dibs_status find_homes(struct etcd_rows *self, const struct portbits *lost, dibs_err *err)
{
    const struct memory_table *t = &self->near.tables.table[CLAIMS];

    for (size_t i = 0; i < t->n; i++) {
        const struct row_claim *row = t->item[i];
        uint16_t block = row->claim.port / BLOCK_PORTS;
        size_t node = row->node;

        if (!portbits_has(lost, row->claim.port) || row->node == store_number(self))
            continue;
        if (node >= self->n_nodes || !self->nodes[node].name[0])
            return err_set(
                err, DIBS_TAKEN,
                "port %u is claimed by '%s' of %s, a host that is no longer there: release it first",
                row->claim.port, row->claim.name, row->claim.principal);
        if (!hands_block(self->hands, node, block) && !hands_make_block(self->hands, node, block))
            return err_set(err, DIBS_FAILURE, "changing a pool: out of memory");
    }
    return DIBS_OK;
}

/* What was not everybody's hung on nothing, and what is not any more shall not: whichever lease its host had
 * when it was, that may have ended since, and would be its end should the port become everybody's again. The
 * host's daemon lets it hang on the one that it has then (store_hang()). */
static dibs_status unhang(struct etcd_rows *self, const struct portbits *ports, dibs_err *err)
{
    const struct memory_table *t = &self->near.tables.table[CLAIMS];
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < t->n && s == DIBS_OK; i++) {
        struct row_claim row = *(const struct row_claim *) t->item[i];

        if (row.lease == 0 || !portbits_has(ports, row.claim.port))
            continue;
        row.lease = 0;
        s = memory_put(&self->near.tables, CLAIMS, &row, err);
    }
    return s;
}

/* ---- a pool changes ---- */

static bool is_any(const struct portbits *ports)
{
    return portbits_count(ports) > 0;
}

/* The copy has the pools as they will be. */
static dibs_status hand_over(struct etcd_rows *self, dibs_err *err)
{
    struct portbits before = self->shared;
    struct portbits grown;
    struct portbits lost = before;
    struct portbits all;
    dibs_status s = DIBS_OK;

    count_shared(self, &grown);
    portbits_subtract(&lost, &grown);
    struct portbits after = grown;
    portbits_subtract(&grown, &before);
    if (!is_any(&grown) && !is_any(&lost))
        return DIBS_OK;
    if (!self->hands)
        self->hands = calloc(1, sizeof *self->hands);
    if (!self->hands)
        return err_set(err, DIBS_FAILURE, "changing a pool: out of memory");
    all = grown;
    portbits_add_all(&all, &lost);
    portbits_add_all(&self->hands->changed, &all);
    portbits_add_all(&self->hands->fenced, &grown);
    if (is_any(&grown))
        s = put_fence(self, err);
    if (s == DIBS_OK)
        s = hands_read(self, &all, err);
    if (s == DIBS_OK)
        s = find_homes(self, &lost, err);
    self->shared = after;
    if (s == DIBS_OK)
        s = adopt_all(self, &grown, err);
    return s == DIBS_OK ? unhang(self, &all, err) : s;
}

/* What fails leaves nothing behind: others may share the transaction. */
static dibs_status change(struct etcd_rows *self, dibs_status s, size_t n_journal, dibs_err *err)
{
    if (s == DIBS_OK)
        s = hand_over(self, err);
    if (s != DIBS_OK) {
        memory_undo(&self->near.tables, n_journal);
        store_hands_undone(self);
    }
    return s;
}

dibs_status store_pool_put(struct rows *rows, const dibs_pool *pool, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);
    size_t n_journal = self->near.tables.n_journal;

    return change(self, memory_rows_pool_put(rows, pool, err), n_journal, err);
}

dibs_status store_pool_delete(struct rows *rows, const char *name, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);
    size_t n_journal = self->near.tables.n_journal;

    return change(self, memory_rows_pool_delete(rows, name, err), n_journal, err);
}

/* ---- their part of the Txn ---- */

static bool is_leaving(const struct etcd_rows *self, const struct row_claim *row)
{
    return portbits_has(&self->hands->changed, row->claim.port) &&
           store_space(self, row->claim.port) == SPACE_CLUSTER;
}

static void pack_stays(struct composing *c, const struct hand_block *block, const struct content *come,
                       struct bytes *out)
{
    uint32_t n = 0;
    uint32_t n_cooling = 0;

    for (size_t i = 0; i < block->n_claims; i++)
        n += !is_leaving(c->self, &block->claims[i]);
    for (size_t i = 0; i < block->n_cooling; i++)
        n_cooling += store_space(c->self, block->cooling[i].port) == SPACE_HOST;
    struct block_writer w = pack_block(out, n + (uint32_t) come->n_claims, n_cooling, NULL);
    for (size_t i = 0; i < block->n_claims; i++)
        if (!is_leaving(c->self, &block->claims[i]))
            pack_claim(&w, &block->claims[i]);
    for (size_t i = 0; i < come->n_claims; i++) {
        struct row_claim row = *come->claims[i];

        store_principal_out(c->self, row.node, row.claim.principal);
        pack_claim(&w, &row);
    }
    for (size_t i = 0; i < block->n_cooling; i++)
        if (store_space(c->self, block->cooling[i].port) == SPACE_HOST)
            pack_cooling(&w, &block->cooling[i]);
}

static dibs_status add_other_block(struct composing *c, const struct hand_block *block, bool *is_changed,
                                   dibs_err *err)
{
    const struct store_node *node = &c->self->nodes[block->node];
    struct block_of of = { SPACE_HOST, (uint32_t) block->node, block->block };
    struct content come;
    dibs_status s = compose_collect(c->self, of, &come, err);

    *is_changed = s == DIBS_OK && come.n_claims > 0;
    for (size_t i = 0; i < block->n_claims && s == DIBS_OK; i++)
        *is_changed = *is_changed || is_leaving(c->self, &block->claims[i]);
    if (!*is_changed)
        return s;
    struct store_key key = store_host_key(c->self, node->name, 'b');
    store_key_add_hex(&key, block->block, 4);
    struct kept_value *put = compose_keep(c, &key);
    if (put)
        pack_stays(c, block, &come, &put->value);
    compose_put(c, put);
    return DIBS_OK;
}

dibs_status compose_hand_over(struct composing *c, dibs_err *err)
{
    const struct store_hands *hands = c->self->hands;
    AUTO(free_auto) bool *is_moved = calloc(c->self->n_nodes + 1, sizeof *is_moved);
    size_t n_hosts = 0;
    dibs_status s = DIBS_OK;

    if (!is_moved)
        return err_set(err, DIBS_FAILURE, "changing a pool: out of memory");
    for (size_t i = 0; i < hands->n_blocks && s == DIBS_OK; i++) {
        bool is_changed = false;

        s = add_other_block(c, &hands->blocks[i], &is_changed, err);
        if (!is_changed || is_moved[hands->blocks[i].node])
            continue;
        is_moved[hands->blocks[i].node] = true;
        struct store_key key = store_host_key(c->self, c->self->nodes[hands->blocks[i].node].name, 'b');
        compose_compare_range(c, &key, hands->revision);
        n_hosts++;
    }
    if (s == DIBS_OK && n_hosts > HOSTS_MAX)
        return err_trouble(err, DIBS_TROUBLE_FULL,
                           "%zu hosts have claims on these ports, more than the %d whose claims can move at "
                           "once: change fewer ports at a time",
                           n_hosts, HOSTS_MAX);
    if (s != DIBS_OK || !hands->fence_revision)
        return s;
    struct store_key key = store_fence_key(c->self);
    const struct kept_value *fence = compose_keep(c, &key);
    compose_compare(c, fence, hands->fence_revision);
    (void) compose_op(c, ETCD_DELETE, fence);
    return DIBS_OK;
}
