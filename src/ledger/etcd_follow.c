/* SPDX-License-Identifier: MIT */
/* The near copy of what is in etcd goes on with what others change there. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

enum {
    CATCH_UP_MS = 100, /* what beat us is told by then, as a rule; else everything is read anew */
    CONFIRM_MS = 200,  /* a copy of which nothing was heard for so long may be behind: a member can hang */
    CONFIRM_MOST_MS = 500, /* to ask; who is not answered goes on with what it has */
    CONFIRMS_MAX = 3,
    SILENT_MS = 1000,  /* after somebody waited in vain nobody else does */
    GIVE_WAY_FROM = 2, /* times beaten; then up to a quarter of a millisecond, doubled up to 32 */
    GIVE_WAY_NS = 250000,
    GIVE_WAY_DOUBLINGS = 7,
    GIVE_WAY_READING = 8, /* ... up to 64 for who reads all anew: its attempts take longer */
};

/* ---- one change ---- */

/* Claims of the block, and what is left of those that have ended. */
static dibs_status clear_block(struct etcd_rows *self, enum store_space space, uint16_t block)
{
    struct memory_tables *tables = &self->near.tables;
    struct memory_table *t = &tables->table[SLOTS];
    dibs_status s = DIBS_OK;

    self->n_seen = 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++) {
        struct ledger_slot first = { .proto = proto, .port = (uint16_t) (block * BLOCK_PORTS) };
        size_t i = memory_find(tables, SLOTS, &first, NULL);

        while (i < t->n && s == DIBS_OK) {
            struct ledger_slot slot = *(const struct ledger_slot *) t->item[i];
            struct row_claim claim = { .claim.id = slot.claim_id };

            if (slot.proto != proto || slot.port / BLOCK_PORTS != block)
                break;
            if (store_space(self, slot.port) != space) {
                i++;
                continue;
            }
            store_cooling_out(self, &slot);
            s = slot.claim_id ? memory_erase(tables, CLAIMS, &claim, NULL) : DIBS_OK;
            if (s == DIBS_OK)
                s = memory_erase(tables, SLOTS, &slot, NULL);
        }
    }
    return s;
}

/* Of others, and what it was about cannot be told. */
static void note_elsewhere(struct etcd_rows *self)
{
    self->n_elsewhere++;
    self->is_all_changed = true;
}

static bool change_block(struct etcd_rows *self, enum store_space space, const struct etcd_event *event)
{
    uint16_t block = 0;

    if (!store_read_block(self, space, &event->kv, &block))
        return false;
    if (event->kv.mod_revision <= self->block_revision[space][block])
        return true; /* our own, or read already */
    self->n_told++;
    self->n_elsewhere++;
    self->changed.word[block] = UINT64_MAX; /* a block is a word of the set */
    self->block_revision[space][block] = event->kv.mod_revision;
    return clear_block(self, space, block) == DIBS_OK &&
           (event->is_delete || store_apply(self, space, &event->kv, NULL) == DIBS_OK);
}

static bool change_name(struct etcd_rows *self, enum store_space space, const struct etcd_event *event)
{
    struct name_record key = { 0 };

    if (!store_read_name(self, space, &event->kv, &key))
        return false;
    const struct name_record *known = memory_get(&self->near.tables, NAMES, &key);
    if (known && known->revision >= event->kv.mod_revision)
        return true;
    self->n_told++;
    if (!event->is_delete)
        return store_apply(self, space, &event->kv, NULL) == DIBS_OK;
    return memory_erase(&self->near.tables, NAMES, &key, NULL) == DIBS_OK;
}

/* It came, or has ended. */
static bool change_lease(struct etcd_rows *self, const struct etcd_event *event)
{
    size_t head = store_lease_key(self, "").n;
    size_t number = 0;

    if (event->kv.mod_revision <= self->read_at || event->kv.key.n < head ||
        !store_find_node(self, (const char *) event->kv.key.at + head, event->kv.key.n - head, &number))
        return true;
    self->nodes[number].incarnation = event->is_delete ? 0 : event->kv.create_revision;
    bool is_own = store_is_own(self, (uint32_t) number);
    self->n_gone += event->is_delete && !is_own;
    if (self->lease && event->is_delete && is_own)
        store_lease_doubt(self->lease);
    return true;
}

/* How far another process of this host has come: the numbers of what we do next follow its own. What it told
 * of itself is not near. */
