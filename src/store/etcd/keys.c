/* SPDX-License-Identifier: MIT */
/* The names of keys in etcd, and of principals in a cluster. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "store/etcd/etcd_store.h"

#include "base/banned.h"

void etcdstore_key_add(struct etcdstore_key *key, const char *bytes, size_t n)
{
    assert(key->n + n <= sizeof key->at); /* every part has its own limit */
    memcpy(key->at + key->n, bytes, n);
    key->n += n;
}

void etcdstore_key_add_hex(struct etcdstore_key *key, uint64_t number, int digits)
{
    char text[17];

    (void) snprintf(text, sizeof text, "%0*llx", digits, (unsigned long long) number);
    etcdstore_key_add(key, text, strlen(text));
}

/* The keys of HOST/PART are not among those of HOST: no name has a '@'. */
static void add_node(struct etcdstore_key *key, const char *node)
{
    size_t n = strcspn(node, "/");

    etcdstore_key_add(key, node, n);
    if (!node[n])
        return;
    etcdstore_key_add(key, "@", 1);
    etcdstore_key_add(key, node + n + 1, strlen(node) - n - 1);
}

/* `node` NULL: the key of a cluster-scope record. */
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

struct etcd_op etcdstore_look(const struct etcdstore_key *key)
{
    return (struct etcd_op){ .kind = ETCD_RANGE, .key = etcdstore_key_bytes(key) };
}

struct etcd_op etcdstore_put(const struct etcdstore_key *key, const struct bytes *value)
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
    return (uint32_t) (self->near.base.id_base >> STORE_ID_SHIFT);
}

bool etcdstore_is_users_name(const struct name_record *name)
{
    return strncmp(name->principal, "uid:", 4) == 0 && !strchr(name->principal, '@');
}

void etcdstore_name_out(const struct etcd_store *self, enum etcdstore_space space,
                        const struct name_record *name, struct name_record *out)
{
    *out = *name;
    if (space == SPACE_CLUSTER && etcdstore_is_users_name(name))
        (void) snprintf(out->principal, sizeof out->principal, "%.14s@%s", name->principal, self->node);
}

void etcdstore_name_in(const struct etcd_store *self, struct name_record *name)
{
    char *at = strchr(name->principal, '@');

    if (at && strcmp(at + 1, self->node) == 0)
        *at = '\0';
}

/* A NUL ends the principal: a name has none. */
struct etcdstore_key etcdstore_name_key(const struct etcd_store *self, enum etcdstore_space space,
                                        const struct name_record *name)
{
    struct etcdstore_key key = etcdstore_key(self, space, 'n');
    struct name_record out;

    etcdstore_name_out(self, space, name, &out);
    etcdstore_key_add(&key, out.principal, strlen(out.principal) + 1);
    etcdstore_key_add(&key, out.name, strlen(out.name));
    return key;
}

uint64_t etcdstore_answer_bucket(uint64_t seq)
{
    return seq / STORE_BUCKET_EVENTS;
}

struct etcdstore_key etcdstore_answer_key(const struct etcd_store *self, const struct answer_record *answer)
{
    struct etcdstore_key key = etcdstore_key(self, SPACE_HOST, 'k');

    etcdstore_key_add_hex(&key, etcdstore_answer_bucket(answer->seq), STORE_BUCKET_DIGITS);
    etcdstore_key_add(&key, "/", 1);
    etcdstore_key_add(&key, answer->principal, strlen(answer->principal) + 1);
    etcdstore_key_add(&key, answer->key, strlen(answer->key) + 1);
    etcdstore_key_add_hex(&key, answer->part, 8);
    return key;
}

static const char *node_name(const struct etcd_store *self, uint32_t number)
{
    return number < self->n_nodes && self->nodes[number].name[0] ? self->nodes[number].name
                                                                 : "?"; /* it was removed */
}

void etcdstore_principal_in(const struct etcd_store *self, uint32_t node,
                            char principal[DIBS_PRINCIPAL_MAX + 1])
{
    size_t n = strlen(principal);

    if (strncmp(principal, "uid:", 4) == 0 && !etcdstore_is_own(self, node))
        (void) snprintf(principal + n, DIBS_PRINCIPAL_MAX + 1 - n, "@%s", node_name(self, node));
}

