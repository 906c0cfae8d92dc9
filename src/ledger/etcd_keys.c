/* SPDX-License-Identifier: MIT */
/* What the keys of a ledger in etcd are called, and who is who there. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

void store_key_add(struct store_key *key, const char *bytes, size_t n)
{
    assert(key->n + n <= sizeof key->at); /* every part has its own limit */
    memcpy(key->at + key->n, bytes, n);
    key->n += n;
}

void store_key_add_hex(struct store_key *key, uint64_t number, int digits)
{
    char text[17];

    (void) snprintf(text, sizeof text, "%0*llx", digits, (unsigned long long) number);
    store_key_add(key, text, strlen(text));
}

/* `node` NULL: what is everybody's. */
static struct store_key key_of(const struct etcd_rows *self, const char *node, char kind)
{
    struct store_key key = { .n = 0 };

    store_key_add(&key, self->config.prefix, strlen(self->config.prefix));
    if (node) {
        store_key_add(&key, "/h/", 3);
        store_key_add(&key, node, strlen(node));
        store_key_add(&key, "/", 1);
    } else {
        store_key_add(&key, "/c/", 3);
    }
    if (kind) {
        store_key_add(&key, &kind, 1);
        store_key_add(&key, "/", 1);
    }
    return key;
}

struct store_key store_key(const struct etcd_rows *self, enum store_space space, char kind)
{
    return key_of(self, space == SPACE_HOST ? self->node : NULL, kind);
}

struct store_key store_host_key(const struct etcd_rows *self, const char *node, char kind)
{
    return key_of(self, node, kind);
}

/* Among the pools, whose changes every commit compares; and no pool can have that name. */
/* No pool is called so. */
struct store_key store_fence_key(const struct etcd_rows *self)
{
    struct store_key key = key_of(self, NULL, 'p');

    store_key_add(&key, "~", 1);
    return key;
}

struct store_key store_removal_key(const struct etcd_rows *self)
{
    struct store_key key = key_of(self, NULL, 'p');

    store_key_add(&key, "!", 1);
    return key;
}

struct etcd_bytes store_key_bytes(const struct store_key *key)
{
    return (struct etcd_bytes){ key->at, key->n };
}

struct store_key store_key_end(const struct store_key *key)
{
    struct store_key end = *key;

    end.n = etcd_prefix_end(store_key_bytes(key), end.at).n;
    return end;
}

enum store_space store_space(const struct etcd_rows *self, uint16_t port)
{
    return portbits_has(&self->shared, port) ? SPACE_CLUSTER : SPACE_HOST;
}

uint32_t store_number(const struct etcd_rows *self)
{
    return (uint32_t) (self->near.base.id_base >> STORE_ID_SHIFT);
}

bool store_is_users_name(const struct name_record *name)
{
    return strncmp(name->principal, "uid:", 4) == 0 && !strchr(name->principal, '@');
}

void store_name_out(const struct etcd_rows *self, enum store_space space, const struct name_record *name,
                    struct name_record *out)
{
    *out = *name;
    if (space == SPACE_CLUSTER && store_is_users_name(name))
        (void) snprintf(out->principal, sizeof out->principal, "%.14s@%s", name->principal, self->node);
}

void store_name_in(const struct etcd_rows *self, struct name_record *name)
{
    char *at = strchr(name->principal, '@');

    if (at && strcmp(at + 1, self->node) == 0)
        *at = '\0';
}

/* A NUL ends the principal: a name has none. */
struct store_key store_name_key(const struct etcd_rows *self, enum store_space space,
                                const struct name_record *name)
{
    struct store_key key = store_key(self, space, 'n');
    struct name_record out;

    store_name_out(self, space, name, &out);
    store_key_add(&key, out.principal, strlen(out.principal) + 1);
    store_key_add(&key, out.name, strlen(out.name));
    return key;
}

uint64_t store_answer_bucket(uint64_t seq)
{
    return seq / STORE_BUCKET_EVENTS;
}

struct store_key store_answer_key(const struct etcd_rows *self, const struct row_answer *answer)
{
    struct store_key key = store_key(self, SPACE_HOST, 'k');

    store_key_add_hex(&key, store_answer_bucket(answer->seq), STORE_BUCKET_DIGITS);
    store_key_add(&key, "/", 1);
    store_key_add(&key, answer->principal, strlen(answer->principal) + 1);
    store_key_add(&key, answer->key, strlen(answer->key) + 1);
    store_key_add_hex(&key, answer->part, 8);
    return key;
}

dibs_status ledger_check_node(const char *name, dibs_err *err)
{
    char shown[96];
    bool is_plain = true;

    for (const char *p = name; *p; p++)
        is_plain = is_plain && *p > ' ' && *p <= '~' && *p != '/' && *p != '@';
    if (is_plain && name[0] && strlen(name) <= DIBS_NODE_MAX)
        return DIBS_OK;
    return err_set(
        err, DIBS_INVALID,
        "'%s' cannot be a host's name in a cluster: it has 1 to %d printable ASCII characters, without '/', "
        "'@' and spaces; set 'node'",
        text_safe(name, shown, sizeof shown), DIBS_NODE_MAX);
}

static const char *node_name(const struct etcd_rows *self, uint32_t number)
{
    return number < self->n_nodes && self->nodes[number].name[0] ? self->nodes[number].name
                                                                 : "?"; /* it was removed */
}

void store_principal_in(const struct etcd_rows *self, uint32_t node, char principal[DIBS_PRINCIPAL_MAX + 1])
{
    size_t n = strlen(principal);

    if (strncmp(principal, "uid:", 4) == 0 && !store_is_own(self, node))
        (void) snprintf(principal + n, DIBS_PRINCIPAL_MAX + 1 - n, "@%s", node_name(self, node));
}

void store_principal_out(const struct etcd_rows *self, uint32_t node, char principal[DIBS_PRINCIPAL_MAX + 1])
{
    char *at = strrchr(principal, '@'); /* a user of a container has one before */

    if (strncmp(principal, "uid:", 4) == 0 && at && !store_is_own(self, node))
        *at = '\0';
}
