/* SPDX-License-Identifier: MIT */
/* Send a commit as one Txn, and find out its result even when the answer is lost. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/etcd/txn.h"

#include "base/banned.h"

enum {
    DECIDE_MS = 2000, /* after the deadline, to find out the result of a Txn whose answer was lost */
    DECIDE_PAUSE_MS = 50,
};

/* Move the operations into nested Txns of `width` operations each. NULL: out of memory. */
static struct etcd_op *fold(struct arena **memory, const struct etcd_op *ops, size_t *n_ops, size_t width)
{
    size_t n = (*n_ops + width - 1) / width;
    struct etcd_txn *parts = ops ? arena_take(memory, n * sizeof *parts) : NULL;
    struct etcd_op *folded = parts ? arena_take(memory, n * sizeof *folded) : NULL;

    for (size_t i = 0; i < n && folded; i++) {
        size_t left = *n_ops - i * width;

        parts[i] = (struct etcd_txn){ .then = ops + i * width, .n_then = left < width ? left : width };
        folded[i] = (struct etcd_op){ .kind = ETCD_TXN, .txn = &parts[i] };
    }
    *n_ops = n;
    return folded;
}

/* Nest operations for etcd's limit: the sum over levels of the larger of conditions and operations. */
static const struct etcd_op *make_ops(struct txn_draft *draft, size_t *n)
{
    const size_t below = OPS_MAX - COMPARES_MAX;
    struct etcd_op *ops = arena_take(&draft->memory, draft->n_changes * sizeof *ops);

    *n = draft->n_changes;
    for (size_t i = 0; i < *n && ops; i++) {
        ops[i] = draft->changes[i].op;
        ops[i].value = (struct etcd_bytes){ draft->changes[i].value.at, draft->changes[i].value.n };
    }
    if (*n > COMPARES_MAX * below) /* a second time: two levels below */
        return fold(&draft->memory, fold(&draft->memory, ops, n, below / 2), n, below / 2);
    return *n > OPS_MAX ? fold(&draft->memory, ops, n, below) : ops;
}

static dibs_status send(const struct txn_part *c, struct etcd_call *call, struct etcd_answer *answer,
                        dibs_err *err)
{
    struct txn_draft *draft = c->draft;
    struct etcdstore_key tail = etcdstore_key(c->self, SPACE_HOST, 't');
    struct etcd_op tail_now = etcdstore_read_op(&tail);
    struct etcd_txn txn = {
        .compares = draft->compares, .n_compares = draft->n_compares, .otherwise = &tail_now, .n_otherwise = 1
    };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };

    txn.then = make_ops(draft, &txn.n_then);
    if (!txn.then)
        return err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    if (txn.n_then > (draft->n_changes > OPS_MAX ? COMPARES_MAX : OPS_MAX))
        return err_trouble(err, DIBS_TROUBLE_FULL, "that is more than one commit to etcd can change");
    return etcd_do(c->self->etcd, call, &op, answer, err);
}

enum outcome { NOT_DONE, IS_DONE, OUTCOME_UNKNOWN };

/* Return the nonce of the tail that decide() puts to make our Txn fail. */
static uint64_t other_nonce(const struct txn_part *c)
{
    return c->tail.nonce + 1;
}

/* Determine the result from the current tail, after our change of it failed. A tail that neither we nor
 * decide() wrote belongs to a commit on behalf of several nodes, which hides the result of ours. */
static enum outcome judge_tail(const struct txn_part *c, const struct etcd_result *found, int64_t *revision)
{
    struct node_tail tail = { 0 };

    if (found->n_kvs != 1)
        return NOT_DONE; /* the host was removed */
    if (found->kvs[0].mod_revision == c->self->tail_revision)
        return NOT_DONE; /* the Txn itself failed and answered with this tail */
    if (!unpack_tail(found->kvs[0].value, &tail))
        return OUTCOME_UNKNOWN;
    *revision = found->kvs[0].mod_revision;
    return tail.nonce == c->tail.nonce ? IS_DONE : tail.nonce == other_nonce(c) ? NOT_DONE : OUTCOME_UNKNOWN;
}

/* Find out the result of a Txn whose answer was lost: read the tail, or change it so that the Txn fails. */
static enum outcome decide(const struct txn_part *c, int64_t *revision)
{
    struct etcd_store *self = c->self;
    struct etcdstore_key key = etcdstore_key(self, SPACE_HOST, 't');
    int64_t until_ms = self->deadline_ms + DECIDE_MS;
    struct node_tail other = self->tail;
    AUTO(bytes_done) struct bytes value = { 0 };
    enum outcome outcome = OUTCOME_UNKNOWN;
    bool is_answered = false;

    other.nonce = other_nonce(c);
    pack_tail(&value, &other);
    struct etcd_compare same = etcdstore_same(&key, self->tail_revision);
    struct etcd_op put = etcdstore_put_op(&key, &value);
    struct etcd_op look = etcdstore_read_op(&key);
    struct etcd_txn txn = { &same, 1, &put, 1, &look, 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    while (!is_answered && !value.is_lost && clock_monotonic_ms() < until_ms) {
        AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
        struct etcd_call call = { .deadline_ms = until_ms, .may_repeat = true };

