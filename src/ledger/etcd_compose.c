/* SPDX-License-Identifier: MIT */
#include "ledger/etcd_compose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/etcd_hands.h"

#include "base/banned.h"

enum { ALIKE_FROM = 4 }; /* claims, for which it pays to say once what they have in common */

void composing_done(struct composing *c)
{
    for (struct kept_value *kept = c->kept, *next = NULL; kept; kept = next) {
        next = kept->next;
        bytes_done(&kept->value);
        free(kept);
    }
    for (struct level *level = c->levels, *below = NULL; level; level = below) {
        below = level->below;
        free(level->ops);
        free(level);
    }
    free(c->ops);
    free(c->compares);
}

/* One more of an array that doubles; NULL: no memory. */
static void *more(void **array, size_t *n, size_t *cap, size_t bytes)
{
    if (*n == *cap) {
        size_t want = *cap ? *cap * 2 : 16;
        void *grown = reallocarray(*array, want, bytes);

        if (!grown)
            return NULL;
        *array = grown;
        *cap = want;
    }
    return (char *) *array + (*n)++ * bytes;
}
#define MORE(c, what) more((void **) &(c)->what, &(c)->n_##what, &(c)->what##_cap, sizeof *(c)->what)

struct kept_value *compose_keep(struct composing *c, const struct store_key *key)
{
    struct kept_value *kept = calloc(1, sizeof *kept);

    if (!kept) {
        c->is_lost = true;
        return NULL;
    }
    kept->key = *key;
    kept->next = c->kept;
    c->kept = kept;
    return kept;
}

struct etcd_op *compose_op(struct composing *c, enum etcd_kind kind, const struct kept_value *at)
{
    struct etcd_op *op = at ? MORE(c, ops) : NULL;

    if (!op) {
        c->is_lost = true;
        return NULL;
    }
    *op = (struct etcd_op){ .kind = kind, .key = store_key_bytes(&at->key) };
    return op;
}

void compose_put(struct composing *c, const struct kept_value *at)
{
    struct etcd_op *op = compose_op(c, ETCD_PUT, at);

    if (op && at)
        op->value = (struct etcd_bytes){ at->value.at, at->value.n };
    c->is_lost = c->is_lost || !at || at->value.is_lost;
}

void compose_compare(struct composing *c, const struct kept_value *at, int64_t revision)
{
    struct etcd_compare *compare = at ? MORE(c, compares) : NULL;

    if (!compare) {
        c->is_lost = true;
        return;
    }
    *compare = (struct etcd_compare){ .target = ETCD_MOD_REVISION,
                                      .relation = ETCD_EQUAL,
                                      .key = store_key_bytes(&at->key),
                                      .number = revision };
}

void compose_compare_range(struct composing *c, const struct store_key *first, int64_t revision)
{
    const struct kept_value *key = compose_keep(c, first);
    struct store_key last = store_key_end(first);
    const struct kept_value *end = compose_keep(c, &last);

    if (!key || !end)
        return;
    compose_compare(c, key, revision + 1);
    if (c->is_lost)
        return;
    c->compares[c->n_compares - 1].relation = ETCD_LESS;
    c->compares[c->n_compares - 1].end = store_key_bytes(&end->key);
}

/* ---- blocks ---- */

static void touch(struct composing *c, uint16_t port)
{
    c->is_touched[store_space(c->self, port)][port / BLOCK_PORTS] = true;
}

static bool has_claim(const struct content *content, uint64_t id)
{
    for (size_t i = content->n_claims; i-- > 0;)
        if (content->claims[i]->claim.id == id)
            return true;
    return false;
}

/* False: more than fits (declared claims can share a port). */
static bool take_slot(const struct etcd_rows *self, struct block_of of, const struct ledger_slot *slot,
                      struct content *out)
{
    struct row_claim key = { .claim.id = slot->claim_id };

    if (slot->claim_id == 0) {
        if (out->n_cooling == CONTENT_MAX || (of.space == SPACE_HOST && of.node != store_number(self)))
            return true; /* only a mark */
        out->cooling[out->n_cooling++] = slot;
        return true;
    }
    const struct row_claim *row = memory_get(&self->near.tables, CLAIMS, &key);
    if (!row || has_claim(out, slot->claim_id) || (of.space == SPACE_HOST && row->node != of.node))
        return true;
    if (out->n_claims == CONTENT_MAX)
        return false;
    out->claims[out->n_claims++] = row;
    return true;
}

