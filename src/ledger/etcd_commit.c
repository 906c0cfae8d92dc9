/* SPDX-License-Identifier: MIT */
/* One commit is one Txn, and what became of it is known. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ledger/etcd_compose.h"

#include "base/banned.h"

enum {
    DECIDE_MS = 2000, /* beyond the deadline, to learn what became of a Txn whose answer was lost */
    DECIDE_PAUSE_MS = 50,
    LOOK_BACK_MAX = 64, /* commits of other processes of this host meanwhile */
};

/* The same operations in parts of `width` each, which have no conditions. False: no memory. */
static bool fold(struct composing *c, size_t width)
{
    size_t n = (c->n_ops + width - 1) / width;
    struct level *level = calloc(1, sizeof *level + n * sizeof level->parts[0]);
    struct etcd_op *ops = calloc(n, sizeof *ops);

    if (!level || !ops) {
        free(level);
        free(ops);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = i * width;
        size_t left = c->n_ops - at;

        level->parts[i] = (struct etcd_txn){ .then = c->ops + at, .n_then = left < width ? left : width };
        ops[i] = (struct etcd_op){ .kind = ETCD_TXN, .txn = &level->parts[i] };
    }
    level->below = c->levels;
    level->ops = c->ops;
    c->levels = level;
    c->ops = ops;
    c->n_ops = n;
    return true;
}

