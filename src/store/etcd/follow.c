/* SPDX-License-Identifier: MIT */
/* Keep the in-memory copy current with the changes of other nodes. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/etcd/etcd_store.h"

#include "base/banned.h"

enum {
    CATCH_UP_MS = 100,        /* wait for the commit that came first; after that, read the whole copy again */
    CONFIRM_MS = 200,         /* a copy without notices for this long may be stale: a member can stall */
    CONFIRM_TIMEOUT_MS = 500, /* timeout of that check; without an answer the copy is used unchanged */
    CONFIRMS_MAX = 3,
    SILENT_MS = 1000, /* after a request timed out, others fail at once for this long */
};

/* Remove the claims and cooling slots of a block from the copy. */
static dibs_status clear_block(struct etcd_store *self, enum etcdstore_space space, uint16_t block)
{
    struct memory_tables *tables = &self->copy.tables;
    struct memory_table *t = &tables->table[SLOTS];
    dibs_status s = DIBS_OK;

    self->n_seen = 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++) {
        struct ledger_slot first = { .proto = proto, .port = (uint16_t) (block * BLOCK_PORTS) };
        size_t i = memory_find(tables, SLOTS, &first, NULL);

        while (i < t->n && s == DIBS_OK) {
            struct ledger_slot slot = *(const struct ledger_slot *) t->item[i];
            struct claim_record claim = { .claim.id = slot.claim_id };

            if (slot.proto != proto || slot.port / BLOCK_PORTS != block)
                break;
            if (etcdstore_space(self, slot.port) != space) {
                i++;
                continue;
            }
            etcdstore_cooling_out(self, &slot);
            s = slot.claim_id ? memory_erase(tables, CLAIMS, &claim, NULL) : DIBS_OK;
            if (s == DIBS_OK)
                s = memory_erase(tables, SLOTS, &slot, NULL);
        }
    }
    return s;
}

/* Note a change of other nodes to unknown ports. */
static void note_elsewhere(struct etcd_store *self)
{
    self->state.n_elsewhere++;
    self->state.is_all_changed = true;
}

static bool change_block(struct etcd_store *self, enum etcdstore_space space, struct etcd_bytes rest,
                         const struct etcd_event *event)
{
    uint16_t block = 0;

    if (!etcdstore_read_block(rest, &block))
        return false;
    if (event->kv.mod_revision <= self->block_revision[space][block])
        return true; /* our own change, or already read */
    self->state.n_elsewhere++;
    self->state.changed.word[block] = UINT64_MAX; /* a block is one word of the set */
    self->block_revision[space][block] = event->kv.mod_revision;
    return clear_block(self, space, block) == DIBS_OK &&
           (event->is_delete || etcdstore_apply(self, space, &event->kv, NULL) == DIBS_OK);
}

static bool change_name(struct etcd_store *self, enum etcdstore_space space, struct etcd_bytes rest,
                        const struct etcd_event *event)
{
    struct name_record key = { 0 };

    if (!etcdstore_read_name(self, rest, &key))
        return false;
    const struct name_record *known = memory_get(&self->copy.tables, NAMES, &key);
    if (known && known->revision >= event->kv.mod_revision)
        return true;
    self->state.n_elsewhere++;
    if (!event->is_delete)
        return etcdstore_apply(self, space, &event->kv, NULL) == DIBS_OK;
    return memory_erase(&self->copy.tables, NAMES, &key, NULL) == DIBS_OK;
}

static bool change_fact(struct etcd_store *self, struct etcd_bytes rest, const struct etcd_event *event)
{
    struct fact_record key = { 0 };

    if (rest.n - 2 >= sizeof key.subject)
        return true;
    memcpy(key.subject, (const char *) rest.at + 2, rest.n - 2);
    const struct fact_record *known = memory_get(&self->copy.tables, FACTS, &key);
    if (known && known->revision >= event->kv.mod_revision)
        return true;
    self->state.n_elsewhere++;
    if (!event->is_delete)
        return etcdstore_apply(self, SPACE_CLUSTER, &event->kv, NULL) == DIBS_OK;
    return memory_erase(&self->copy.tables, FACTS, &key, NULL) == DIBS_OK;
}