static bool change_tail(struct etcd_rows *self, const struct etcd_event *event)
{
    if (event->kv.mod_revision <= self->tail_revision)
        return true;
    self->n_told++;
    store_forget_events(self, 0);
    return !event->is_delete && store_apply(self, SPACE_HOST, &event->kv, NULL) == DIBS_OK;
}

/* Answers that go are forgotten by their age, here as there; sightings are few. */
static bool change_note(struct etcd_rows *self, const struct etcd_event *event, bool is_answer)
{
    if (event->kv.mod_revision <= self->tail_revision)
        return true;
    return event->is_delete ? is_answer : store_apply(self, SPACE_HOST, &event->kv, NULL) == DIBS_OK;
}

/* False: all is to be read anew. */
static bool take_change(struct etcd_rows *self, enum store_space space, const struct etcd_event *event)
{
    if (space == SPACE_CLUSTER && event->kv.mod_revision <= self->revision)
        return true; /* the copy was read after that */
    switch (store_kind(self, space, &event->kv)) {
    case 'b': return change_block(self, space, event);
    case 'k': return change_note(self, event, true);
    case 'l': return change_lease(self, event);
    case 'm': return event->kv.mod_revision <= self->nodes_revision;
    case 'n': return change_name(self, space, event);
    case 'p': return event->kv.mod_revision <= self->pools_revision; /* ports may be another's now */
    case 's': return change_note(self, event, false);
    case 't': return change_tail(self, event);
    case 'w': return event->kv.mod_revision <= self->tail_revision; /* somebody else of this host */
    case 'x':
        return event->is_delete || event->kv.mod_revision <= self->read_at ||
               store_apply(self, space, &event->kv, NULL) == DIBS_OK;
    default: return true;
    }
}

static void take_changes(struct etcd_rows *self, enum store_space space, const struct etcd_event *events,
                         size_t n)
{
    for (size_t i = 0; i < n && self->is_loaded; i++)
        self->is_loaded = take_change(self, space, &events[i]);
    if (!self->is_loaded) {
        note_elsewhere(self);
        self->n_told++;
    }
    memory_commit(&self->near.tables);
}

static void host_changed(void *ctx, const struct etcd_event *events, size_t n, int64_t revision)
{
    (void) revision;
    take_changes(ctx, SPACE_HOST, events, n);
}

static void cluster_changed(void *ctx, const struct etcd_event *events, size_t n, int64_t revision)
{
    struct etcd_rows *self = ctx;

    take_changes(self, SPACE_CLUSTER, events, n);
    if (self->is_loaded && revision > self->revision)
        self->revision = revision;
    self->confirmed_ms = clock_monotonic_ms();
    if (self->expected_revision > 0 && revision >= self->expected_revision) {
        self->traffic.lag_ms = self->confirmed_ms - self->expected_ms;
        self->expected_revision = 0;
    }
}

/* ---- watching ---- */

static void compacted(void *ctx, int64_t revision)
{
    struct etcd_rows *self = ctx;

    (void) revision;
    self->is_loaded = false;
    self->is_cut = true;
    note_elsewhere(self);
}

static dibs_status watch_kinds(struct etcd_rows *self, enum store_watch which, char from, char to,
                               int64_t revision, dibs_err *err)
{
    enum store_space space = which == WATCH_CLUSTER ? SPACE_CLUSTER : SPACE_HOST;
    struct store_key first = store_key(self, space, from);
    struct store_key last = store_key(self, space, to);
    struct store_key end = store_key_end(&last);
    struct etcd_watch_options options = { .key = store_key_bytes(&first),
                                          .end = store_key_bytes(&end),
                                          .revision = revision,
                                          .changed = space == SPACE_HOST ? host_changed : cluster_changed,
                                          .compacted = compacted,
                                          .ctx = self };
    struct epoll_event event = { .events = EPOLLIN };
    dibs_status s = etcd_watch_open(&self->config, &options, &self->watch[which], err);

    if (s == DIBS_OK &&
        epoll_ctl(self->notices, EPOLL_CTL_ADD, etcd_watch_fd(self->watch[which]), &event) != 0)
        s = err_os(err, DIBS_UNAVAILABLE, errno, "following the ledger in etcd");
    return s;
}

dibs_status store_watch(struct etcd_rows *self, dibs_err *err)
{
    dibs_status s = store_load(self, err);

    if (s != DIBS_OK)
        return s;
    self->notices = epoll_create1(EPOLL_CLOEXEC);
    if (self->notices < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "following the ledger in etcd");
    /* Of the host only what others tell it: all that we write there would come back to us. */
    s = watch_kinds(self, WATCH_HOST, 'w', 'x', self->revision + 1, err);
    if (s == DIBS_OK)
        s = watch_kinds(self, WATCH_CLUSTER, '\0', '\0', self->revision + 1, err);
    self->is_watched = s == DIBS_OK;
    return s;
}