static bool collect(const struct etcd_rows *self, struct block_of of, struct content *out)
{
    const struct memory_tables *tables = &self->near.tables;
    const struct memory_table *t = &tables->table[SLOTS];

    out->n_claims = out->n_cooling = 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++) {
        struct ledger_slot first = { .proto = proto, .port = (uint16_t) (of.block * BLOCK_PORTS) };

        for (size_t i = memory_find(tables, SLOTS, &first, NULL); i < t->n; i++) {
            const struct ledger_slot *slot = t->item[i];

            if (slot->proto != proto || slot->port / BLOCK_PORTS != of.block)
                break;
            if (store_space(self, slot->port) == of.space && !take_slot(self, of, slot, out))
                return false;
        }
    }
    return true;
}

/* A claim as it stands in the block. */
static struct row_claim claim_out(const struct etcd_rows *self, struct block_of of,
                                  const struct row_claim *claim)
{
    struct row_claim row = *claim;

    if (of.space == SPACE_CLUSTER)
        store_principal_out(self, row.node, row.claim.principal);
    return row;
}

static void pack_content(const struct etcd_rows *self, struct block_of of, const struct content *content,
                         struct bytes *out)
{
    bool is_many = content->n_claims >= ALIKE_FROM;
    struct row_claim like;

    if (is_many) /* any of them: where many are alike it is one of those, as a rule */
        like = claim_out(self, of, content->claims[content->n_claims / 2]);
    struct block_writer w =
        pack_block(out, (uint32_t) content->n_claims, (uint32_t) content->n_cooling, is_many ? &like : NULL);

    for (size_t i = 0; i < content->n_claims; i++) {
        struct row_claim row = claim_out(self, of, content->claims[i]);

        pack_claim(&w, &row);
    }
    for (size_t i = 0; i < content->n_cooling; i++)
        pack_cooling(&w, content->cooling[i]);
}

dibs_status compose_collect(const struct etcd_rows *self, struct block_of of, struct content *out,
                            dibs_err *err)
{
    return collect(self, of, out)
               ? DIBS_OK
               : err_trouble(err, DIBS_TROUBLE_FULL,
                             "ports %u to %u have more claims than one record of the ledger can hold",
                             of.block * BLOCK_PORTS, of.block * BLOCK_PORTS + BLOCK_PORTS - 1);
}

static dibs_status add_block(struct composing *c, struct block_of of, dibs_err *err)
{
    struct content content;
    int64_t revision = c->self->block_revision[of.space][of.block];
    dibs_status s = compose_collect(c->self, of, &content, err);

    bool is_nothing = c->self->hands && content.n_claims + content.n_cooling == 0 && revision == 0;
    if (s != DIBS_OK || is_nothing)
        return s;
    struct store_key key = store_key(c->self, of.space, 'b');
    store_key_add_hex(&key, of.block, 4);
    struct kept_value *put = compose_keep(c, &key);
    if (!put)
        return DIBS_OK; /* told at the end */
    if (of.space == SPACE_CLUSTER)
        compose_compare(c, put, revision);
    pack_content(c->self, of, &content, &put->value);
    compose_put(c, put);
    return DIBS_OK;
}

static dibs_status add_blocks(struct composing *c, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < (size_t) SPACES * BLOCKS && s == DIBS_OK; i++) {
        struct block_of of = { (enum store_space)(i / BLOCKS), store_number(c->self), i % BLOCKS };

        if (c->is_touched[of.space][of.block])
            s = add_block(c, of, err);
    }
    return s;
}

/* ---- the other records ---- */

struct touched {
    const struct memory_change *change;
    size_t order;
};

static int by_record(const void *a, const void *b)
{
    const struct touched *x = a;
    const struct touched *y = b;
    int d = 0;

    if (x->change->table != y->change->table)
        return x->change->table < y->change->table ? -1 : 1;
    d = memory_kinds[x->change->table].compare(compose_record(x->change), compose_record(y->change));
    return d ? d : x->order < y->order ? -1 : 1;
}

/* Names of this host's users are this host's alone, wherever their ports are: the tail guards them. */
static void add_name_compare(struct composing *c, enum store_space space, const struct kept_value *at,
                             const struct name_record *known, int64_t revision)
{
    if (space == SPACE_CLUSTER && !store_is_users_name(known))
        compose_compare(c, at, revision);
}

