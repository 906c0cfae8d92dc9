/* SPDX-License-Identifier: MIT */
/* The store in etcd: decisions use an in-memory copy, and commit.c sends their changes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/etcd/etcd_store.h"

#include "base/banned.h"

static dibs_status find_node(struct etcd_store *self, const char *given, dibs_err *err)
{
    char name[256] = "";

    if (given)
        (void) snprintf(name, sizeof name, "%s", given);
    else if (gethostname(name, sizeof name - 1) != 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot get the name of this host");
    dibs_status s = record_check_node(name, true, err);
    if (s == DIBS_OK)
        memcpy(self->node, name, strlen(name) + 1);
    return s;
}

static void close_etcd(struct store *store)
{
    struct etcd_store *self = etcdstore_of(store);

    if (!self)
        return;
    etcdstore_lease_close(self->lease);
    etcdstore_unwatch(self);
    if (self->lease_notice >= 0)
        (void) close(self->lease_notice);
    etcd_close(self->etcd);
    etcd_config_wipe(&self->config);
    memory_tables_done(&self->copy.tables);
    free(self->nodes);
    free(self->lost);
    free(self->seen);
    free(self);
}

/* Parse the URL after "etcd:", and read user and password. */
static dibs_status configure(const char *rest, struct etcd_config *out, dibs_err *err)
{
    char url[4096];
    int n = snprintf(url, sizeof url, "etcd:%s", rest);

    if (n < 0 || (size_t) n >= sizeof url)
        return err_set(err, DIBS_INVALID, "the address of the ledger is too long");
    dibs_status s = etcd_config_parse(url, out, err);
    return s == DIBS_OK ? etcd_config_login(out, getenv("DIBS_ETCD_USER"), getenv("DIBS_ETCD_PASSWORD"), err)
                        : s;
}

static dibs_status members(const char *rest, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err)
{
    struct etcd_config config;
    dibs_status s = configure(rest, &config, err);

    if (s == DIBS_OK)
        s = etcd_cluster(&config, timeout_ms, out, err);
    etcd_config_wipe(&config);
    return s;
}

static void close_auto(struct etcd_store **self)
{
    close_etcd(*self ? &(*self)->copy.base : NULL);
}

static dibs_status open_node(const struct etcd_config *config, const char *node, int64_t timeout_ms,
                             struct etcd_store **out, dibs_err *err)
{
    AUTO(close_auto) struct etcd_store *self = calloc(1, sizeof *self);

    if (!self || !(self->nodes = calloc(STORE_NODES_MAX, sizeof *self->nodes)))
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->copy.base.ops = &store_etcd_ops;
    self->copy.base.cluster = &self->state;
    self->state.notices = self->lease_notice = -1;
    self->state.traffic.lag_ms = -1;
    self->config = *config;
    self->timeout_ms = timeout_ms;
    self->deadline_ms = clock_monotonic_ms() + timeout_ms;
    dibs_status s = find_node(self, node, err);
    if (s == DIBS_OK)
        s = etcd_open(&self->config, &self->etcd, err);
    if (s == DIBS_OK)
        *out = TAKE(self);
    return s;
}

static dibs_status open_etcd(const char *rest, const struct ledger_options *options, struct store **out,
                             dibs_err *err)
{
    AUTO(close_auto) struct etcd_store *self = NULL;
    struct etcd_config config = { 0 };
    dibs_status s = configure(rest, &config, err);

    if (s == DIBS_OK)
        s = open_node(&config, options->node, options->timeout_ms, &self, err);
    etcd_config_wipe(&config);
    if (s == DIBS_OK && self) {
        self->is_check = options->is_check;
        s = etcdstore_check_header(self, err);
    }
    if (s == DIBS_OK)
        *out = &TAKE(self)->copy.base;
    return s;
}

/* ---- transactions ---- */