void store_unwatch(struct etcd_rows *self)
{
    for (size_t i = 0; i < WATCHES; i++)
        etcd_watch_close(self->watch[i]);
    if (self->notices >= 0)
        (void) close(self->notices);
}

void store_heed(struct etcd_rows *self)
{
    struct pollfd notices = { .fd = self->notices, .events = POLLIN };

    if (!self->is_watched || poll(&notices, 1, 0) <= 0)
        return;
    for (size_t i = 0; i < WATCHES; i++)
        if (self->watch[i])
            etcd_watch_turn(self->watch[i]);
    uint64_t times = 0;
    if (self->lease_notice >= 0 && read(self->lease_notice, &times, sizeof times) > 0)
        note_elsewhere(self);
}

/* Who does not follow has put the key that wakes us, and then all is read anew. */
void store_note_twin(struct etcd_rows *self, const struct etcd_result *tail, const struct etcd_result *wake)
{
    if (!self->is_watched || tail->n_kvs != 1 || tail->kvs[0].mod_revision <= self->tail_revision)
        return;
    self->twin_revision = tail->kvs[0].mod_revision;
    bool is_told = wake->n_kvs == 1 && wake->kvs[0].mod_revision >= self->twin_revision;
    /* The copy has all of the host's up to the tail that it knows: nothing has to be read. */
    if (!is_told && !self->watch[WATCH_TWIN])
        (void) watch_kinds(self, WATCH_TWIN, 'b', 't', self->tail_revision + 1, NULL);
}

/* Is known what others of this host have done? */
static bool is_twin_told(const struct etcd_rows *self)
{
    return self->tail_revision >= self->twin_revision;
}

/* Somebody was first, or we are behind: what there is is told soon. False: it was not. */
static bool catch_up(struct etcd_rows *self, uint64_t n_told, int64_t revision)
{
    struct pollfd notices = { .fd = self->notices, .events = POLLIN };
    /* To read everything costs as much as it did the last time: for so long it pays to wait. */
    int64_t until_ms = clock_monotonic_ms() + (self->load_ms > CATCH_UP_MS ? self->load_ms : CATCH_UP_MS);
    int64_t now_ms = 0;

    until_ms = until_ms < self->deadline_ms ? until_ms : self->deadline_ms;
    if (!is_twin_told(self) && !self->watch[WATCH_TWIN])
        return false; /* nobody will tell it */
    while (((self->n_told == n_told && self->revision <= revision) || !is_twin_told(self)) &&
           (now_ms = clock_monotonic_ms()) < until_ms) {
        (void) poll(&notices, 1, (int) (until_ms - now_ms));
        store_heed(self);
    }
    return (self->n_told != n_told || self->revision > revision) && is_twin_told(self);
}

void store_give_way(const struct etcd_rows *self)
{
    unsigned most = self->is_watched ? GIVE_WAY_DOUBLINGS : GIVE_WAY_READING;
    unsigned doublings = self->n_beaten < most ? self->n_beaten : most;
    uint32_t any = 0;

    if (self->n_beaten < GIVE_WAY_FROM || getrandom(&any, sizeof any, GRND_NONBLOCK) != (ssize_t) sizeof any)
        return;
    (void) nanosleep(&(struct timespec){ .tv_nsec = (long) (any % ((uint32_t) GIVE_WAY_NS << doublings)) },
                     NULL);
}

enum currency { IS_CURRENT, IS_BEHIND, IS_UNSURE };