/* Apply the creation or end of a node's lease. */
static bool change_lease(struct etcd_store *self, struct etcd_bytes rest, const struct etcd_event *event)
{
    size_t number = 0;

    if (event->kv.mod_revision <= self->read_at ||
        !etcdstore_find_node(self, (const char *) rest.at + 2, rest.n - 2, &number))
        return true;
    self->nodes[number].incarnation = event->is_delete ? 0 : event->kv.create_revision;
    bool is_own = etcdstore_is_own(self, (uint32_t) number);
    self->n_gone += event->is_delete && !is_own;
    if (self->lease && event->is_delete && is_own)
        etcdstore_lease_recheck(self->lease);
    return true;
}

/* Apply one change. False: the whole copy must be read again. */
static bool take_change(struct etcd_store *self, enum etcdstore_space space, const struct etcd_event *event)
{
    struct etcd_bytes rest = etcdstore_rest(self, space, &event->kv);

    if (space == SPACE_CLUSTER && event->kv.mod_revision <= self->revision)
        return true; /* the copy is newer */
    switch (*(const char *) rest.at) {
    case 'b': return change_block(self, space, rest, event);
    case 'f': return change_fact(self, rest, event);
    case 'l': return change_lease(self, rest, event);
    case 'm': return event->kv.mod_revision <= self->nodes_revision;
    case 'n': return change_name(self, space, rest, event);
    case 'p': return event->kv.mod_revision <= self->pools_revision; /* ports may have changed their scope */
    case 'w': return event->kv.mod_revision <= self->tail_revision;  /* a commit on behalf of this node */
    case 'x':
        return event->is_delete || event->kv.mod_revision <= self->read_at ||
               etcdstore_apply(self, space, &event->kv, NULL) == DIBS_OK;
    default: return true;
    }
}

static void take_changes(struct etcd_store *self, enum etcdstore_space space, const struct etcd_event *events,
                         size_t n)
{
    for (size_t i = 0; i < n && self->is_loaded; i++)
        self->is_loaded = take_change(self, space, &events[i]);
    if (!self->is_loaded) {
        note_elsewhere(self);
    }
    memory_commit(&self->copy.tables);
}

static void host_changed(void *ctx, const struct etcd_event *events, size_t n, int64_t revision)
{
    (void) revision;
    take_changes(ctx, SPACE_HOST, events, n);
}

static void cluster_changed(void *ctx, const struct etcd_event *events, size_t n, int64_t revision)
{
    struct etcd_store *self = ctx;

    take_changes(self, SPACE_CLUSTER, events, n);
    if (self->is_loaded && revision > self->revision)
        self->revision = revision;
    self->confirmed_ms = clock_monotonic_ms();
    if (self->expected_revision > 0 && revision >= self->expected_revision) {
        self->state.traffic.lag_ms = self->confirmed_ms - self->expected_ms;
        self->expected_revision = 0;
    }
}

/* ---- watching ---- */

static void cut(void *ctx, int64_t revision)
{
    struct etcd_store *self = ctx;

    (void) revision;
    self->is_loaded = false;
    self->is_cut = true;
    note_elsewhere(self);
}

static dibs_status watch_kinds(struct etcd_store *self, enum etcdstore_watch which, char from, char to,
                               int64_t revision, dibs_err *err)
{
    enum etcdstore_space space = which == WATCH_CLUSTER ? SPACE_CLUSTER : SPACE_HOST;
    struct etcdstore_key first = etcdstore_key(self, space, from);
    struct etcdstore_key last = etcdstore_key(self, space, to);
    struct etcdstore_key end = etcdstore_key_end(&last);
    struct etcd_watch_options options = { .key = etcdstore_key_bytes(&first),
                                          .end = etcdstore_key_bytes(&end),
                                          .revision = revision,
                                          .changed = space == SPACE_HOST ? host_changed : cluster_changed,
                                          .cut = cut,
                                          .ctx = self };
    struct epoll_event event = { .events = EPOLLIN };
    dibs_status s = etcd_watch_open(&self->config, &options, &self->watch[which], err);

    if (s == DIBS_OK &&
        epoll_ctl(self->state.notices, EPOLL_CTL_ADD, etcd_watch_fd(self->watch[which]), &event) != 0)
        s = err_os(err, DIBS_UNAVAILABLE, errno, "following the ledger in etcd");
    return s;
}

