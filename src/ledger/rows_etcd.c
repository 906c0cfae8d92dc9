/* SPDX-License-Identifier: MIT */
/* Rows of a ledger in etcd: those of memory, loaded before and sent after. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

/* Events of ours that are kept near: who follows them asks for the newest. */
enum {
    EVENTS_NEAR = 4096,
    FENCED_PAUSE_US = 20000, /* between looks at ports that change hands */
};

/* ---- life ---- */

static dibs_status find_node(struct etcd_rows *self, const char *given, dibs_err *err)
{
    char name[256] = "";

    if (given)
        (void) snprintf(name, sizeof name, "%s", given);
    else if (gethostname(name, sizeof name - 1) != 0)
        return err_os(err, DIBS_FAILURE, errno, "what this host is called");
    dibs_status s = ledger_check_node(name, err);
    if (s == DIBS_OK)
        memcpy(self->node, name, strlen(name) + 1);
    return s;
}

static void close_etcd(struct rows *rows)
{
    struct etcd_rows *self = store_of(rows);

    if (!self)
        return;
    store_lease_close(self->lease);
    store_unwatch(self);
    if (self->lease_notice >= 0)
        (void) close(self->lease_notice);
    etcd_close(self->etcd);
    etcd_config_wipe(&self->config);
    memory_tables_done(&self->near.tables);
    free(self->nodes);
    free(self->lost);
    free(self->seen);
    free(self);
}

static dibs_status check(const char *uri, dibs_err *err)
{
    struct etcd_config config;

    return etcd_config_parse(uri, &config, err);
}

dibs_status store_configure(const char *rest, struct etcd_config *out, dibs_err *err)
{
    char url[4096];
    int n = snprintf(url, sizeof url, "etcd:%s", rest);

    if (n < 0 || (size_t) n >= sizeof url)
        return err_set(err, DIBS_INVALID, "the address of the ledger is too long");
    dibs_status s = etcd_config_parse(url, out, err);
    return s == DIBS_OK ? etcd_config_login(out, getenv("DIBS_ETCD_USER"), getenv("DIBS_ETCD_PASSWORD"), err)
                        : s;
}

static dibs_status start(struct etcd_rows *self, const char *rest, const struct ledger_options *options,
                         dibs_err *err)
{
    dibs_status s = store_configure(rest, &self->config, err);

    if (s == DIBS_OK)
        s = find_node(self, options->node, err);
    if (s == DIBS_OK)
        s = etcd_open(&self->config, &self->etcd, err);
    self->timeout_ms = options->timeout_ms;
    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    return s == DIBS_OK ? store_mark(self, err) : s;
}

static struct etcd_rows *make(void)
{
    struct etcd_rows *self = calloc(1, sizeof *self);

    if (!self)
        return NULL;
    self->near.base.ops = &rows_etcd_ops;
    self->notices = self->lease_notice = -1;
    self->traffic.lag_ms = -1;
    memory_tables_init(&self->near.tables, memory_kinds, TABLE_COUNT);
    return self;
}

static dibs_status open_etcd(const char *rest, const struct ledger_options *options, struct rows **out,
                             dibs_err *err)
{
    struct etcd_rows *self = make();

    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    dibs_status s = start(self, rest, options, err);
    if (s != DIBS_OK) {
        close_etcd(&self->near.base);
        return s;
    }
    *out = &self->near.base;
    return DIBS_OK;
}

static uint64_t salt(struct rows *rows)
{
    return store_of(rows)->near.salt;
}

/* ---- transactions ---- */

static void start_call(struct rows *rows)
{
    struct etcd_rows *self = store_of(rows);

    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    self->is_in_call = true;
    self->is_fresh = false;
}

