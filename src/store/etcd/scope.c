/* SPDX-License-Identifier: MIT */
/* Change pools, and with them the scope of ports.
 *
 * A pool may change the scope of a port only while no host has a claim on it. The claims of other hosts
 * are not in the copy, so the change first puts a fence around the ports: a record among the pools, which
 * every commit compares, so that no host claims one of them. Then it reads the blocks of all hosts. The
 * fence ends with the commit or, if this process dies, with its lease. */
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/etcd/txn.h"

#include "base/banned.h"

enum {
    FENCE_TTL_S = 5, /* longer than the commit can take */
    REVOKE_MS = 1000,
};

static bool is_any(const struct portbits *ports)
{
    return portbits_count(ports) > 0;
}

static void find_shared(const struct etcd_store *self, struct portbits *out)
{
    const struct memory_table *t = &self->copy.tables.table[POOLS];

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < t->n; i++) {
        const dibs_pool *pool = t->item[i];

        if (pool->scope == DIBS_SCOPE_CLUSTER)
            portbits_add_ranges(out, &pool->ranges);
    }
}

void etcdstore_scope_undone(struct etcd_store *self)
{
    if (is_any(&self->rescoped))
        find_shared(self, &self->shared);
}

void etcdstore_scope_end(struct etcd_store *self)
{
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + REVOKE_MS };

    if (self->fence_lease)
        (void) etcd_lease_revoke(self->etcd, &call, self->fence_lease, NULL); /* on failure it expires */
    self->fence_lease = self->fence_revision = 0;
    memset(&self->rescoped, 0, sizeof self->rescoped);
}

static dibs_status put_fence(struct etcd_store *self, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    AUTO(bytes_done) struct bytes value = { 0 };
    struct etcdstore_key fence = etcdstore_named_key(self, 'p', STORE_FENCE);
    struct etcdstore_key pools = etcdstore_key(self, SPACE_CLUSTER, 'p');
    struct etcdstore_key end = etcdstore_key_end(&pools);
    struct etcdstore_key nodes = etcdstore_key(self, SPACE_CLUSTER, 'm');
    struct etcdstore_key nodes_end = etcdstore_key_end(&nodes);
    struct etcd_call call = etcdstore_call(self);
    int64_t granted_s = 0;
    dibs_status s = DIBS_OK;

    if (!self->fence_lease)
        s = etcd_lease_grant(self->etcd, &call, FENCE_TTL_S, &self->fence_lease, &granted_s, err);
    if (s != DIBS_OK)
        return s;
    pack_ports(&value, &self->rescoped);
    if (value.is_lost)
        return err_set(err, DIBS_FAILURE, "changing a pool: out of memory");
    const struct etcd_compare same[] = {
        etcdstore_not_newer(&pools, &end, self->pools_revision),
        /* A host enrolled after our last read would be left out. A host that enrols later sees the fence. */
        etcdstore_not_newer(&nodes, &nodes_end, self->nodes_revision),
    };
    struct etcd_op put = etcdstore_put_op(&fence, &value);
    put.lease = self->fence_lease;
    struct etcd_txn txn = { .compares = same, .n_compares = 2, .then = &put, .n_then = 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    call = etcdstore_call(self);
    s = etcd_do(self->etcd, &call, &op, &answer, err);
    if (s == DIBS_OK && !answer.result.succeeded)
        return etcdstore_conflict(self, err);
    if (s == DIBS_OK)
        self->pools_revision = self->fence_revision = answer.revision;
    return s;
}

/* ---- claims on these ports ---- */

struct search {
    const struct etcd_store *self;
    const struct portbits *ports;
    bool skips_own; /* skip claims of this host: the copy has them */
    bool is_found;
    bool is_unreadable; /* found a damaged record that may be such a claim */
    struct claim_record found;
};

static bool look_at_claim(void *ctx, struct claim_record *row)
{
    struct search *s = ctx;

    if (s->is_found || !portbits_has(s->ports, row->claim.port) ||
        (s->skips_own && etcdstore_is_own(s->self, row->node)))
        return true;
    s->is_found = true;
    s->found = *row;
    return true;
}

static bool look_at_damaged(void *ctx, uint16_t port)
{
    struct search *s = ctx;

    s->is_unreadable = s->is_unreadable || port == 0 || portbits_has(s->ports, port);
    return true;
}

/* Search the blocks below `head` in etcd. */
static dibs_status search_blocks(struct etcd_store *self, struct search *s, const struct etcdstore_key *head,
                                 dibs_err *err)
{
    const struct block_reader reader = { .ctx = s, .claim = look_at_claim, .damaged = look_at_damaged };
    struct etcdstore_key first = *head;
    struct etcdstore_key end = *head;
    struct blocks_read read = { .to = &reader };
    uint16_t from = 0;
    uint16_t to = BLOCKS - 1;

    while (from < to && !s->ports->word[from])
        from++;
    while (to > from && !s->ports->word[to])
        to--;
    etcdstore_key_add_hex(&first, from, 4);
    etcdstore_key_add_hex(&end, to + 1u, 4);
    dibs_status status = etcdstore_read_blocks(self, &first, &end, &read, err);
    if (status == DIBS_OK && (s->is_unreadable || !read.is_whole))
        return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                           "a record of ports that would change between host and cluster scope cannot be "
                           "read: %.*s",
                           (int) head->n, head->at);
    return status;
}