dibs_status etcdstore_watch(struct etcd_store *self, dibs_err *err)
{
    dibs_status s = etcdstore_load(self, err);

    if (s != DIBS_OK)
        return s;
    self->state.notices = epoll_create1(EPOLL_CLOEXEC);
    if (self->state.notices < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "following the ledger in etcd");
    /* Watch only those keys of the host that other nodes write, to skip our own commits. */
    s = watch_kinds(self, WATCH_HOST, 'w', 'x', self->revision + 1, err);
    if (s == DIBS_OK)
        s = watch_kinds(self, WATCH_CLUSTER, '\0', '\0', self->revision + 1, err);
    self->is_watched = s == DIBS_OK;
    return s;
}

void etcdstore_unwatch(struct etcd_store *self)
{
    for (size_t i = 0; i < WATCHES; i++)
        etcd_watch_close(self->watch[i]);
    if (self->state.notices >= 0)
        (void) close(self->state.notices);
}

void etcdstore_take_notices(struct etcd_store *self)
{
    struct pollfd notices = { .fd = self->state.notices, .events = POLLIN };

    if (!self->is_watched || poll(&notices, 1, 0) <= 0)
        return;
    for (size_t i = 0; i < WATCHES; i++)
        if (self->watch[i])
            etcd_watch_turn(self->watch[i]);
    uint64_t times = 0;
    if (self->lease_notice < 0 || read(self->lease_notice, &times, sizeof times) <= 0)
        return;
    note_elsewhere(self);
    struct ledger_lease now;
    etcdstore_lease_state(self, &now);
    if (now.n_ended == self->n_ended)
        return;
    self->n_ended = now.n_ended;
    self->is_loaded = false; /* a lease that is missing may mean that all records are */
}

/* Mark the copy stale if another process wrote the tail, such as a commit for several nodes. */
void etcdstore_compare_tail(struct etcd_store *self, const struct etcd_result *tail)
{
    int64_t revision = tail->n_kvs == 1 ? tail->kvs[0].mod_revision : 0;

    self->is_loaded = self->is_loaded && revision == self->tail_revision;
}

/* Wait for the notices that the copy lacks. False: they did not arrive. */
static bool catch_up(struct etcd_store *self, uint64_t n_elsewhere, int64_t revision)
{
    struct pollfd notices = { .fd = self->state.notices, .events = POLLIN };
    /* Wait as long as the last reload of the copy took. */
    int64_t until_ms = clock_monotonic_ms() + (self->load_ms > CATCH_UP_MS ? self->load_ms : CATCH_UP_MS);
    int64_t now_ms = 0;

    until_ms = until_ms < self->deadline_ms ? until_ms : self->deadline_ms;
    while (self->state.n_elsewhere == n_elsewhere && self->revision <= revision &&
           (now_ms = clock_monotonic_ms()) < until_ms) {
        (void) poll(&notices, 1, (int) (until_ms - now_ms));
        etcdstore_take_notices(self);
    }
    return self->state.n_elsewhere != n_elsewhere || self->revision > revision;
}

enum currency { IS_CURRENT, IS_BEHIND, IS_UNSURE };

/* Ask etcd whether the copy is current. Names are left out: there may be many. */
static enum currency check_currency(struct etcd_store *self)
{
    struct etcdstore_key tail = etcdstore_key(self, SPACE_HOST, 't');
    struct etcdstore_key pools = etcdstore_key(self, SPACE_CLUSTER, 'p');
    struct etcdstore_key pools_end = etcdstore_key_end(&pools);
    struct etcdstore_key blocks = etcdstore_key(self, SPACE_CLUSTER, 'b');
    struct etcdstore_key blocks_end = etcdstore_key_end(&blocks);
    const struct etcd_compare compares[] = {
        etcdstore_same(&tail, self->tail_revision),
        etcdstore_not_newer(&pools, &pools_end, self->pools_revision),
        etcdstore_not_newer(&blocks, &blocks_end, self->revision),
    };
    const struct etcd_op tail_now = etcdstore_read_op(&tail);
    const struct etcd_txn txn = { compares,  portbits_count(&self->shared) > 0 ? 3 : 2,
                                  &tail_now, 1,
                                  &tail_now, 1 };
    const struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + CONFIRM_TIMEOUT_MS };
    struct etcd_answer answer = { 0 };
    dibs_status s = etcd_do(self->etcd, &call, &op, &answer, NULL);
    bool is_current = answer.result.succeeded;

    if (s == DIBS_OK && (answer.revision < self->revision || answer.cluster != self->cluster_id))
        self->is_loaded = is_current = false; /* etcd's data was replaced */
    else if (s == DIBS_OK && !is_current)
        etcdstore_compare_tail(self, &answer.result.results[0]);
    etcd_answer_done(&answer);
    return s != DIBS_OK ? IS_UNSURE : is_current ? IS_CURRENT : IS_BEHIND;
}