static dibs_status begin(struct rows *rows, bool is_write, bool is_full, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);
    dibs_status s = DIBS_OK;

    (void) is_full; /* whatever etcd has answered is durable */
    if (!self->is_in_call)
        self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    if (self->is_fenced && !self->is_watched)
        (void) usleep(FENCED_PAUSE_US);
    else if (self->was_beaten && !self->is_watched)
        store_give_way(self);
    self->is_fenced = false;
    if (self->is_watched)
        s = store_catch_up(self, err);
    else if (!self->is_loaded || !self->is_fresh || !self->is_in_call)
        s = store_refresh(self, err);
    self->was_beaten = self->was_cut = false;
    if (s == DIBS_OK && is_write)
        s = store_listen(self, err);
    if (s == DIBS_OK && is_write && !self->has_number)
        s = store_enrol(self, err);
    if (s != DIBS_OK)
        return s;
    self->is_fresh = true;
    self->is_mourning = false;
    self->trimmed_seq = self->trimmed_answers = 0;
    return rows_memory_ops.begin(rows, is_write, is_full, err);
}

void store_forget_events(struct etcd_rows *self, size_t kept)
{
    struct memory_table *t = &self->near.tables.table[EVENTS];
    size_t n = t->n > kept ? t->n - kept : 0;

    if (n == 0)
        return; /* there may be no array at all */
    for (size_t i = 0; i < n; i++)
        free(t->item[i]);
    memmove(t->item, t->item + n, (t->n - n) * sizeof *t->item);
    t->n -= n;
}

/* Who follows the events wants the newest. */
static void forget_old_events(struct etcd_rows *self)
{
    if (self->near.tables.table[EVENTS].n > (size_t) 2 * EVENTS_NEAR)
        store_forget_events(self, EVENTS_NEAR);
}

static dibs_status commit(struct rows *rows, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);

    if (self->near.is_write && self->near.tables.n_journal > 0) {
        dibs_status s = store_commit(&self, 1, err);

        if (s != DIBS_OK)
            return s;
    }
    dibs_status s = rows_memory_ops.commit(rows, err);

    forget_old_events(self);
    store_hands_end(self);
    return s;
}

static void rollback(struct rows *rows)
{
    struct etcd_rows *self = store_of(rows);

    memory_rows_rollback(rows);
    store_hands_undone(self);
    store_hands_end(self);
}

static dibs_status undo(struct rows *rows, dibs_err *err)
{
    dibs_status s = memory_rows_undo(rows, err);

    store_hands_undone(store_of(rows));
    return s;
}

static dibs_status commit_all(struct rows *const *rows, size_t n, dibs_err *err)
{
    AUTO(free_auto) struct etcd_rows **all = calloc(n, sizeof(struct etcd_rows *));

    if (!all)
        return err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    for (size_t i = 0; i < n; i++)
        all[i] = store_of(rows[i]);
    dibs_status s = store_commit(all, n, err);
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        (void) rows_memory_ops.commit(rows[i], NULL);
        store_hands_end(all[i]);
    }
    return s;
}

static dibs_status unknown_host(const struct etcd_rows *self, dibs_err *err)
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

static dibs_status beside(struct rows *rows, const char *node, struct rows **out, dibs_err *err)
{
    const struct etcd_rows *from = store_of(rows);
    struct etcd_rows *self = make();

    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->config = from->config;
    self->near.salt = from->near.salt;
    self->timeout_ms = from->timeout_ms;
    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    dibs_status s = find_node(self, node, err);
    if (s == DIBS_OK)
        s = etcd_open(&self->config, &self->etcd, err);
    if (s == DIBS_OK)
        s = store_load(self, err);
    if (s == DIBS_OK && !self->has_number)
        s = unknown_host(self, err);
    if (s != DIBS_OK) {
        close_etcd(&self->near.base);
        return s;
    }
    *out = &self->near.base;
    return DIBS_OK;
}

static bool is_own_host(const struct rows *rows, const struct rows *beside_it)
{
    return strcmp(((const struct etcd_rows *) rows)->node, ((const struct etcd_rows *) beside_it)->node) == 0;
}

