/* SPDX-License-Identifier: MIT */
/* The hosts of a ledger in etcd, and how one is forgotten. */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

void store_nodes(const struct etcd_rows *self, dibs_node_fn fn, void *ctx)
{
    bool goes_on = true;

    for (size_t i = 0; i < self->n_nodes && goes_on; i++) {
        dibs_node node = { .is_here = store_is_own(self, (uint32_t) i),
                           .is_alive = self->nodes[i].incarnation != 0 };

        memcpy(node.name, self->nodes[i].name, sizeof node.name);
        goes_on = !node.name[0] || fn(ctx, &node);
    }
}

struct counting {
    size_t n;
    bool is_bad;
};

static bool count_claim(void *ctx, struct row_claim *row)
{
    (void) row;
    ((struct counting *) ctx)->n++;
    return true;
}

static bool count_damaged(void *ctx, uint16_t port)
{
    (void) port;
    ((struct counting *) ctx)->n++;
    return true;
}

static bool pass_over(void *ctx, const struct ledger_slot *slot)
{
    (void) ctx;
    (void) slot;
    return true;
}

static bool count_blocks(void *ctx, const struct etcd_kv *kvs, size_t n)
{
    const struct block_reader reader = { ctx, count_claim, count_damaged, pass_over };

    for (size_t i = 0; i < n; i++)
        (void) unpack_block((struct packed){ kvs[i].value.at, kvs[i].value.n }, &reader);
    return true;
}

dibs_status store_count_node(struct etcd_rows *self, const char *name, size_t *n, int64_t *since,
                             dibs_err *err)
{
    struct store_key first = store_host_key(self, name, 'b');
    struct store_key end = store_key_end(&first);
    struct etcd_call call = store_call(self);
    struct counting counting = { 0 };
    struct etcd_pages pages = { .key = store_key_bytes(&first),
                                .end = store_key_bytes(&end),
                                .page = 64,
                                .take = count_blocks,
                                .ctx = &counting };
    dibs_status s = etcd_read_pages(self->etcd, &call, &pages, since, err);

    *n = counting.n;
    self->is_loaded = false;
    return s;
}

/* One Txn: the host has committed nothing since, and its lease is as we know it. A
 * number is never given again, for claims carry it: the next one is told by a host that cannot be. */
dibs_status store_forget_node(struct etcd_rows *self, const char *name, int64_t since, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    AUTO(bytes_done) struct bytes next = { 0 };
    struct etcd_call call = store_call(self);
    size_t number = 0;

    if (!store_find_node(self, name, strlen(name), &number))
        return err_set(err, DIBS_NOT_FOUND, "no host is called '%.60s' in the cluster", name);
    struct store_key tail = store_host_key(self, name, 't');
    struct store_key own = store_host_key(self, name, '\0');
    struct store_key own_end = store_key_end(&own);
    struct store_key lease = store_lease_key(self, name);
    struct store_key member = store_key(self, SPACE_CLUSTER, 'm');
    struct store_key mark = member;
    store_key_add(&member, name, strlen(name));
    store_key_add(&mark, STORE_NEXT_NODE, strlen(STORE_NEXT_NODE));
    pack_number(&next, self->n_nodes);
    if (next.is_lost)
        return err_set(err, DIBS_FAILURE, "removing a host: out of memory");
    struct etcd_compare compares[] = {
        { .target = ETCD_CREATE_REVISION,
          .key = store_key_bytes(&lease),
          .number = self->nodes[number].incarnation },
        { .target = ETCD_MOD_REVISION,
          .relation = ETCD_LESS,
          .key = store_key_bytes(&tail),
          .number = since + 1 },
    };
    struct etcd_op ops[] = {
        { .kind = ETCD_DELETE, .key = store_key_bytes(&own), .end = store_key_bytes(&own_end) },
        { .kind = ETCD_DELETE, .key = store_key_bytes(&lease) },
        { .kind = ETCD_DELETE, .key = store_key_bytes(&member) },
        { .kind = ETCD_PUT, .key = store_key_bytes(&mark), .value = { next.at, next.n } },
    };
    struct etcd_txn txn = { .compares = compares, .n_compares = 2, .then = ops, .n_then = 4 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    dibs_status s = etcd_do(self->etcd, &call, &op, &answer, err);
    self->is_loaded = false;
    if (s == DIBS_OK && !answer.result.succeeded)
        return err_set(err, DIBS_TAKEN, "host '%.60s' is at work: something of it has changed just now",
                       name);
    return s;
}
