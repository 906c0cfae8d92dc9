/* SPDX-License-Identifier: MIT */
/* What other hosts have on ports that change hands. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/etcd_hands.h"

#include "base/banned.h"

enum { HOSTS_AT_ONCE = 16 }; /* asked for their blocks in one request */

struct hand_block *hands_block(struct store_hands *hands, size_t node, uint16_t block)
{
    for (size_t i = 0; i < hands->n_blocks; i++)
        if (hands->blocks[i].node == node && hands->blocks[i].block == block)
            return &hands->blocks[i];
    return NULL;
}

struct hand_block *hands_make_block(struct store_hands *hands, size_t node, uint16_t block)
{
    if (hands->n_blocks == hands->cap) {
        size_t cap = hands->cap ? 2 * hands->cap : 16;
        struct hand_block *grown = reallocarray(hands->blocks, cap, sizeof *grown);

        if (!grown)
            return NULL;
        hands->blocks = grown;
        hands->cap = cap;
    }
    hands->blocks[hands->n_blocks] = (struct hand_block){ .node = node, .block = block };
    return &hands->blocks[hands->n_blocks++];
}

static bool take_claim(void *ctx, struct row_claim *row)
{
    struct hand_block *b = ctx;
    struct row_claim *grown = reallocarray(b->claims, b->n_claims + 1, sizeof *grown);

    if (!grown || row->claim.port / BLOCK_PORTS != b->block)
        return false;
    b->claims = grown;
    b->claims[b->n_claims++] = *row;
    return true;
}

/* What cannot be read cannot be moved. */
static bool take_damaged(void *ctx, uint16_t port)
{
    (void) ctx;
    (void) port;
    return false;
}

static bool take_cooling(void *ctx, const struct ledger_slot *slot)
{
    struct hand_block *b = ctx;
    struct ledger_slot *grown = reallocarray(b->cooling, b->n_cooling + 1, sizeof *grown);

    if (!grown)
        return false;
    b->cooling = grown;
    b->cooling[b->n_cooling++] = *slot;
    return true;
}

static dibs_status take_blocks(struct etcd_rows *self, size_t node, const struct etcd_result *found,
                               dibs_err *err)
{
    size_t head = store_host_key(self, self->nodes[node].name, 'b').n;

    for (size_t i = 0; i < found->n_kvs; i++) {
        const struct etcd_kv *kv = &found->kvs[i];
        uint16_t number = 0;

        if (kv->key.n <= head ||
            !store_block_number((const char *) kv->key.at + head, kv->key.n - head, &number))
            continue; /* none of ours */
        if (hands_block(self->hands, node, number))
            continue; /* read before, and perhaps moved */
        struct hand_block *block = hands_make_block(self->hands, node, number);
        struct block_reader reader = { block, take_claim, take_damaged, take_cooling };
        if (!block)
            return err_set(err, DIBS_FAILURE, "changing a pool: out of memory");
        if (!unpack_block((struct packed){ kv->value.at, kv->value.n }, &reader))
            return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                               "host %s has a record that cannot be read on ports %u to %u, so they cannot "
                               "become everybody's",
                               self->nodes[node].name, number * BLOCK_PORTS,
                               number * BLOCK_PORTS + BLOCK_PORTS - 1);
    }
    return DIBS_OK;
}

/* Some hosts' blocks, and whether a host has come that we do not know. */
struct asking {
    size_t node[HOSTS_AT_ONCE];
    struct store_key key[2 * HOSTS_AT_ONCE + 2];
    struct etcd_op op[HOSTS_AT_ONCE + 1];
    size_t n;
};

static dibs_status ask_hosts(struct etcd_rows *self, struct asking *a, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct store_key *hosts = &a->key[(size_t) 2 * HOSTS_AT_ONCE];
    struct etcd_call call = store_call(self);

    hosts[0] = store_key(self, SPACE_CLUSTER, 'm');
    hosts[1] = store_key_end(&hosts[0]);
    a->op[a->n] = (struct etcd_op){ .kind = ETCD_RANGE,
                                    .key = store_key_bytes(&hosts[0]),
                                    .end = store_key_bytes(&hosts[1]),
                                    .is_keys_only = true };
    struct etcd_txn txn = { .then = a->op, .n_then = a->n + 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    call.may_repeat = true; /* it only reads */
    dibs_status s = etcd_do(self->etcd, &call, &op, &answer, err);
    if (s == DIBS_OK && answer.result.n_results != a->n + 1)
        s = err_trouble(err, DIBS_TROUBLE_NONE, "etcd answers something else than was asked");
    const struct etcd_result *known = s == DIBS_OK ? &answer.result.results[a->n] : NULL;
    for (size_t i = 0; known && s == DIBS_OK && i < known->n_kvs; i++)
        if (known->kvs[i].mod_revision > self->nodes_revision)
            s = store_beaten(self, err);
    for (size_t i = 0; known && i < a->n && s == DIBS_OK; i++)
        s = take_blocks(self, a->node[i], &answer.result.results[i], err);
    if (s == DIBS_OK && !self->hands->revision)
        self->hands->revision = answer.revision;
    a->n = 0;
    return s;
}

dibs_status hands_read(struct etcd_rows *self, const struct portbits *ports, dibs_err *err)
{
    AUTO(free_auto) struct asking *a = calloc(1, sizeof *a);
    uint16_t first = 0;
    uint16_t last = BLOCKS - 1;
    dibs_status s = DIBS_OK;

    if (!a)
        return err_set(err, DIBS_FAILURE, "changing a pool: out of memory");
    while (first < last && !ports->word[first])
        first++;
    while (last > first && !ports->word[last])
        last--;
    for (size_t i = 0; i < self->n_nodes && s == DIBS_OK; i++) {
        if (!self->nodes[i].name[0] || strcmp(self->nodes[i].name, self->node) == 0)
            continue;
        struct store_key *key = &a->key[2 * a->n];
        key[0] = key[1] = store_host_key(self, self->nodes[i].name, 'b');
        store_key_add_hex(&key[0], first, 4);
        store_key_add_hex(&key[1], last + 1u, 4);
        a->op[a->n] = (struct etcd_op){ .kind = ETCD_RANGE,
                                        .key = store_key_bytes(&key[0]),
                                        .end = store_key_bytes(&key[1]) };
        a->node[a->n++] = i;
        if (a->n == HOSTS_AT_ONCE)
            s = ask_hosts(self, a, err);
    }
    return s == DIBS_OK ? ask_hosts(self, a, err) : s;
}