static dibs_status care_beside(struct rows *rows, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);

    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    return store_watch(self, err);
}

static int notices(const struct rows *rows)
{
    return ((const struct etcd_rows *) rows)->notices;
}

static uint64_t heed(struct rows *rows)
{
    struct etcd_rows *self = store_of(rows);

    if (!self->near.is_open)
        store_heed(self);
    return self->n_elsewhere;
}

static void doubt(struct rows *rows)
{
    store_of(rows)->is_doubted = true;
}

static bool changed_elsewhere(struct rows *rows, struct portbits *out)
{
    struct etcd_rows *self = store_of(rows);
    bool is_known = !self->is_all_changed;

    *out = self->changed;
    memset(&self->changed, 0, sizeof self->changed);
    self->is_all_changed = false;
    return is_known;
}

static bool was_beaten(const struct rows *rows)
{
    return ((const struct etcd_rows *) rows)->was_beaten;
}

static bool was_cut(const struct rows *rows)
{
    return ((const struct etcd_rows *) rows)->was_cut;
}

static const struct ledger_traffic *traffic(const struct rows *rows)
{
    return &((const struct etcd_rows *) rows)->traffic;
}

static bool place(const struct rows *rows, uint32_t *rank, uint32_t *n)
{
    const struct etcd_rows *self = (const struct etcd_rows *) rows;

    *rank = self->rank;
    *n = self->n_hosts;
    return self->has_number;
}

/* ---- rows that differ from those of memory ---- */

/* In a moment it is everybody's, or not: that is soon known. */
static dibs_status fenced(struct etcd_rows *self, uint16_t port, dibs_err *err)
{
    (void) store_beaten(self, NULL);
    self->is_fenced = true;
    return err_trouble(err, DIBS_TROUBLE_LOCKED,
                       "port %u is becoming one of a pool for the whole cluster; try again", port);
}

static dibs_status claim_put(struct rows *rows, const struct row_claim *row, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);
    const struct row_claim *before = memory_get(&self->near.tables, CLAIMS, row);
    struct row_claim mine = *row;
    dibs_status s = store_own(self, before, &mine, err);

    if (!before && portbits_has(&self->fenced, row->claim.port))
        return fenced(self, row->claim.port, err);
    mine.claim.node_life = DIBS_ALIVE;
    return s == DIBS_OK ? rows_memory_ops.claim_put(rows, &mine, err) : s;
}

static dibs_status claim_get(struct rows *rows, uint64_t id, struct row_claim *out, dibs_err *err)
{
    dibs_status s = memory_rows_claim_get(rows, id, out, err);

    if (s == DIBS_OK)
        out->claim.node_life = store_node_life(store_of(rows), out);
    return s;
}

struct judged_claims {
    const struct etcd_rows *self;
    row_claim_fn fn;
    void *ctx;
};

static bool judge_claim(void *ctx, const struct row_claim *row)
{
    const struct judged_claims *j = ctx;
    dibs_life life = store_node_life(j->self, row);

    if (life == DIBS_ALIVE)
        return j->fn(j->ctx, row);
    struct row_claim judged = *row;

    judged.claim.node_life = life;
    return j->fn(j->ctx, &judged);
}

static dibs_status claims(struct rows *rows, const struct ledger_filter *filter, row_claim_fn fn, void *ctx,
                          dibs_err *err)
{
    struct judged_claims judged = { store_of(rows), fn, ctx };

    return memory_rows_claims(rows, filter, judge_claim, &judged, err);
}

static dibs_status slot_put(struct rows *rows, const struct ledger_slot *slot, dibs_err *err)
{
    struct ledger_slot mine = *slot;

    mine.node = store_number(store_of(rows));
    mine.there_ms = slot->released_ms;
    return memory_rows_slot_put(rows, &mine, err);
}