void etcdstore_principal_out(const struct etcd_store *self, uint32_t node,
                             char principal[DIBS_PRINCIPAL_MAX + 1])
{
    char *at = strrchr(principal, '@'); /* a user of a container has one before */

    if (strncmp(principal, "uid:", 4) == 0 && at && !etcdstore_is_own(self, node))
        *at = '\0';
}

/* ---- owners: who holds what, seen from here ---- */

/* Claims that one commit attaches to the lease: each may be in a block of its own, of some kilobytes.
 */
enum { ATTACH_MAX = 64 };

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

struct etcdstore_key etcdstore_lost_key(const struct etcd_store *self, const char *node, uint64_t id)
{
    struct etcdstore_key key = etcdstore_host_key(self, node, 'x');

    etcdstore_key_add_hex(&key, id, 16);
    return key;
}

static int64_t incarnation_of(const struct etcd_store *self, uint32_t node)
{
    return node < self->n_nodes ? self->nodes[node].incarnation : 0;
}

void etcdstore_set_node(const struct etcd_store *self, struct claim_record *row)
{
    const char *name = row->node < self->n_nodes ? self->nodes[row->node].name : "";

    row->claim.node[0] = '\0';
    /* A host that was removed has no holders any more. */
    if (!etcdstore_is_own(self, row->node) && (name[0] || row->claim.holder != DIBS_HELD_BY_NOBODY))
        memcpy(row->claim.node, name[0] ? name : "?", name[0] ? strlen(name) + 1 : sizeof "?");
}

dibs_life etcdstore_node_life(const struct etcd_store *self, const struct claim_record *row)
{
    bool is_own = etcdstore_is_own(self, row->node);
    struct ledger_lease mine;

    if (row->lease == 0 || etcdstore_space(self, row->claim.port) == SPACE_HOST)
        return is_own ? DIBS_ALIVE : DIBS_UNKNOWN;
    if (!is_own || !self->lease)
        return incarnation_of(self, row->node) == row->lease ? DIBS_ALIVE : DIBS_DEAD;
    etcdstore_lease_state(self, &mine);
    if (mine.incarnation != row->lease)
        return DIBS_DEAD;
    return mine.margin_ms > 0 ? DIBS_ALIVE : DIBS_UNKNOWN;
}

/* ---- ports that others have released ---- */

void etcdstore_cooling_out(struct etcd_store *self, const struct ledger_slot *slot)
{
    if (slot->claim_id != 0 || etcdstore_is_own(self, slot->node))
        return;
    /* Without memory it cools a little longer. */
    if (grow((void **) &self->seen, self->n_seen, &self->max_seen, sizeof *self->seen))
        self->seen[self->n_seen++] = *slot;
}

void etcdstore_cooling_in(const struct etcd_store *self, struct ledger_slot *slot)
{
    if (etcdstore_is_own(self, slot->node))
        return;
    const struct ledger_slot *seen =
        self->n_seen ? bsearch(slot, self->seen, self->n_seen, sizeof *slot, memory_kinds[SLOTS].compare)
                     : NULL;

    slot->released_ms = seen && seen->node == slot->node && seen->there_ms == slot->there_ms
                            ? seen->released_ms
                            : clock_now(0).boot_ms;
}

/* ---- our own lease ---- */

void etcdstore_lease_state(const struct etcd_store *self, struct ledger_lease *out)
{
    *out = (struct ledger_lease){ .is_cluster = true,
                                  .is_member = self->lease != NULL,
                                  .n_lost = self->n_lost,
                                  .n_gone = self->n_gone,
                                  .is_unattached = self->is_unattached };
    if (self->lease)
        etcdstore_lease_look(self->lease, out);
}

void etcdstore_compare_lease(const struct etcd_store *self)
{
    int64_t known = self->state.has_number ? incarnation_of(self, etcdstore_number(self)) : 0;
    struct ledger_lease now = { 0 };

    etcdstore_lease_look(self->lease, &now);
    if (now.incarnation != 0 && now.incarnation <= self->read_at && now.incarnation != known)
        etcdstore_lease_recheck(self->lease);
}