static void add_name(struct composing *c, const struct name_record *before, const struct name_record *now)
{
    const struct etcd_rows *self = c->self;
    enum store_space from = before ? (enum store_space) before->space : SPACE_HOST;
    enum store_space to = now ? store_space(self, now->row.port) : from;

    if (before && (!now || from != to)) {
        struct store_key key = store_name_key(self, from, before);
        const struct kept_value *gone = compose_keep(c, &key);

        add_name_compare(c, from, gone, before, before->revision);
        (void) compose_op(c, ETCD_DELETE, gone);
    }
    if (!now)
        return;
    struct store_key key = store_name_key(self, to, now);
    struct kept_value *put = compose_keep(c, &key);
    struct name_record out;
    if (!put)
        return;
    add_name_compare(c, to, put, now, before && from == to ? before->revision : 0);
    store_name_out(self, to, now, &out);
    pack_name(&put->value, &out);
    compose_put(c, put);
}

static void add_pool(struct composing *c, const dibs_pool *before, const dibs_pool *now)
{
    const dibs_pool *any = now ? now : before;
    struct store_key key = store_key(c->self, SPACE_CLUSTER, 'p');

    store_key_add(&key, any->name, strlen(any->name));
    struct kept_value *put = compose_keep(c, &key);
    if (!now) {
        struct store_key removal = store_removal_key(c->self);

        (void) compose_op(c, ETCD_DELETE, put);
        compose_put(c, compose_keep(c, &removal));
    }
    if (!now || !put)
        return;
    pack_pool(&put->value, now);
    compose_put(c, put);
}

static void add_sighting(struct composing *c, const struct sighting_record *before,
                         const struct sighting_record *now)
{
    struct store_key key = store_key(c->self, SPACE_HOST, 's');

    store_key_add_hex(&key, now ? now->seen.id : before->seen.id, 16);
    struct kept_value *put = compose_keep(c, &key);
    if (!now)
        (void) compose_op(c, ETCD_DELETE, put);
    if (!now || !put)
        return;
    pack_sighting(&put->value, now);
    compose_put(c, put);
}

/* Those that are forgotten go together (add_history). */
static void add_answer(struct composing *c, const struct row_answer *now)
{
    if (!now)
        return;
    struct store_key key = store_answer_key(c->self, now);
    struct kept_value *put = compose_keep(c, &key);
    if (!put)
        return;
    pack_answer(&put->value, now);
    compose_put(c, put);
}

static void add_record(struct composing *c, size_t table, const void *before, const void *now)
{
    if (table == NAMES)
        add_name(c, before, now);
    else if (table == POOLS)
        add_pool(c, before, now);
    else if (table == SIGHTINGS)
        add_sighting(c, before, now);
    else if (table == ANSWERS)
        add_answer(c, now);
}

/* Each record once, however often it was changed: as it was before all that, and as it is now. */
static void add_records(struct composing *c)
{
    const struct memory_tables *tables = &c->self->near.tables;
    AUTO(free_auto) struct touched *all = calloc(tables->n_journal + 1, sizeof *all);
    size_t n = 0;

    if (!all) {
        c->is_lost = true;
        return;
    }
    for (size_t i = 0; i < tables->n_journal; i++) {
        const struct memory_change *change = &tables->journal[i];

        if (change->table == CLAIMS) {
            touch(c, ((const struct row_claim *) compose_record(change))->claim.port);
            compose_holder(c, i);
        } else if (change->table == SLOTS)
            touch(c, ((const struct ledger_slot *) compose_record(change))->port);
        else if (change->table != EVENTS)
            all[n++] = (struct touched){ change, i };
    }
    qsort(all, n, sizeof *all, by_record);
    for (size_t i = 0; i < n;) {
        size_t first = i;
        size_t table = all[i].change->table;
        const void *record = compose_record(all[i].change);

        while (i < n && all[i].change->table == table &&
               memory_kinds[table].compare(compose_record(all[i].change), record) == 0)
            i++;
        const void *before = all[first].change->before;
        const void *now = memory_get(tables, table, record);

        if (before || now) /* else it came and went */
            add_record(c, table, before, now);
    }
}

/* ---- the history ---- */