static dibs_status begin(struct store *store, bool is_write, bool is_full, int64_t deadline_ms, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);
    dibs_status s = DIBS_OK;

    (void) is_full; /* every answered commit to etcd is durable */
    self->deadline_ms = deadline_ms ? deadline_ms : clock_monotonic_ms() + self->timeout_ms;
    if (self->state.had_conflict)
        etcdstore_back_off(self);
    s = etcdstore_catch_up(self, err);
    self->state.had_conflict = self->state.was_cut = false;
    if (s == DIBS_OK && is_write)
        s = etcdstore_fail_if_silent(self, err);
    if (s == DIBS_OK && is_write && !self->state.has_number)
        s = etcdstore_enrol(self, self->node, err);
    if (s != DIBS_OK)
        return s;
    self->is_noting_lost = false;
    self->trimmed_seq = 0;
    return store_memory_ops.begin(store, is_write, is_full, deadline_ms, err);
}

static dibs_status commit(struct store *store, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);

    if (self->copy.is_write && self->copy.tables.n_journal > 0) {
        dibs_status s = etcdstore_commit(&store, 1, err);

        if (s != DIBS_OK)
            return s;
    }
    dibs_status s = store_memory_ops.commit(store, err);

    etcdstore_scope_end(self);
    return s;
}

static void rollback(struct store *store)
{
    struct etcd_store *self = etcdstore_of(store);

    store_memory_ops.rollback(store);
    etcdstore_scope_undone(self);
    etcdstore_scope_end(self);
}

static dibs_status undo(struct store *store, dibs_err *err)
{
    dibs_status s = store_memory_ops.undo(store, err);

    etcdstore_scope_undone(etcdstore_of(store));
    return s;
}

static dibs_status commit_all(struct store *const *store, size_t n, dibs_err *err)
{
    dibs_status s = etcdstore_commit(store, n, err);

    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        (void) store_memory_ops.commit(store[i], NULL);
        etcdstore_scope_end(etcdstore_of(store[i]));
    }
    return s;
}

static dibs_status unknown_host(const struct etcd_store *self, dibs_err *err)
{
    char known[200] = "";
    size_t used = 0;

    for (size_t i = 0; i < self->n_nodes && used < sizeof known - DIBS_NODE_MAX - 8; i++)
        if (self->nodes[i].name[0])
            used += (size_t) snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                      self->nodes[i].name);
    return err_set(err, DIBS_NOT_FOUND, "the ledger knows no host '%s' (it knows %s%s)", self->node,
                   known[0] ? known : "none", used < sizeof known - DIBS_NODE_MAX - 8 ? "" : ", ...");
}

static dibs_status beside(struct store *store, const char *node, struct store **out, dibs_err *err)
{
    const struct etcd_store *from = etcdstore_of(store);
    AUTO(close_auto) struct etcd_store *self = NULL;
    dibs_status s = open_node(&from->config, node, from->timeout_ms, &self, err);

    if (s != DIBS_OK || !self)
        return s;
    s = etcdstore_load(self, err);
    if (s == DIBS_OK && !self->state.has_number)
        s = unknown_host(self, err);
    if (s != DIBS_OK)
        return s;
    self->copy.base.salt = from->copy.base.salt;
    *out = &TAKE(self)->copy.base;
    return DIBS_OK;
}

static bool is_own_host(const struct store *store, const struct store *beside_it)
{
    return strcmp(((const struct etcd_store *) store)->node, ((const struct etcd_store *) beside_it)->node) ==
           0;
}

static dibs_status start_background(struct store *store, dibs_err *err)
{
    return etcdstore_watch(etcdstore_begin_call(store), err);
}

static void take_notices(struct store *store)
{
    if (!etcdstore_of(store)->copy.is_open)
        etcdstore_take_notices(etcdstore_of(store));
}

/* ---- holders and the lease of their node ---- */

/* Claims that one commit attaches to the lease: each may be in its own block of some kilobytes. */
enum { ATTACH_MAX = 64 };

static int64_t incarnation_of(const struct etcd_store *self, uint32_t node)
{
    return node < self->n_nodes ? self->nodes[node].incarnation : 0;
}

/* Judge a claim's holder by the lease of its host. */
static dibs_life node_life(const struct etcd_store *self, const struct claim_record *row)
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

static dibs_status join(struct store *store, int64_t ttl_ms, const char *boot_id, dibs_err *err)
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
    self->is_unattached = true; /* claims may have been made without a daemon */
    return etcdstore_lease_open(self, ttl_ms, boot_id, &self->lease, err);
}

