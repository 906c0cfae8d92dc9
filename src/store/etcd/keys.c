/* SPDX-License-Identifier: MIT */
/* Keys in etcd, and the numbers of nodes. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/etcd/etcd_store.h"

#include "base/banned.h"

void etcdstore_key_add(struct etcdstore_key *key, const char *bytes, size_t n)
{
    assert(key->n + n <= sizeof key->at); /* each part has its own limit */
    memcpy(key->at + key->n, bytes, n);
    key->n += n;
}

void etcdstore_key_add_hex(struct etcdstore_key *key, uint64_t number, int digits)
{
    char text[17];

    (void) snprintf(text, sizeof text, "%0*llx", digits, (unsigned long long) number);
    etcdstore_key_add(key, text, strlen(text));
}

/* Append a node's name; HOST/PART as HOST@PART, which is not in the range of HOST's keys. */
static void add_node(struct etcdstore_key *key, const char *node)
{
    size_t n = strcspn(node, "/");

    etcdstore_key_add(key, node, n);
    if (!node[n])
        return;
    etcdstore_key_add(key, "@", 1);
    etcdstore_key_add(key, node + n + 1, strlen(node) - n - 1);
}

struct etcdstore_key etcdstore_host_key(const struct etcd_store *self, const char *node, char kind)
{
    struct etcdstore_key key = { .n = 0 };

    etcdstore_key_add(&key, self->config.prefix, strlen(self->config.prefix));
    if (node) {
        etcdstore_key_add(&key, "/h/", 3);
        add_node(&key, node);
        etcdstore_key_add(&key, "/", 1);
    } else {
        etcdstore_key_add(&key, "/c/", 3);
    }
    if (kind) {
        etcdstore_key_add(&key, &kind, 1);
        etcdstore_key_add(&key, "/", 1);
    }
    return key;
}

struct etcdstore_key etcdstore_key(const struct etcd_store *self, enum etcdstore_space space, char kind)
{
    return etcdstore_host_key(self, space == SPACE_HOST ? self->node : NULL, kind);
}

struct etcdstore_key etcdstore_named_key(const struct etcd_store *self, char kind, const char *name)
{
    struct etcdstore_key key = etcdstore_host_key(self, NULL, kind);

    etcdstore_key_add(&key, name, strlen(name));
    return key;
}

struct etcd_bytes etcdstore_key_bytes(const struct etcdstore_key *key)
{
    return (struct etcd_bytes){ key->at, key->n };
}

struct etcd_compare etcdstore_same(const struct etcdstore_key *key, int64_t revision)
{
    return (struct etcd_compare){ .target = ETCD_MOD_REVISION,
                                  .key = etcdstore_key_bytes(key),
                                  .number = revision };
}

struct etcd_compare etcdstore_not_newer(const struct etcdstore_key *first, const struct etcdstore_key *end,
                                        int64_t revision)
{
    return (struct etcd_compare){ .target = ETCD_MOD_REVISION,
                                  .relation = ETCD_LESS,
                                  .key = etcdstore_key_bytes(first),
                                  .end = etcdstore_key_bytes(end),
                                  .number = revision + 1 };
}

struct etcd_op etcdstore_read_op(const struct etcdstore_key *key)
{
    return (struct etcd_op){ .kind = ETCD_RANGE, .key = etcdstore_key_bytes(key) };
}

struct etcd_op etcdstore_put_op(const struct etcdstore_key *key, const struct bytes *value)
{
    return (struct etcd_op){ .kind = ETCD_PUT,
                             .key = etcdstore_key_bytes(key),
                             .value = { value->at, value->n } };
}

struct etcdstore_key etcdstore_key_end(const struct etcdstore_key *key)
{
    struct etcdstore_key end = *key;

    end.n = etcd_prefix_end(etcdstore_key_bytes(key), end.at).n;
    return end;
}

enum etcdstore_space etcdstore_space(const struct etcd_store *self, uint16_t port)
{
    return portbits_has(&self->shared, port) ? SPACE_CLUSTER : SPACE_HOST;
}

uint32_t etcdstore_number(const struct etcd_store *self)
{
    return (uint32_t) (self->copy.base.id_base >> STORE_ID_SHIFT);
}

bool etcdstore_is_own(const struct etcd_store *self, uint32_t node)
{
    return self->state.has_number && node == etcdstore_number(self);
}

bool etcdstore_find_node(const struct etcd_store *self, const char *name, size_t n, size_t *out)
{
    for (size_t i = 0; i < self->n_nodes && n > 0; i++)
        if (strlen(self->nodes[i].name) == n && memcmp(self->nodes[i].name, name, n) == 0) {
            *out = i;
            return true;
        }
    return false;
}

void etcdstore_set_node(const struct etcd_store *self, struct claim_record *row)
{
    const char *name = row->node < self->n_nodes ? self->nodes[row->node].name : "";

    row->claim.node[0] = '\0';
    /* A removed host has no holders. */
    if (!etcdstore_is_own(self, row->node) && (name[0] || row->claim.holder != DIBS_HELD_BY_NOBODY))
        memcpy(row->claim.node, name[0] ? name : "?", name[0] ? strlen(name) + 1 : sizeof "?");
}
