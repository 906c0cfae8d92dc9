/* SPDX-License-Identifier: MIT */
/* One commit is one Txn, and what became of it is known. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ledger/etcd_compose.h"

#include "base/banned.h"

enum {
    OPS_MAX = 120,    /* of one Txn over all its levels; etcd's default limit is 128 */
    DECIDE_MS = 2000, /* beyond the deadline, to learn what became of a Txn whose answer was lost */
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

/* Etcd counts what is allowed over all levels together. */
static dibs_status send(struct composing *c, struct etcd_call *call, struct etcd_answer *answer,
                        dibs_err *err)
{
    size_t n_levels = c->n_ops <= OPS_MAX ? 1 : c->n_ops <= (OPS_MAX / 2) * (OPS_MAX / 2) ? 2 : 3;
    size_t width = OPS_MAX / n_levels;
    bool has_memory = true;

    while (c->n_ops > width && has_memory && --n_levels > 0)
        has_memory = fold(c, width);
    if (!has_memory)
        return err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    if (c->n_ops > width)
        return err_trouble(err, DIBS_TROUBLE_FULL, "that is more than one commit to etcd can change");
    struct etcd_txn txn = {
        .compares = c->compares, .n_compares = c->n_compares, .then = c->ops, .n_then = c->n_ops
    };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    return etcd_do(c->self->etcd, call, &op, answer, err);
}

enum outcome { NOT_DONE, IS_DONE, NOBODY_KNOWS };

/* The answer was lost. Either the tail is ours now, or we change it, so that the Txn fails if it is still on
 * its way. */
static enum outcome decide(const struct composing *c, int64_t *revision)
{
    struct etcd_rows *self = c->self;
    struct store_key key = store_key(self, SPACE_HOST, 't');
    int64_t until_ms = self->deadline_ms + DECIDE_MS;
    struct node_tail other = self->tail;
    struct bytes value = { 0 };
    enum outcome outcome = NOBODY_KNOWS;

    other.nonce = c->tail.nonce + 1;
    pack_tail(&value, &other);
    struct etcd_compare same = { .target = ETCD_MOD_REVISION,
                                 .key = store_key_bytes(&key),
                                 .number = self->tail_revision };
    struct etcd_op put = { .kind = ETCD_PUT, .key = store_key_bytes(&key), .value = { value.at, value.n } };
    struct etcd_op look = { .kind = ETCD_RANGE, .key = store_key_bytes(&key) };
    struct etcd_txn txn = { &same, 1, &put, 1, &look, 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    while (outcome == NOBODY_KNOWS && !value.is_lost && clock_monotonic_ms() < until_ms) {
        AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
        struct etcd_call call = { .deadline_ms = until_ms, .may_repeat = true };
        struct node_tail now = { 0 };

        if (etcd_do(self->etcd, &call, &op, &answer, NULL) != DIBS_OK)
            continue; /* it has waited a while by itself */
        const struct etcd_result *found = answer.result.n_results == 1 ? &answer.result.results[0] : NULL;
        if (answer.result.succeeded || !found || found->n_kvs != 1 ||
            !unpack_tail((struct packed){ found->kvs[0].value.at, found->kvs[0].value.n }, &now)) {
            outcome = NOT_DONE;
        } else {
            outcome = now.nonce == c->tail.nonce ? IS_DONE : NOT_DONE;
            *revision = found->kvs[0].mod_revision;
        }
    }
    bytes_done(&value);
    return outcome;
}

static void note_success(struct composing *c, int64_t revision)
{
    struct etcd_rows *self = c->self;
    const struct memory_tables *tables = &self->near.tables;

    if (!self->is_watched && revision != self->revision + 1)
        self->is_loaded = false; /* there was something in between */
    self->revision = self->tail_revision = revision;
    self->tail = c->tail;
    for (size_t i = 0; i < (size_t) SPACES * BLOCKS; i++)
        if (c->is_touched[i / BLOCKS][i % BLOCKS])
            self->block_revision[i / BLOCKS][i % BLOCKS] = revision;
    if (self->is_watched)
        etcd_watch_expect(self->watch[SPACE_HOST], revision);
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
    self->beaten_at = self->n_told;
    self->is_loaded = self->is_watched;
    return err_trouble(err, DIBS_TROUBLE_LOCKED, "others change the ledger in etcd all the time; try again");
}

static dibs_status send_and_learn(struct composing *c, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct etcd_call call = store_call(c->self);
    dibs_status s = send(c, &call, &answer, err);
    int64_t revision = answer.revision;
    enum outcome outcome = s == DIBS_OK && answer.result.succeeded ? IS_DONE : NOT_DONE;

    if (s != DIBS_OK && call.fate != ETCD_NOT_DONE)
        outcome = decide(c, &revision);
    if (outcome == IS_DONE) {
        note_success(c, revision);
        return DIBS_OK;
    }
    if (s == DIBS_OK)
        return store_beaten(c->self, err);
    c->self->is_loaded = false;
    if (outcome == NOBODY_KNOWS && err)
        return err_trouble(err, DIBS_TROUBLE_NONE,
                           "etcd does not answer, and what was asked may have been done: %.400s", err->msg);
    return s;
}

dibs_status store_commit(struct etcd_rows *self, dibs_err *err)
{
    struct composing *c = calloc(1, sizeof *c);
    dibs_err local = { 0 };

    if (!c)
        return err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    dibs_status s = compose(c, self, err);
    if (s == DIBS_OK)
        s = send_and_learn(c, err ? err : &local);
    composing_done(c);
    free(c);
    return s;
}