static dibs_status join(struct rows *rows, int64_t ttl_ms, const char *boot_id, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);

    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    return store_join(self, ttl_ms, boot_id, err);
}

static void lease(const struct rows *rows, struct ledger_lease *out)
{
    store_lease_state((const struct etcd_rows *) rows, out);
}

static void nodes(const struct rows *rows, dibs_node_fn fn, void *ctx)
{
    store_nodes((const struct etcd_rows *) rows, fn, ctx);
}

static dibs_status node_enrol(struct rows *rows, const char *name, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);

    if (!self->is_in_call)
        self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    dibs_status s = self->is_loaded ? DIBS_OK : store_load(self, err);
    return s == DIBS_OK ? store_enrol_other(self, name ? name : self->node, err) : s;
}

static dibs_status node_count(struct rows *rows, const char *name, size_t *n, int64_t *since, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);

    if (!self->is_in_call)
        self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    return store_count_node(self, name, n, since, err);
}

static dibs_status node_forget(struct rows *rows, const char *name, int64_t since, dibs_err *err)
{
    return store_forget_node(store_of(rows), name, since, err);
}

static void lost(struct rows *rows, bool (*fn)(void *ctx, const dibs_claim *claim), void *ctx)
{
    struct etcd_rows *self = store_of(rows);
    bool goes_on = true;

    self->is_mourning = true;
    for (size_t i = 0; i < self->n_lost && goes_on; i++)
        goes_on = fn(ctx, &self->lost[i].claim);
}

/* A quarter of the 2 GiB that etcd allows unless it was told otherwise. */
static void tend(struct rows *rows)
{
    const int64_t plenty_bytes = INT64_C(512) << 20;

    store_tend(store_of(rows), plenty_bytes);
}

static dibs_status hang(struct rows *rows, size_t *n, dibs_err *err)
{
    return store_hang(store_of(rows), n, err);
}

static dibs_status tail(struct rows *rows, uint64_t *seq, uint64_t *cursor, dibs_err *err)
{
    const struct etcd_rows *self = store_of(rows);
    dibs_status s = rows_memory_ops.tail(rows, seq, cursor, err);

    if (*seq < self->tail.seq) {
        *seq = self->tail.seq;
        *cursor = self->tail.cursor;
    }
    return s;
}

struct reading {
    const dibs_event_query *query;
    uint64_t since;
    size_t n;
    bool is_over;
    bool is_bad;
    bool (*fn)(void *, const dibs_event *);
    void *ctx;
};

static bool read_event(void *ctx, const struct event_record *record)
{
    struct reading *r = ctx;

    if (record->event.seq <= r->since)
        return true;
    if (r->query->limit > 0 && r->n == r->query->limit)
        r->is_over = true;
    else
        r->is_over = !r->fn(r->ctx, &record->event);
    r->n++;
    return !r->is_over;
}

static bool read_chunks(void *ctx, const struct etcd_kv *kvs, size_t n)
{
    struct reading *r = ctx;

    for (size_t i = 0; i < n && !r->is_over && !r->is_bad; i++)
        r->is_bad = !unpack_events((struct packed){ kvs[i].value.at, kvs[i].value.n }, read_event, r);
    return !r->is_over && !r->is_bad;
}

static dibs_status read_events(struct etcd_rows *self, struct reading *r, dibs_err *err)
{
    struct store_key key = store_key(self, SPACE_HOST, 'e');
    struct store_key end = store_key_end(&key);
    struct etcd_call call = store_call(self);

    store_key_add_hex(&key, r->since + 1, 16);
    struct etcd_pages pages = {
        .key = store_key_bytes(&key), .end = store_key_bytes(&end), .page = 64, .take = read_chunks, .ctx = r
    };
    int64_t revision = 0;
    dibs_status s = etcd_read_pages(self->etcd, &call, &pages, &revision, err);

    if (s == DIBS_OK && r->is_bad)
        return err_trouble(err, DIBS_TROUBLE_DAMAGED, "the history in etcd has a record that cannot be read");
    return s;
}