dibs_status etcdstore_join(struct store *store, int64_t ttl_ms, const char *boot_id, dibs_err *err)
{
    struct etcd_store *self = etcdstore_begin_call(store);
    struct epoll_event event = { .events = EPOLLIN };
    dibs_status s = self->is_loaded ? DIBS_OK : etcdstore_load(self, err);

    if (s == DIBS_OK && !self->state.has_number)
        s = etcdstore_enrol(self, self->node, err);
    if (s != DIBS_OK)
        return s;
    self->lease_notice = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->lease_notice < 0 || (self->state.notices >= 0 && epoll_ctl(self->state.notices, EPOLL_CTL_ADD,
                                                                         self->lease_notice, &event) != 0))
        return err_os(err, DIBS_UNAVAILABLE, errno, "joining the cluster");
    self->is_unattached = true; /* what was claimed without a daemon */
    return etcdstore_lease_open(self, ttl_ms, boot_id, &self->lease, err);
}

static bool is_unattached(const struct etcd_store *self, const struct claim_record *row)
{
    return row->lease == 0 && row->claim.holder != DIBS_HELD_BY_NOBODY && etcdstore_is_own(self, row->node) &&
           etcdstore_space(self, row->claim.port) == SPACE_CLUSTER;
}

dibs_status etcdstore_attach(struct store *store, size_t *n, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);
    const struct memory_table *t = &self->near.tables.table[CLAIMS];
    struct ledger_lease mine;
    dibs_status s = DIBS_OK;

    etcdstore_lease_state(self, &mine);
    *n = 0;
    for (size_t i = 0; i < t->n && *n < ATTACH_MAX && s == DIBS_OK && mine.margin_ms > 0; i++) {
        struct claim_record row = *(const struct claim_record *) t->item[i];

        if (!is_unattached(self, &row))
            continue;
        row.lease = mine.incarnation;
        s = memory_put(&self->near.tables, CLAIMS, &row, err);
        ++*n;
    }
    /* There may be more. The next call finds none once these are committed. */
    self->is_unattached = mine.margin_ms == 0 || *n > 0;
    return s;
}

dibs_status etcdstore_own(const struct etcd_store *self, const struct claim_record *before,
                          struct claim_record *row, dibs_err *err)
{
    bool is_held = row->claim.holder != DIBS_HELD_BY_NOBODY;
    /* A new holder is on this host; the caller of another change may be on any. */
    bool is_same = before && (before->claim.generation == row->claim.generation || !is_held);
    struct ledger_lease mine;
    size_t number = etcdstore_number(self);

    /* A snapshot restores cluster-scope claims of other hosts. The daemon of each attaches them. */
    if (!before && row->claim.node[0] &&
        (!etcdstore_find_node(self, row->claim.node, strlen(row->claim.node), &number) ||
         etcdstore_space(self, row->claim.port) != SPACE_CLUSTER))
        return err_set(err, DIBS_INVALID,
                       "port %u is of host '%s', and of no pool of the cluster: restore it there",
                       row->claim.port, row->claim.node);
    row->node = is_same ? before->node : (uint32_t) number;
    row->lease = is_held && before ? before->lease : 0;
    etcdstore_set_node(self, row);
    if (!is_held || !etcdstore_is_own(self, row->node) ||
        etcdstore_space(self, row->claim.port) != SPACE_CLUSTER) {
        row->lease = is_held && is_same ? row->lease : 0;
        return DIBS_OK;
    }
    if (!self->lease) { /* the node of another process: its lease, if it has one */
        row->lease = incarnation_of(self, row->node);
        return DIBS_OK;
    }
    etcdstore_lease_state(self, &mine);
    row->lease = mine.incarnation;
    if (mine.margin_ms > 0)
        return DIBS_OK;
    return err_trouble(
        err, DIBS_TROUBLE_NONE,
        "this host cannot renew its lease in the cluster, so that no holder could count on port "
        "%u: %.160s",
        row->claim.port, mine.trouble[0] ? mine.trouble : "no answer yet");
}