static bool is_unattached(const struct etcd_store *self, const struct claim_record *row)
{
    return row->lease == 0 && row->claim.holder != DIBS_HELD_BY_NOBODY && etcdstore_is_own(self, row->node) &&
           etcdstore_space(self, row->claim.port) == SPACE_CLUSTER;
}

static dibs_status attach(struct store *store, size_t *n, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);
    const struct memory_table *t = &self->copy.tables.table[CLAIMS];
    struct ledger_lease mine;
    dibs_status s = DIBS_OK;

    etcdstore_lease_state(self, &mine);
    *n = 0;
    for (size_t i = 0; i < t->n && *n < ATTACH_MAX && s == DIBS_OK && mine.margin_ms > 0; i++) {
        struct claim_record row = *(const struct claim_record *) t->item[i];

        if (!is_unattached(self, &row))
            continue;
        row.lease = mine.incarnation;
        s = memory_put(&self->copy.tables, CLAIMS, &row, err);
        ++*n;
    }
    /* There may be more. The next call finds none once these are committed. */
    self->is_unattached = mine.margin_ms == 0 || *n > 0;
    return s;
}

/* Set node and lease of a claim before it is put. UNAVAILABLE: this host has no certain lease. */
static dibs_status own_claim(const struct etcd_store *self, const struct claim_record *before,
                             struct claim_record *row, dibs_err *err)
{
    bool is_held = row->claim.holder != DIBS_HELD_BY_NOBODY;
    /* A new holder is on this host; the caller of any other change may be on another one. */
    bool is_same = before && (before->claim.generation == row->claim.generation || !is_held);
    struct ledger_lease mine;
    size_t number = etcdstore_number(self);

