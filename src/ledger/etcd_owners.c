/* SPDX-License-Identifier: MIT */
/* Who holds what in a cluster, seen from this host.
 *
 * Holders of ports that are everybody's hang on the lease of their host: the claim has the incarnation of the
 * host that made it. When c/l/NODE is gone, or is of another incarnation, they are dead for everybody, and
 * that is final. Before that nobody but their own host can tell. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

/* Claims of one commit that begin to hang on the lease: each may be in a block of its own, of some kilobytes.
 */
enum { HANG_MAX = 64 };

bool store_is_own(const struct etcd_rows *self, uint32_t node)
{
    return self->has_number && node == store_number(self);
}

bool store_find_node(const struct etcd_rows *self, const char *name, size_t n, size_t *out)
{
    for (size_t i = 0; i < self->n_nodes && n > 0; i++)
        if (strlen(self->nodes[i].name) == n && memcmp(self->nodes[i].name, name, n) == 0) {
            *out = i;
            return true;
        }
    return false;
}

struct store_key store_lease_key(const struct etcd_rows *self, const char *node)
{
    struct store_key key = store_key(self, SPACE_CLUSTER, 'l');

    store_key_add(&key, node, strlen(node));
    return key;
}

struct store_key store_lost_key(const struct etcd_rows *self, const char *node, uint64_t id)
{
    struct store_key key = store_host_key(self, node, 'x');

    store_key_add_hex(&key, id, 16);
    return key;
}

/* ---- life ---- */

static int64_t incarnation_of(const struct etcd_rows *self, uint32_t node)
{
    return node < self->n_nodes ? self->nodes[node].incarnation : 0;
}

void store_dress(const struct etcd_rows *self, struct row_claim *row)
{
    const char *name = row->node < self->n_nodes ? self->nodes[row->node].name : "";

    row->claim.node[0] = '\0';
    /* A host that was removed has no holders any more. */
    if (!store_is_own(self, row->node) && (name[0] || row->claim.holder != DIBS_HELD_BY_NOBODY))
        memcpy(row->claim.node, name[0] ? name : "?", name[0] ? strlen(name) + 1 : sizeof "?");
}

dibs_life store_node_life(const struct etcd_rows *self, const struct row_claim *row)
{
    bool is_own = store_is_own(self, row->node);
    struct ledger_lease mine;

    if (row->lease == 0 || store_space(self, row->claim.port) == SPACE_HOST)
        return is_own ? DIBS_ALIVE : DIBS_UNKNOWN;
    if (!is_own || !self->lease)
        return incarnation_of(self, row->node) == row->lease ? DIBS_ALIVE : DIBS_DEAD;
    store_lease_state(self, &mine);
    if (mine.incarnation != row->lease)
        return DIBS_DEAD;
    return mine.margin_ms > 0 ? DIBS_ALIVE : DIBS_UNKNOWN;
}

/* ---- ports that others have released ---- */

void store_cooling_out(struct etcd_rows *self, const struct ledger_slot *slot)
{
    if (slot->claim_id != 0 || store_is_own(self, slot->node))
        return;
    if (self->n_seen == self->max_seen) {
        size_t max = self->max_seen ? 2 * self->max_seen : 64;
        struct ledger_slot *grown = reallocarray(self->seen, max, sizeof *grown);

        if (!grown)
            return; /* it cools a little longer */
        self->seen = grown;
        self->max_seen = max;
    }
    self->seen[self->n_seen++] = *slot;
}

void store_cooling_in(const struct etcd_rows *self, struct ledger_slot *slot)
{
    if (store_is_own(self, slot->node))
        return;
    const struct ledger_slot *seen =
        self->n_seen ? bsearch(slot, self->seen, self->n_seen, sizeof *slot, memory_kinds[SLOTS].compare)
                     : NULL;

    slot->released_ms = seen && seen->node == slot->node && seen->there_ms == slot->there_ms
                            ? seen->released_ms
                            : clock_now(0).boot_ms;
}

/* ---- our own lease ---- */

void store_lease_state(const struct etcd_rows *self, struct ledger_lease *out)
{
    struct store_lease_now now = { 0 };

    *out = (struct ledger_lease){ .is_cluster = true,
                                  .is_member = self->lease != NULL,
                                  .n_lost = self->n_lost,
                                  .n_gone = self->n_gone,
                                  .is_loose = self->is_loose };
    if (!self->lease)
        return;
    store_lease_look(self->lease, &now);
    int64_t margin_ms = now.until_ms - clock_now(0).boot_ms;
    out->incarnation = now.incarnation;
    out->margin_ms = now.incarnation != 0 && margin_ms > 0 ? margin_ms : 0;
    out->n_ended = now.n_ended;
    memcpy(out->trouble, now.trouble, sizeof out->trouble);
}