/* Etcd counts what is allowed over all levels together, conditions and operations of one level once. */
static dibs_status send(struct composing *c, struct etcd_call *call, struct etcd_answer *answer,
                        dibs_err *err)
{
    const size_t below = OPS_MAX - COMPARES_MAX;
    size_t most = c->n_ops > OPS_MAX ? COMPARES_MAX : OPS_MAX;
    bool has_memory = true;

    if (c->n_ops > COMPARES_MAX * below) {
        has_memory = fold(c, below / 2); /* twice: two levels below */
        has_memory = has_memory && fold(c, below / 2);
    } else if (c->n_ops > OPS_MAX) {
        has_memory = fold(c, below);
    }
    if (!has_memory)
        return err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    if (c->n_ops > most)
        return err_trouble(err, DIBS_TROUBLE_FULL, "that is more than one commit to etcd can change");
    struct store_key tail = store_key(c->self, SPACE_HOST, 't');
    struct store_key wake = store_key(c->self, SPACE_HOST, 'w');
    struct etcd_op looks[] = { { .kind = ETCD_RANGE, .key = store_key_bytes(&tail) },
                               { .kind = ETCD_RANGE, .key = store_key_bytes(&wake) } };
    struct etcd_txn txn = { c->compares, c->n_compares, c->ops, c->n_ops, looks, 2 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    return etcd_do(c->self->etcd, call, &op, answer, err);
}

enum outcome { NOT_DONE, IS_DONE, NOBODY_KNOWS };

/* What is put instead of our Txn's tail, when that is lost. */
static uint64_t other_nonce(const struct composing *c)
{
    return c->tail.nonce + 1;
}

/* A version of the tail that is not the one our Txn was built on. Whose is it? */
static enum outcome judge_tail(const struct composing *c, const struct etcd_kv *kv, bool *is_last)
{
    struct node_tail tail = { 0 };

    *is_last = true;
    if (!unpack_tail((struct packed){ kv->value.at, kv->value.n }, &tail))
        return NOBODY_KNOWS;
    *is_last = tail.nonce == c->tail.nonce || tail.nonce == other_nonce(c);
    return tail.nonce == c->tail.nonce ? IS_DONE : NOT_DONE;
}

/* Others of this host have committed since. Ours came first, if it came at all: it compares the version that
 * we know. So that version's successor is looked for. */
static enum outcome look_back(const struct composing *c, struct etcd_call *call, int64_t *revision)
{
    struct etcd_rows *self = c->self;
    struct store_key key = store_key(self, SPACE_HOST, 't');
    enum outcome outcome = NOT_DONE;
    bool is_last = false;

    for (int i = 0; i < LOOK_BACK_MAX; i++) {
        AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
        struct etcd_op look = { .kind = ETCD_RANGE, .key = store_key_bytes(&key), .revision = *revision - 1 };

        if (*revision <= 1 || etcd_do(self->etcd, call, &look, &answer, NULL) != DIBS_OK)
            return NOBODY_KNOWS; /* compacted, as a rule */
        const struct etcd_kv *kv = answer.result.n_kvs == 1 ? &answer.result.kvs[0] : NULL;
        if (!kv || kv->mod_revision <= self->tail_revision)
            return outcome;
        *revision = kv->mod_revision;
        outcome = judge_tail(c, kv, &is_last);
        if (is_last)
            return outcome;
    }
    return NOBODY_KNOWS;
}

/* The tail as it is now, after it was ours to change and was not the one that we know. */
static enum outcome judge_found(const struct composing *c, const struct etcd_result *found,
                                struct etcd_call *call, int64_t *revision)
{
    if (found->n_kvs != 1)
        return NOT_DONE; /* the host was removed */
    if (found->kvs[0].mod_revision == c->self->tail_revision)
        return NOT_DONE; /* the answer of the Txn itself: it had come to nothing */
    bool is_last = false;
    enum outcome outcome = judge_tail(c, &found->kvs[0], &is_last);

    *revision = found->kvs[0].mod_revision;
    return is_last ? outcome : look_back(c, call, revision);
}

static void rest(void)
{
    (void) nanosleep(&(struct timespec){ .tv_nsec = DECIDE_PAUSE_MS * 1000000L }, NULL);
}

/* The answer was lost. Either the tail is ours now, or was; or we change it, so that the Txn fails if it is
 * still on its way. */
static enum outcome decide(const struct composing *c, int64_t *revision)
{
    struct etcd_rows *self = c->self;
    struct store_key key = store_key(self, SPACE_HOST, 't');
    int64_t until_ms = self->deadline_ms + DECIDE_MS;
    struct node_tail other = self->tail;
    AUTO(bytes_done) struct bytes value = { 0 };
    enum outcome outcome = NOBODY_KNOWS;
    bool is_answered = false;

    other.nonce = other_nonce(c);
    pack_tail(&value, &other);
    struct etcd_compare same = { .target = ETCD_MOD_REVISION,
                                 .key = store_key_bytes(&key),
                                 .number = self->tail_revision };
    struct etcd_op put = { .kind = ETCD_PUT, .key = store_key_bytes(&key), .value = { value.at, value.n } };
    struct etcd_op look = { .kind = ETCD_RANGE, .key = store_key_bytes(&key) };
    struct etcd_txn txn = { &same, 1, &put, 1, &look, 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    while (!is_answered && !value.is_lost && clock_monotonic_ms() < until_ms) {
        AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
        struct etcd_call call = { .deadline_ms = until_ms, .may_repeat = true };

        is_answered = etcd_do(self->etcd, &call, &op, &answer, NULL) == DIBS_OK;
        if (!is_answered)
            rest(); /* a refusal (no space, say) comes at once */
        else if (answer.result.succeeded)
            outcome = NOT_DONE;
        else
            outcome = judge_found(c, &answer.result.results[0], &call, revision);
    }
    return outcome;
}

static bool is_shared_touched(const struct composing *c)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (c->is_touched[SPACE_CLUSTER][i])
            return true;
    return false;
}

static void note_success(struct composing *c, int64_t revision)
{
    struct etcd_rows *self = c->self;
    const struct memory_tables *tables = &self->near.tables;

    self->tail_revision = revision;
    self->tail = c->tail;
    self->n_beaten = 0;
    /* What others have changed in between is told by a watch, or has to be read. */
    if (revision == self->revision + 1)
        self->revision = revision;
    else
        self->is_loaded = self->is_watched;
    for (size_t i = 0; i < (size_t) SPACES * BLOCKS; i++)
        if (c->is_touched[i / BLOCKS][i % BLOCKS])
            self->block_revision[i / BLOCKS][i % BLOCKS] = revision;
    if (self->is_mourning)
        self->n_lost = 0;
    if (self->is_watched && is_shared_touched(c)) {
        etcd_watch_know(self->watch[WATCH_CLUSTER], revision);
        if (self->expected_revision == 0) {
            self->expected_revision = revision;
            self->expected_ms = clock_monotonic_ms();
        }
    }
    if (self->watch[WATCH_TWIN])
        etcd_watch_know(self->watch[WATCH_TWIN], revision);
    for (size_t i = 0; i < tables->n_journal; i++) {
        const struct memory_change *change = &tables->journal[i];

        struct name_record *name = change->table == NAMES ? change->after : NULL;

        if (name) {
            name->revision = revision;
            name->space = (int) store_space(self, name->row.port);
        }
        if (change->table == POOLS) { /* ports may be another's now */
            self->is_loaded = false;
            self->pools_revision = revision;
        }
    }
}

dibs_status store_beaten(struct etcd_rows *self, dibs_err *err)
{
    self->was_beaten = true;
    self->n_beaten++;
    self->traffic.n_beaten++;
    self->beaten_at = self->n_told;
    self->is_loaded = self->is_watched;
    return err_trouble(err, DIBS_TROUBLE_LOCKED, "others change the ledger in etcd all the time; try again");
}

static void count(struct ledger_traffic *traffic, const struct etcd_call *call, int64_t took_us)
{
    traffic->n_commits++;
    traffic->n_retries += call->n_tries > 1 ? call->n_tries - 1 : 0;
    traffic->total_us += took_us;
    for (size_t i = 0; i < LEDGER_TXN_BUCKETS; i++)
        traffic->n_within[i] += took_us <= LEDGER_TXN_US_MAX(i);
}

/* Several composed ones as one: the first has all of it, the others stay what it points to. */
static void join(struct composing *to, const struct composing *from)
{
    struct etcd_op *ops = reallocarray(to->ops, to->n_ops + from->n_ops, sizeof *ops);
    struct etcd_compare *compares =
        ops ? reallocarray(to->compares, to->n_compares + from->n_compares, sizeof *compares) : NULL;

    if (ops)
        to->ops = ops;
    if (compares)
        to->compares = compares;
    to->is_lost = to->is_lost || !compares;
    if (to->is_lost)
        return;
    memcpy(to->ops + to->n_ops, from->ops, from->n_ops * sizeof *ops);
    memcpy(to->compares + to->n_compares, from->compares, from->n_compares * sizeof *compares);
    to->n_ops = to->ops_cap = to->n_ops + from->n_ops;
    to->n_compares = to->compares_cap = to->n_compares + from->n_compares;
}

static void note_beaten(struct etcd_rows *self, bool is_doubtful, dibs_err *err)
{
    (void) store_beaten(self, err);
    if (is_doubtful) /* the tail was changed to decide it */
        self->is_loaded = false;
}

/* Without doubt all is as it was, and can be read while nothing can be changed. */
static void note_failure(struct etcd_rows *self, bool is_doubtful, bool is_cut, const dibs_err *why)
{
    self->is_loaded = self->is_loaded && !is_doubtful;
    self->was_cut = is_cut;
    if (is_cut)
        store_note_silence(self, why);
}

/* What is known of the first holds for all. */
static dibs_status send_and_learn(struct composing *all, size_t n, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct composing *c = &all[0];
    struct etcd_call call = store_call(c->self);
    int64_t began_us = clock_monotonic_us();
    dibs_status s = send(c, &call, &answer, err);
    int64_t revision = answer.revision;
    bool is_beaten = s == DIBS_OK && !answer.result.succeeded;
    /* That it was beaten may be the answer of another commit, which came a second time. */
    bool is_doubtful = s == DIBS_OK ? is_beaten && !call.is_news : call.fate != ETCD_NOT_DONE;
    enum outcome outcome = s != DIBS_OK || is_beaten ? NOT_DONE : IS_DONE;

    count(&c->self->traffic, &call, clock_monotonic_us() - began_us);
    if (is_beaten)
        store_note_twin(c->self, &answer.result.results[0], &answer.result.results[1]);
    if (is_doubtful)
        outcome = decide(c, &revision);
    /* A Txn that was lost for certain is as good as one that was beaten. */
    bool is_again =
        outcome == NOT_DONE && (is_beaten || (is_doubtful && clock_monotonic_ms() < c->self->deadline_ms));

    if (is_beaten && outcome == NOBODY_KNOWS)
        s = err_set(err, DIBS_UNAVAILABLE, "etcd: its answers came twice");
    for (size_t i = 0; i < n; i++) {
        if (outcome == IS_DONE)
            note_success(&all[i], revision);
        else if (is_again)
            note_beaten(all[i].self, is_doubtful, err);
        else
            note_failure(all[i].self, is_doubtful,
                         outcome == NOBODY_KNOWS || call.fault == ETCD_FAULT_UNREACHABLE, err);
    }
    if (outcome == IS_DONE)
        return DIBS_OK;
    if (is_again)
        return DIBS_UNAVAILABLE; /* and why was said */
    if (outcome == NOBODY_KNOWS)
        return err_wrap(err, s, "what was asked may have been done all the same");
    return s;
}

dibs_status store_commit(struct etcd_rows *const *all, size_t n, dibs_err *err)
{
    struct composing *c = calloc(n, sizeof *c);
    dibs_err local = { 0 };
    dibs_status s = DIBS_OK;

    if (!c)
        return err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        s = compose(&c[i], all[i], err);
        if (s == DIBS_OK && i > 0)
            join(&c[0], &c[i]);
    }
    if (s == DIBS_OK && c[0].is_lost)
        s = err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    if (s == DIBS_OK)
        s = send_and_learn(c, n, err ? err : &local);
    for (size_t i = 0; i < n; i++)
        composing_done(&c[i]);
    free(c);
    return s;
}