/* Ask etcd whether the copy is current, if no notice came for a while: a refusal must not be stale. */
static void confirm(struct etcd_store *self)
{
    for (int i = 0; i < CONFIRMS_MAX && self->is_loaded; i++) {
        int64_t now_ms = clock_monotonic_ms();
        uint64_t n_elsewhere = self->state.n_elsewhere;
        int64_t revision = self->revision;

        if (!self->state.needs_revalidation && now_ms - self->confirmed_ms < CONFIRM_MS)
            return;
        self->state.needs_revalidation = false;
        enum currency currency = check_currency(self);
        if (currency == IS_BEHIND) {
            self->is_loaded =
                self->is_loaded && catch_up(self, n_elsewhere, revision) && i + 1 < CONFIRMS_MAX;
            self->confirmed_ms = 0;
            continue;
        }
        /* If etcd does not answer, delay the next check: it would wait as long. */
        self->confirmed_ms = clock_monotonic_ms() + (currency == IS_UNSURE ? 4 * CONFIRM_TIMEOUT_MS : 0);
        return;
    }
}

/* ---- etcd does not answer ---- */

void etcdstore_note_silence(struct etcd_store *self, const dibs_err *why)
{
    self->silent_ms = clock_monotonic_ms();
    self->silence = *why;
    self->state.was_cut = true;
}

/* Fail at once after a request has timed out: a daemon has one thread, and its clients must learn in time
 * that they may have lost their ports. Check from time to time whether etcd answers again. */
dibs_status etcdstore_fail_if_silent(struct etcd_store *self, dibs_err *err)
{
    if (!self->is_watched || self->silent_ms == 0)
        return DIBS_OK;
    if (clock_monotonic_ms() - self->silent_ms >= SILENT_MS) {
        bool is_answered = check_currency(self) != IS_UNSURE;

        self->silent_ms = is_answered ? 0 : clock_monotonic_ms();
    }
    if (self->silent_ms == 0)
        return DIBS_OK;
    if (err)
        *err = self->silence;
    return self->silence.code;
}

static dibs_status load_again(struct etcd_store *self, dibs_err *err)
{
    dibs_err local = { 0 };
    dibs_err *why = err ? err : &local;
    dibs_status s = etcdstore_fail_if_silent(self, why);

    if (s != DIBS_OK)
        return s;
    s = etcdstore_load(self, why);
    if (s == DIBS_UNAVAILABLE && clock_monotonic_ms() >= self->deadline_ms)
        etcdstore_note_silence(self, why);
    return s;
}

/* Refresh the copy of a store without a watch to etcd's newest revision. */
static dibs_status refresh(struct etcd_store *self, dibs_err *err)
{
    struct etcdstore_key key = etcdstore_key(self, SPACE_HOST, 't');
    struct etcd_call call = etcdstore_call(self);
    struct etcd_op look = etcdstore_read_op(&key);
    struct etcd_answer answer = { 0 };
    dibs_status s = self->is_loaded ? etcd_do(self->etcd, &call, &look, &answer, err) : DIBS_OK;
    bool is_current = self->is_loaded && answer.revision == self->revision;

    etcd_answer_done(&answer);
    return s != DIBS_OK || is_current ? s : etcdstore_load(self, err);
}

dibs_status etcdstore_catch_up(struct etcd_store *self, dibs_err *err)
{
    if (!self->is_watched)
        return refresh(self, err);
    etcdstore_take_notices(self);
    if (self->state.had_conflict && self->is_loaded && !catch_up(self, self->conflict_at, INT64_MAX))
        self->is_loaded = false;
    confirm(self);
    dibs_status s = DIBS_OK;

    if (!self->is_loaded) {
        s = load_again(self, err);
        self->confirmed_ms = clock_monotonic_ms();
        note_elsewhere(self);
    }
    for (size_t i = 0; i < WATCHES && s == DIBS_OK && self->is_cut; i++)
        if (self->watch[i])
            etcd_watch_from(self->watch[i], self->revision + 1);
    self->is_cut = self->is_cut && s != DIBS_OK;
    return s;
}