static dibs_status refuse(const dibs_claim *claim, const char *node, dibs_err *err)
{
    bool is_named = claim->name[0] != '\0';

    return err_set(err, DIBS_TAKEN,
                   "port %u would change between host and cluster scope, and %s%s%s%s%s%s has a claim on it: "
                   "release that first, or leave the port out of the pool's ranges",
                   claim->port, is_named ? "'" : "", claim->name, is_named ? "' of " : "", claim->principal,
                   node[0] ? " on host " : "", node);
}

static bool is_claimed_here(const struct etcd_store *self, const struct portbits *ports,
                            const dibs_claim **out)
{
    const struct memory_table *t = &self->copy.tables.table[CLAIMS];

    for (size_t i = 0; i < t->n; i++) {
        *out = &((const struct claim_record *) t->item[i])->claim;
        if (portbits_has(ports, (*out)->port))
            return true;
    }
    return false;
}

/* Check that the fenced ports are free. TAKEN: some host has a claim on one of them. */
static dibs_status check_free(struct etcd_store *self, const struct portbits *ports, dibs_err *err)
{
    const dibs_claim *here = NULL;
    struct search search = { .self = self, .ports = ports, .skips_own = true };
    struct etcdstore_key head = etcdstore_key(self, SPACE_CLUSTER, 'b');
    const char *node = "";

    if (is_claimed_here(self, ports, &here))
        return refuse(here, "", err);
    dibs_status s = search_blocks(self, &search, &head, err);
    if (s == DIBS_OK && search.is_found && search.found.node < self->n_nodes)
        node = self->nodes[search.found.node].name;
    search.skips_own = false;
    for (size_t i = 0; i < self->n_nodes && s == DIBS_OK && !search.is_found; i++) {
        if (!self->nodes[i].name[0] || etcdstore_is_own(self, (uint32_t) i))
            continue;
        node = self->nodes[i].name;
        head = etcdstore_host_key(self, node, 'b');
        s = search_blocks(self, &search, &head, err);
    }
    return s == DIBS_OK && search.is_found ? refuse(&search.found.claim, node, err) : s;
}

/* Fence and check the ports that change their scope. The copy already has the new pools. */
static dibs_status rescope(struct etcd_store *self, dibs_err *err)
{
    struct portbits after;
    struct portbits changed = self->shared;

    find_shared(self, &after);
    for (size_t i = 0; i < PORTBITS_WORDS; i++)
        changed.word[i] ^= after.word[i];
    if (!is_any(&changed))
        return DIBS_OK;
    portbits_add_all(&self->rescoped, &changed);
    dibs_status s = put_fence(self, err);
    if (s == DIBS_OK)
        s = check_free(self, &changed, err);
    self->shared = after;
    return s;
}

/* Change a pool. A failed change is undone, because other requests may share the transaction. */
dibs_status etcdstore_change_pool(struct store *store, const dibs_pool *pool, bool is_removed, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);
    size_t n_journal = self->copy.tables.n_journal;
    dibs_status s = is_removed ? store_memory_ops.erase(store, POOLS, pool, err)
                               : store_memory_ops.put(store, POOLS, pool, err);

    if (s == DIBS_OK)
        s = rescope(self, err);
    if (s != DIBS_OK) {
        memory_undo(&self->copy.tables, n_journal);
        etcdstore_scope_undone(self);
    }
    return s;
}

/* Rewrite the blocks of the former scope, to remove their cooling ports. */
void txn_touch_rescoped(struct txn_part *c)
{
    for (size_t i = 0; i < BLOCKS; i++)
        for (size_t space = 0; space < SPACES && c->self->rescoped.word[i]; space++)
            if (c->self->block_revision[space][i] != 0)
                c->is_touched[space][i] = true;
}

void txn_fence(struct txn_part *c)
{
    struct etcdstore_key key = etcdstore_named_key(c->self, 'p', STORE_FENCE);

    if (!c->self->fence_revision)
        return;
    txn_compare(c, etcdstore_same(&key, c->self->fence_revision));
    txn_delete(c, &key, NULL);
}