        is_answered = etcd_do(self->etcd, &call, &op, &answer, NULL) == DIBS_OK;
        if (!is_answered) /* a refusal (no space, for example) comes at once */
            (void) usleep(DECIDE_PAUSE_MS * 1000);
        else if (answer.result.succeeded)
            outcome = NOT_DONE;
        else
            outcome = judge_tail(c, &answer.result.results[0], revision);
    }
    return outcome;
}

static void note_success(struct txn_part *c, int64_t revision)
{
    struct etcd_store *self = c->self;
    const struct memory_tables *tables = &self->copy.tables;
    bool is_shared = false;

    self->tail_revision = revision;
    self->tail = c->tail;
    self->n_conflicts = 0;
    /* Changes of other nodes in between arrive by the watch, or must be read. */
    if (revision == self->revision + 1)
        self->revision = revision;
    else
        self->is_loaded = self->is_watched;
    for (size_t i = 0; i < (size_t) SPACES * BLOCKS; i++)
        if (c->is_touched[i / BLOCKS][i % BLOCKS]) {
            self->block_revision[i / BLOCKS][i % BLOCKS] = revision;
            is_shared = is_shared || i / BLOCKS == SPACE_CLUSTER;
        }
    if (self->is_noting_lost)
        self->n_lost = 0;
    if (self->is_watched && is_shared) {
        etcd_watch_expect(self->watch[WATCH_CLUSTER], revision);
        if (self->expected_revision == 0) {
            self->expected_revision = revision;
            self->expected_ms = clock_monotonic_ms();
        }
    }
    for (size_t i = 0; i < tables->n_journal; i++) {
        const struct memory_change *change = &tables->journal[i];

        struct name_record *name = change->table == NAMES ? change->after : NULL;
        struct fact_record *fact = change->table == FACTS ? change->after : NULL;

        if (fact)
            fact->revision = revision;
        if (name) {
            name->revision = revision;
            name->space = (int) etcdstore_space(self, name->port);
        }
        if (change->table == POOLS) { /* ports may have changed their scope */
            self->is_loaded = false;
            self->pools_revision = revision;
        }
    }
}

dibs_status etcdstore_conflict(struct etcd_store *self, dibs_err *err)
{
    self->state.had_conflict = true;
    self->n_conflicts++;
    self->state.traffic.n_conflicts++;
    self->conflict_at = self->state.n_elsewhere;
    self->is_loaded = self->is_watched;
    return err_trouble(err, DIBS_TROUBLE_LOCKED, "other nodes keep changing the ledger in etcd; try again");
}

static void count(struct ledger_traffic *traffic, const struct etcd_call *call, int64_t took_us)
{
    traffic->n_commits++;
    traffic->n_retries += call->n_tries > 1 ? call->n_tries - 1 : 0;
    traffic->total_us += took_us;
    for (size_t i = 0; i < LEDGER_TXN_BUCKETS; i++)
        traffic->n_within[i] += took_us <= LEDGER_TXN_US_MAX(i);
}

/* Send the Txn of all stores; the tail of the first one shows the result for all. */
static dibs_status send_and_learn(struct txn_part *all, size_t n, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct txn_part *c = &all[0];
    struct etcd_call call = etcdstore_call(c->self);
    int64_t began_us = clock_monotonic_us();
    dibs_status s = send(c, &call, &answer, err);
    int64_t revision = answer.revision;
    bool is_conflict = s == DIBS_OK && !answer.result.succeeded;
    /* The conflict may be the answer to an earlier commit, delivered twice. */
    bool is_uncertain = s == DIBS_OK ? is_conflict && !call.is_news : call.fate != ETCD_NOT_DONE;
    enum outcome outcome = s != DIBS_OK || is_conflict ? NOT_DONE : IS_DONE;

    count(&c->self->state.traffic, &call, clock_monotonic_us() - began_us);
    if (is_uncertain)
        outcome = decide(c, &revision);
    /* A Txn that certainly failed is retried like one with a conflict. */
    bool has_time = clock_monotonic_ms() < c->self->deadline_ms;
    bool is_again = outcome == NOT_DONE && (is_conflict || (is_uncertain && has_time));

    if (is_conflict && outcome == OUTCOME_UNKNOWN)
        s = err_set(err, DIBS_UNAVAILABLE, "etcd: it sent an answer twice");
    for (size_t i = 0; i < n; i++) {
        if (outcome == IS_DONE)
            note_success(&all[i], revision);
        else if (is_again)
            (void) etcdstore_conflict(all[i].self, err);
        else if (outcome == OUTCOME_UNKNOWN || call.fault == ETCD_FAULT_UNREACHABLE)
            etcdstore_note_silence(all[i].self, err);
        /* If decide() changed the tail, the copy is stale. Otherwise it is valid and can be read. */
        if (outcome != IS_DONE && is_uncertain)
            all[i].self->is_loaded = false;
    }
    if (is_conflict)
        etcdstore_compare_tail(c->self, &answer.result.results[0]);
    if (outcome == IS_DONE)
        return DIBS_OK;
    if (is_again)
        return DIBS_UNAVAILABLE; /* err already has the reason */
    if (outcome == OUTCOME_UNKNOWN)
        return err_wrap(err, s, "the request may have been done nevertheless");
    return s;
}

dibs_status etcdstore_commit(struct store *const *all, size_t n, dibs_err *err)
{
    AUTO(free_auto) struct txn_part *c = calloc(n, sizeof *c);
    AUTO(txn_draft_done) struct txn_draft draft = { 0 };
    dibs_err local = { 0 };
    dibs_status s = DIBS_OK;

    if (!c)
        return err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    for (size_t i = 0; i < n && s == DIBS_OK; i++)
        s = txn_compose(&c[i], &draft, etcdstore_of(all[i]), err);
    return s == DIBS_OK ? send_and_learn(c, n, err ? err : &local) : s;
}