void store_compare_lease(const struct etcd_rows *self)
{
    int64_t known = self->has_number ? incarnation_of(self, store_number(self)) : 0;
    struct store_lease_now now;

    store_lease_look(self->lease, &now);
    if (now.incarnation != 0 && now.incarnation <= self->read_at && now.incarnation != known)
        store_lease_doubt(self->lease);
}

dibs_status store_join(struct etcd_rows *self, int64_t ttl_ms, const char *boot_id, dibs_err *err)
{
    struct store_key key = store_lease_key(self, self->node);
    struct store_lease_options options = { .config = &self->config,
                                           .key = store_key_bytes(&key),
                                           .node = self->node,
                                           .boot_id = boot_id,
                                           .ttl_ms = ttl_ms };
    struct epoll_event event = { .events = EPOLLIN };
    dibs_status s = self->is_loaded ? DIBS_OK : store_load(self, err);

    if (s == DIBS_OK && !self->has_number)
        s = store_enrol(self, err);
    if (s != DIBS_OK)
        return s;
    self->lease_notice = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->lease_notice < 0 ||
        (self->notices >= 0 && epoll_ctl(self->notices, EPOLL_CTL_ADD, self->lease_notice, &event) != 0))
        return err_os(err, DIBS_UNAVAILABLE, errno, "joining the cluster");
    options.notice = self->lease_notice;
    self->is_loose = true; /* what was claimed without a daemon */
    return store_lease_open(&options, &self->lease, err);
}

static bool is_loose(const struct etcd_rows *self, const struct row_claim *row)
{
    return row->lease == 0 && row->claim.holder != DIBS_HELD_BY_NOBODY && store_is_own(self, row->node) &&
           store_space(self, row->claim.port) == SPACE_CLUSTER;
}

dibs_status store_hang(struct etcd_rows *self, size_t *n, dibs_err *err)
{
    const struct memory_table *t = &self->near.tables.table[CLAIMS];
    struct ledger_lease mine;
    dibs_status s = DIBS_OK;

    store_lease_state(self, &mine);
    *n = 0;
    for (size_t i = 0; i < t->n && *n < HANG_MAX && s == DIBS_OK && mine.margin_ms > 0; i++) {
        struct row_claim row = *(const struct row_claim *) t->item[i];

        if (!is_loose(self, &row))
            continue;
        row.lease = mine.incarnation;
        s = memory_put(&self->near.tables, CLAIMS, &row, err);
        ++*n;
    }
    /* There may be more, and these are still to be committed: who looks again finds none. */
    self->is_loose = mine.margin_ms == 0 || *n > 0;
    return s;
}

dibs_status store_own(const struct etcd_rows *self, const struct row_claim *before, struct row_claim *row,
                      dibs_err *err)
{
    bool is_held = row->claim.holder != DIBS_HELD_BY_NOBODY;
    /* Who becomes its holder is here; who only changes it need not be. */
    bool is_same = before && (before->claim.generation == row->claim.generation || !is_held);
    struct ledger_lease mine;
    size_t number = store_number(self);

    /* A snapshot brings back what another host had of ports that are everybody's. Its daemon lets it hang. */
    if (!before && row->claim.node[0] &&
        (!store_find_node(self, row->claim.node, strlen(row->claim.node), &number) ||
         store_space(self, row->claim.port) != SPACE_CLUSTER))
        return err_set(err, DIBS_INVALID,
                       "port %u is of host '%s', and of no pool of the cluster: restore it there",
                       row->claim.port, row->claim.node);
    row->node = is_same ? before->node : (uint32_t) number;
    row->lease = is_held && before ? before->lease : 0;
    store_dress(self, row);
    if (!is_held || !store_is_own(self, row->node) || store_space(self, row->claim.port) != SPACE_CLUSTER) {
        row->lease = is_held && is_same ? row->lease : 0;
        return DIBS_OK;
    }
    if (!self->lease) { /* somebody else of this host renews it; what nobody renews hangs on nothing */
        row->lease = incarnation_of(self, row->node);
        return DIBS_OK;
    }
    store_lease_state(self, &mine);
    row->lease = mine.incarnation;
    if (mine.margin_ms > 0)
        return DIBS_OK;
    return err_trouble(
        err, DIBS_TROUBLE_NONE,
        "this host cannot renew its lease in the cluster, so that no holder could count on port "
        "%u: %.160s",
        row->claim.port, mine.trouble[0] ? mine.trouble : "no answer yet");
}