    /* A snapshot restores cluster-scope claims of other hosts, whose daemons attach them. */
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
    if (!self->lease) { /* a node of another process: use its lease, if it has one */
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

/* ---- operations that differ from the store in memory ---- */

/* Fail with LOCKED: another process is changing the scope of the port. */
static dibs_status fenced(struct etcd_store *self, uint16_t port, dibs_err *err)
{
    (void) etcdstore_conflict(self, NULL);
    return err_trouble(err, DIBS_TROUBLE_LOCKED, "the scope of port %u is being changed; try again", port);
}

static dibs_status claim_put(struct store *store, const struct claim_record *row, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);
    const struct claim_record *before = memory_get(&self->copy.tables, CLAIMS, row);
    struct claim_record mine = *row;
    dibs_status s = own_claim(self, before, &mine, err);

    if (!before && portbits_has(&self->fenced, row->claim.port))
        return fenced(self, row->claim.port, err);
    mine.claim.node_life = DIBS_ALIVE;
    return s == DIBS_OK ? store_memory_ops.put(store, CLAIMS, &mine, err) : s;
}

static dibs_status slot_put(struct store *store, const struct ledger_slot *slot, dibs_err *err)
{
    struct ledger_slot mine = *slot;

    mine.node = etcdstore_number(etcdstore_of(store));
    mine.there_ms = slot->released_ms;
    return store_memory_ops.put(store, SLOTS, &mine, err);
}

static dibs_status get(struct store *store, enum record_kind kind, void *record, dibs_err *err)
{
    dibs_status s = store_memory_ops.get(store, kind, record, err);
    struct claim_record *row = record;

    if (s == DIBS_OK && kind == CLAIMS)
        row->claim.node_life = node_life(etcdstore_of(store), row);
    return s;
}

static dibs_status put(struct store *store, enum record_kind kind, const void *record, dibs_err *err)
{
    switch (kind) {
    case CLAIMS: return claim_put(store, record, err);
    case SLOTS: return slot_put(store, record, err);
    case POOLS: return etcdstore_change_pool(store, record, false, err);
    default: return store_memory_ops.put(store, kind, record, err);
    }
}

static dibs_status erase(struct store *store, enum record_kind kind, const void *record, dibs_err *err)
{
    return kind == POOLS ? etcdstore_change_pool(store, record, true, err)
                         : store_memory_ops.erase(store, kind, record, err);
}

struct judged_claims {
    const struct etcd_store *self;
    claim_record_fn fn;
    void *ctx;
};

static bool judge_claim(void *ctx, const struct claim_record *row)
{
    const struct judged_claims *j = ctx;
    dibs_life life = node_life(j->self, row);

    if (life == DIBS_ALIVE)
        return j->fn(j->ctx, row);
    struct claim_record judged = *row;

    judged.claim.node_life = life;
    return j->fn(j->ctx, &judged);
}

static dibs_status claims(struct store *store, const struct ledger_filter *filter, claim_record_fn fn,
                          void *ctx, dibs_err *err)
{
    struct judged_claims judged = { etcdstore_of(store), fn, ctx };

    return store_memory_ops.claims(store, filter, judge_claim, &judged, err);
}

static void lease(const struct store *store, struct ledger_lease *out)
{
    etcdstore_lease_state((const struct etcd_store *) store, out);
}

static dibs_status node_enrol(struct store *store, const char *name, dibs_err *err)
{
    struct etcd_store *self = etcdstore_begin_call(store);
    dibs_status s = self->is_loaded ? DIBS_OK : etcdstore_load(self, err);

    return s == DIBS_OK ? etcdstore_enrol(self, name ? name : self->node, err) : s;
}

static void lost(struct store *store, bool (*fn)(void *ctx, const dibs_claim *claim), void *ctx)
{
    struct etcd_store *self = etcdstore_of(store);
    bool goes_on = true;

    self->is_noting_lost = true;
    for (size_t i = 0; i < self->n_lost && goes_on; i++)
        goes_on = fn(ctx, &self->lost[i].claim);
}

/* Compact above a quarter of etcd's default quota of 2 GiB. */
static void compact(struct store *store)
{
    const int64_t plenty_bytes = INT64_C(512) << 20;

    etcdstore_compact(etcdstore_of(store), plenty_bytes);
}

static dibs_status tail(struct store *store, uint64_t *seq, uint64_t *cursor, dibs_err *err)
{
    const struct etcd_store *self = etcdstore_of(store);
    dibs_status s = store_memory_ops.tail(store, seq, cursor, err);

    if (*seq < self->tail.seq) {
        *seq = self->tail.seq;
        *cursor = self->tail.cursor;
    }
    return s;
}

static dibs_status events(struct store *store, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    const struct node_tail *known = &etcdstore_of(store)->tail;
    dibs_event_query kept = *query;

    kept.since = query->since > known->gone ? query->since : known->gone;
    dibs_status s = store_memory_ops.events(store, &kept, oldest, fn, ctx, err);

    if (oldest && *oldest > 0 && *oldest <= known->gone)
        *oldest = known->gone + 1;
    return s;
}

static dibs_status trim(struct store *store, const struct store_bounds *bounds, dibs_err *err)
{
    etcdstore_of(store)->trimmed_seq = bounds->oldest_seq;
    return store_memory_ops.trim(store, bounds, err);
}

static dibs_status health(struct store *store, struct ledger_health *out, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);
    dibs_status s = etcdstore_catch_up(self, err);

    if (s == DIBS_OK)
        s = store_memory_ops.health(store, out, err);
    if (s != DIBS_OK)
        return s;
    out->major = STORE_MAJOR;
    out->n_events = self->tail.seq - self->tail.gone;
    (void) snprintf(out->path, sizeof out->path, "%s%s", etcd_endpoint(self->etcd), self->config.prefix);
    return DIBS_OK;
}

static const struct cluster_ops cluster_etcd_ops = {
    .members = members,
    .take_notices = take_notices,
    .join = join,
    .lease = lease,
    .attach = attach,
    .lost = lost,
    .compact = compact,
    .nodes = etcdstore_nodes,
    .node_enrol = node_enrol,
    .node_count = etcdstore_count_node,
    .node_forget = etcdstore_forget_node,
    .beside = beside,
    .is_own_host = is_own_host,
    .commit_all = commit_all,
};

const struct store_ops store_etcd_ops = {
    .scheme = "etcd",
    .cluster = &cluster_etcd_ops,
    .check = etcd_config_check,
    .open = open_etcd,
    .close = close_etcd,
    .health = health,
    .start_background = start_background,
    .begin = begin,
    .commit = commit,
    MEMORY_ROWS_OPS,
    .rollback = rollback,
    .undo = undo,
    .get = get,
    .put = put,
    .erase = erase,
    .claims = claims,
    .tail = tail,
    .events = events,
    .trim = trim,
};