/* Keys of that kind of this host, up to (not with) that number. */
static void add_delete_below(struct composing *c, char kind, uint64_t number, int digits)
{
    struct store_key first = store_key(c->self, SPACE_HOST, kind);
    struct store_key last = first;

    store_key_add_hex(&last, number, digits);
    const struct kept_value *end = compose_keep(c, &last);
    struct etcd_op *op = compose_op(c, ETCD_DELETE, compose_keep(c, &first));

    if (op && end)
        op->end = store_key_bytes(&end->key);
}

static void add_history(struct composing *c)
{
    const struct memory_tables *tables = &c->self->near.tables;
    const struct memory_table *t = &tables->table[EVENTS];
    size_t n = 0;

    while (n < t->n && ((const struct event_record *) t->item[t->n - 1 - n])->event.seq > c->self->tail.seq)
        n++;
    if (n > 0) {
        const struct event_record *const *fresh = (const struct event_record *const *) &t->item[t->n - n];
        struct store_key key = store_key(c->self, SPACE_HOST, 'e');

        c->tail.seq = fresh[n - 1]->event.seq;
        c->tail.cursor = fresh[n - 1]->cursor;
        store_key_add_hex(&key, c->tail.seq, 16);
        struct kept_value *put = compose_keep(c, &key);
        if (put)
            pack_events(&put->value, fresh, n);
        compose_put(c, put);
    }
    if (c->self->trimmed_seq > c->tail.gone) {
        add_delete_below(c, 'e', c->self->trimmed_seq + 1, 16);
        c->tail.gone = c->self->trimmed_seq;
    }
    if (c->self->trimmed_answers > 0)
        add_delete_below(c, 'k', store_answer_bucket(c->self->trimmed_answers), STORE_BUCKET_DIGITS);
}

/* Every commit of this host compares and puts it: they come one after another. */
static void add_tail(struct composing *c)
{
    struct store_key key = store_key(c->self, SPACE_HOST, 't');
    struct kept_value *put = compose_keep(c, &key);

    if (!put)
        return;
    compose_compare(c, put, c->self->tail_revision);
    pack_tail(&put->value, &c->tail);
    compose_put(c, put);
}

/* Too many to name each: none of them all is newer than what we were told. */
static void join_compares(struct composing *c)
{
    struct store_key blocks = store_key(c->self, SPACE_CLUSTER, 'b');
    struct store_key names = store_key(c->self, SPACE_CLUSTER, 'n');

    if (c->n_compares <= COMPARES_MAX)
        return;
    c->n_compares = 0;
    compose_compare_range(c, &blocks, c->self->revision);
    compose_compare_range(c, &names, c->self->revision);
}

/* Whose a port is, is a matter of the pools. */
static void add_pools_compare(struct composing *c)
{
    struct store_key pools = store_key(c->self, SPACE_CLUSTER, 'p');

    compose_compare_range(c, &pools, c->self->pools_revision);
}

/* Who follows hears of what others of this host commit; its own would only come back to it. */
static void add_wake(struct composing *c)
{
    struct store_key key = store_key(c->self, SPACE_HOST, 'w');

    if (!c->self->is_watched)
        compose_put(c, compose_keep(c, &key));
}

dibs_status compose(struct composing *c, struct etcd_rows *self, dibs_err *err)
{
    c->self = self;
    c->tail = self->tail;
    if (getrandom(&c->tail.nonce, sizeof c->tail.nonce, 0) != (ssize_t) sizeof c->tail.nonce)
        return err_os(err, DIBS_FAILURE, errno, "changing the ledger");
    add_records(c);
    for (size_t i = 0; i < BLOCKS; i++)
        if (self->hands && self->hands->changed.word[i])
            c->is_touched[SPACE_HOST][i] = c->is_touched[SPACE_CLUSTER][i] = true;
    dibs_status s = add_blocks(c, err);
    join_compares(c);
    if (s == DIBS_OK && self->hands)
        s = compose_hand_over(c, err);
    if (s != DIBS_OK)
        return s;
    add_history(c);
    compose_mourned(c);
    add_pools_compare(c);
    compose_lease_compares(c);
    add_tail(c);
    add_wake(c);
    return c->is_lost ? err_set(err, DIBS_FAILURE, "changing the ledger: out of memory") : DIBS_OK;
}