/* The newest are near; for the others etcd is asked. */
static dibs_status events(struct rows *rows, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);
    const struct memory_table *t = &self->near.tables.table[EVENTS];
    const struct event_record *first = t->n > 0 ? t->item[0] : NULL;
    uint64_t near_from = first ? first->event.seq : self->tail.seq + 1;
    uint64_t newest = 0;
    uint64_t cursor = 0;
    struct reading r = { .query = query, .fn = fn, .ctx = ctx };
    dibs_status s = tail(rows, &newest, &cursor, err);

    if (oldest)
        *oldest = newest > self->tail.gone ? self->tail.gone + 1 : 0;
    r.since = query->since > self->tail.gone ? query->since : self->tail.gone;
    if (query->newest && query->limit > 0 && newest > query->limit && r.since < newest - query->limit)
        r.since = newest - query->limit;
    if (r.since + 1 >= near_from)
        return rows_memory_ops.events(rows, query, NULL, fn, ctx, err);
    return s == DIBS_OK ? read_events(self, &r, err) : s;
}

static dibs_status trim(struct rows *rows, uint64_t oldest_seq, size_t names_kept, int64_t cooled_before_ms,
                        const struct instant *now, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);
    uint64_t newest = 0;
    uint64_t cursor = 0;
    dibs_status s = tail(rows, &newest, &cursor, err);

    self->trimmed_seq = oldest_seq;
    self->trimmed_answers = newest > STORE_ANSWERS_KEPT ? newest - STORE_ANSWERS_KEPT : 0;
    if (s == DIBS_OK)
        s = memory_forget_answers(rows, self->trimmed_answers, err);
    return s == DIBS_OK ? memory_trim(rows, oldest_seq, names_kept, cooled_before_ms, now, err) : s;
}

static dibs_status health(struct rows *rows, struct ledger_health *out, dibs_err *err)
{
    struct etcd_rows *self = store_of(rows);
    dibs_status s = self->is_watched ? store_catch_up(self, err) : store_refresh(self, err);

    if (s == DIBS_OK)
        s = rows_memory_ops.health(rows, out, err);
    if (s != DIBS_OK)
        return s;
    out->major = STORE_MAJOR;
    out->n_events = self->tail.seq - self->tail.gone;
    (void) snprintf(out->path, sizeof out->path, "%s%s", etcd_endpoint(self->etcd), self->config.prefix);
    return DIBS_OK;
}

const struct rows_ops rows_etcd_ops = {
    .scheme = "etcd",
    .is_shared = true,
    .check = check,
    .open = open_etcd,
    .close = close_etcd,
    .salt = salt,
    .start_call = start_call,
    .care_beside = care_beside,
    .notices = notices,
    .heed = heed,
    .changed_elsewhere = changed_elsewhere,
    .doubt = doubt,
    .join = join,
    .lease = lease,
    .lost = lost,
    .tend = tend,
    .hang = hang,
    .nodes = nodes,
    .node_enrol = node_enrol,
    .node_count = node_count,
    .node_forget = node_forget,
    .begin = begin,
    .commit = commit,
    .commit_all = commit_all,
    .beside = beside,
    .is_own_host = is_own_host,
    .was_beaten = was_beaten,
    .was_cut = was_cut,
    .cluster = store_cluster,
    .traffic = traffic,
    .place = place,
    MEMORY_ROWS_OPS,
    .rollback = rollback,
    .undo = undo,
    .pool_put = store_pool_put,
    .pool_delete = store_pool_delete,
    .claim_get = claim_get,
    .claim_put = claim_put,
    .claims = claims,
    .slot_put = slot_put,
    .tail = tail,
    .events = events,
    .answer_get = memory_answer_get,
    .answer_put = memory_answer_put,
    .trim = trim,
    .health = health,
};