/* Has nothing changed that the copy should have? Names are left out: there may be many. */
static enum currency look_whether_current(struct etcd_rows *self)
{
    struct store_key tail = store_key(self, SPACE_HOST, 't');
    struct store_key pools = store_key(self, SPACE_CLUSTER, 'p');
    struct store_key pools_end = store_key_end(&pools);
    struct store_key blocks = store_key(self, SPACE_CLUSTER, 'b');
    struct store_key blocks_end = store_key_end(&blocks);
    const struct etcd_compare compares[] = {
        { .target = ETCD_MOD_REVISION, .key = store_key_bytes(&tail), .number = self->tail_revision },
        { .target = ETCD_MOD_REVISION,
          .relation = ETCD_LESS,
          .key = store_key_bytes(&pools),
          .end = store_key_bytes(&pools_end),
          .number = self->pools_revision + 1 },
        { .target = ETCD_MOD_REVISION,
          .relation = ETCD_LESS,
          .key = store_key_bytes(&blocks),
          .end = store_key_bytes(&blocks_end),
          .number = self->revision + 1 },
    };
    const struct etcd_op look = { .kind = ETCD_RANGE, .key = store_key_bytes(&tail), .is_count_only = true };
    struct store_key wake = store_key(self, SPACE_HOST, 'w');
    const struct etcd_op looks[] = { { .kind = ETCD_RANGE, .key = store_key_bytes(&tail) },
                                     { .kind = ETCD_RANGE, .key = store_key_bytes(&wake) } };
    const struct etcd_txn txn = { compares, portbits_count(&self->shared) > 0 ? 3 : 2, &look, 1, looks, 2 };
    const struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + CONFIRM_MOST_MS };
    struct etcd_answer answer = { 0 };
    dibs_status s = etcd_do(self->etcd, &call, &op, &answer, NULL);
    bool is_current = answer.result.succeeded;

    if (s == DIBS_OK && !is_current)
        store_note_twin(self, &answer.result.results[0], &answer.result.results[1]);
    etcd_answer_done(&answer);
    return s != DIBS_OK ? IS_UNSURE : is_current ? IS_CURRENT : IS_BEHIND;
}

/* What a copy refuses must be true: one that has not heard anything for a while asks. */
static void confirm(struct etcd_rows *self)
{
    for (int i = 0; i < CONFIRMS_MAX && self->is_loaded; i++) {
        int64_t now_ms = clock_monotonic_ms();
        uint64_t n_told = self->n_told;
        int64_t revision = self->revision;

        if (!self->is_doubted && now_ms - self->confirmed_ms < CONFIRM_MS)
            return;
        self->is_doubted = false;
        enum currency currency = look_whether_current(self);
        if (currency == IS_BEHIND) {
            self->is_loaded = catch_up(self, n_told, revision) && i + 1 < CONFIRMS_MAX;
            self->confirmed_ms = 0;
            continue;
        }
        /* Where nobody answers the next to ask would wait as long. */
        self->confirmed_ms = clock_monotonic_ms() + (currency == IS_UNSURE ? 4 * CONFIRM_MOST_MS : 0);
        return;
    }
}

/* ---- silence ---- */

void store_note_silence(struct etcd_rows *self, const dibs_err *why)
{
    self->silent_ms = clock_monotonic_ms();
    self->silence = *why;
}

/* A daemon has one thread, and its clients want to know in time that they may have lost their ports: after
 * one of them has waited for the whole of the deadline the next ones are told at once, and now and then a
 * short look shows whether somebody answers again. */
dibs_status store_listen(struct etcd_rows *self, dibs_err *err)
{
    if (!self->is_watched || self->silent_ms == 0)
        return DIBS_OK;
    if (clock_monotonic_ms() - self->silent_ms >= SILENT_MS) {
        bool is_answered = look_whether_current(self) != IS_UNSURE;

        self->silent_ms = is_answered ? 0 : clock_monotonic_ms();
    }
    if (self->silent_ms == 0)
        return DIBS_OK;
    if (err)
        *err = self->silence;
    return self->silence.code;
}

static dibs_status load_again(struct etcd_rows *self, dibs_err *err)
{
    dibs_err local = { 0 };
    dibs_err *why = err ? err : &local;
    dibs_status s = store_listen(self, why);

    if (s != DIBS_OK)
        return s;
    s = store_load(self, why);
    if (s == DIBS_UNAVAILABLE && clock_monotonic_ms() >= self->deadline_ms)
        store_note_silence(self, why);
    return s;
}

dibs_status store_catch_up(struct etcd_rows *self, dibs_err *err)
{
    if (self->was_beaten)
        store_give_way(self);
    store_heed(self);
    if (self->was_beaten && !catch_up(self, self->beaten_at, INT64_MAX))
        self->is_loaded = false;
    confirm(self);
    if (self->is_loaded)
        return DIBS_OK;
    dibs_status s = load_again(self, err);

    self->confirmed_ms = clock_monotonic_ms();
    note_elsewhere(self);
    for (size_t i = 0; i < WATCHES && s == DIBS_OK && self->is_cut; i++)
        if (self->watch[i])
            etcd_watch_from(self->watch[i], self->revision + 1);
    self->is_cut = self->is_cut && s != DIBS_OK;
    return s;
}
