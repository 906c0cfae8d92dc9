/* SPDX-License-Identifier: MIT */
#include "store/etcd/txn.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

void txn_draft_done(struct txn_draft *draft)
{
    for (size_t i = 0; i < draft->n_changes; i++)
        bytes_done(&draft->changes[i].value);
    bytes_done(&draft->spare);
    free(draft->changes);
    free(draft->compares);
    arena_free(draft->memory);
}

static struct etcd_bytes keep(struct txn_draft *draft, struct etcd_bytes key)
{
    void *at = key.n > 0 ? arena_take(&draft->memory, key.n) : NULL;

    draft->is_lost = draft->is_lost || (key.n > 0 && !at);
    if (at)
        memcpy(at, key.at, key.n);
    return (struct etcd_bytes){ at, at ? key.n : 0 };
}

static struct bytes *add_change(struct txn_draft *draft, struct etcd_op op)
{
    if (!grow((void **) &draft->changes, draft->n_changes, &draft->max_changes, sizeof *draft->changes)) {
        draft->is_lost = true;
        return &draft->spare;
    }
    op.key = keep(draft, op.key);
    op.end = keep(draft, op.end);
    draft->changes[draft->n_changes] = (struct change){ .op = op };
    return &draft->changes[draft->n_changes++].value;
}

/* Add a put. The caller fills in the returned value before it adds anything else. */
static struct bytes *txn_put(struct txn_part *c, const struct etcdstore_key *key)
{
    return add_change(c->draft, (struct etcd_op){ .kind = ETCD_PUT, .key = etcdstore_key_bytes(key) });
}

void txn_delete(struct txn_part *c, const struct etcdstore_key *key, const struct etcdstore_key *end)
{
    struct etcd_op op = { .kind = ETCD_DELETE, .key = etcdstore_key_bytes(key) };

    if (end)
        op.end = etcdstore_key_bytes(end);
    (void) add_change(c->draft, op);
}

void txn_compare(struct txn_part *c, struct etcd_compare compare)
{
    struct txn_draft *draft = c->draft;

    if (!grow((void **) &draft->compares, draft->n_compares, &draft->max_compares, sizeof *draft->compares)) {
        draft->is_lost = true;
        return;
    }
    compare.key = keep(draft, compare.key);
    compare.end = keep(draft, compare.end);
    draft->compares[draft->n_compares++] = compare;
}

/* Compare that no cluster record of this kind is newer than `revision`. */
static void compare_kind(struct txn_part *c, char kind, int64_t revision)
{
    struct etcdstore_key first = etcdstore_key(c->self, SPACE_CLUSTER, kind);
    struct etcdstore_key end = etcdstore_key_end(&first);

    txn_compare(c, etcdstore_not_newer(&first, &end, revision));
}

static const void *record_of(const struct memory_change *change)
{
    return change->after ? change->after : change->before;
}

/* ---- keys and names ---- */

static void principal_out(const struct etcd_store *self, uint32_t node,
                          char principal[DIBS_PRINCIPAL_MAX + 1])
{
    char *at = strrchr(principal, '@'); /* the last: a container's user has another '@' before */

    if (strncmp(principal, "uid:", 4) == 0 && at && !etcdstore_is_own(self, node))
        *at = '\0';
}

/* Return whether the name belongs to a user of this host. */
static bool is_users_name(const struct name_record *name)
{
    return strncmp(name->principal, "uid:", 4) == 0 && !strchr(name->principal, '@');
}

/* Convert a name to its form in etcd. */
static void name_out(const struct etcd_store *self, enum etcdstore_space space,
                     const struct name_record *name, struct name_record *out)
{
    *out = *name;
    if (space == SPACE_CLUSTER && is_users_name(name))
        (void) snprintf(out->principal, sizeof out->principal, "%.14s@%s", name->principal, self->node);
}

/* Return the key of a name. A NUL ends the principal, because names have none. */
static struct etcdstore_key name_key(const struct etcd_store *self, enum etcdstore_space space,
                                     const struct name_record *name)
{
    struct etcdstore_key key = etcdstore_key(self, space, 'n');
    struct name_record out;

    name_out(self, space, name, &out);
    etcdstore_key_add(&key, out.principal, strlen(out.principal) + 1);
    etcdstore_key_add(&key, out.name, strlen(out.name));
    return key;
}

static uint64_t answer_bucket(uint64_t seq)
{
    return seq / STORE_BUCKET_EVENTS;
}

static struct etcdstore_key answer_key(const struct etcd_store *self, const struct answer_record *answer)
{
    struct etcdstore_key key = etcdstore_key(self, SPACE_HOST, 'k');

    etcdstore_key_add_hex(&key, answer_bucket(answer->seq), STORE_BUCKET_DIGITS);
    etcdstore_key_add(&key, "/", 1);
    etcdstore_key_add(&key, answer->principal, strlen(answer->principal) + 1);
    etcdstore_key_add(&key, answer->key, strlen(answer->key) + 1);
    etcdstore_key_add_hex(&key, answer->part, 8);
    return key;
}

/* Return the key that tells a host that another host ended its claim. */
static struct etcdstore_key lost_key(const struct etcd_store *self, const char *node, uint64_t id)
{
    struct etcdstore_key key = etcdstore_host_key(self, node, 'x');

    etcdstore_key_add_hex(&key, id, 16);
    return key;
}

enum { CONTENT_MAX = 8 * BLOCK_PORTS }; /* of each kind: a port has several addresses and protocols */
struct content {
    const struct claim_record *claims[CONTENT_MAX];
    const struct ledger_slot *cooling[CONTENT_MAX];
    size_t n_claims, n_cooling;
};

static void touch(struct txn_part *c, uint16_t port)
{
    c->is_touched[etcdstore_space(c->self, port)][port / BLOCK_PORTS] = true;
}

static bool has_claim(const struct content *content, uint64_t id)
{
    for (size_t i = content->n_claims; i-- > 0;)
        if (content->claims[i]->claim.id == id)
            return true;
    return false;
}

/* Add a slot's claim or the cooling slot. False: no room (declared claims can share a port). */
static bool take_slot(const struct etcd_store *self, const struct ledger_slot *slot, struct content *out)
{
    struct claim_record key = { .claim.id = slot->claim_id };

    if (slot->claim_id == 0) {
        if (out->n_cooling < CONTENT_MAX) /* drop the rest: cooling ports are only advice */
            out->cooling[out->n_cooling++] = slot;
        return true;
    }
    const struct claim_record *row = memory_get(&self->copy.tables, CLAIMS, &key);
    if (!row || has_claim(out, slot->claim_id))
        return true;
    if (out->n_claims == CONTENT_MAX)
        return false;
    out->claims[out->n_claims++] = row;
    return true;
}

/* Collect the claims and cooling slots of a block from the copy. */
static dibs_status collect(const struct etcd_store *self, enum etcdstore_space space, uint16_t block,
                           struct content *out, dibs_err *err)
{
    const struct memory_tables *tables = &self->copy.tables;
    const struct memory_table *t = &tables->table[SLOTS];

    out->n_claims = out->n_cooling = 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++) {
        struct ledger_slot first = { .proto = proto, .port = (uint16_t) (block * BLOCK_PORTS) };

        for (size_t i = memory_find(tables, SLOTS, &first, NULL); i < t->n; i++) {
            const struct ledger_slot *slot = t->item[i];

            if (slot->proto != proto || slot->port / BLOCK_PORTS != block)
                break;
            if (etcdstore_space(self, slot->port) == space && !take_slot(self, slot, out))
                return err_trouble(err, DIBS_TROUBLE_FULL,
                                   "ports %u to %u have more claims than one record of the ledger can hold",
                                   block * BLOCK_PORTS, block * BLOCK_PORTS + BLOCK_PORTS - 1);
        }
    }
    return DIBS_OK;
}

static void pack_content(const struct etcd_store *self, enum etcdstore_space space,
                         const struct content *content, struct bytes *out)
{
    struct block_writer w = pack_block(out, (uint32_t) content->n_claims, (uint32_t) content->n_cooling);

    for (size_t i = 0; i < content->n_claims; i++) {
        struct claim_record row = *content->claims[i];

        if (space == SPACE_CLUSTER)
            principal_out(self, row.node, row.claim.principal);
        pack_claim(&w, &row);
    }
    for (size_t i = 0; i < content->n_cooling; i++)
        pack_cooling(&w, content->cooling[i]);
}

static dibs_status add_block(struct txn_part *c, enum etcdstore_space space, uint16_t block, dibs_err *err)
{
    struct content content;
    dibs_status s = collect(c->self, space, block, &content, err);

    if (s != DIBS_OK)
        return s;
    struct etcdstore_key key = etcdstore_key(c->self, space, 'b');
    etcdstore_key_add_hex(&key, block, 4);
    if (space == SPACE_CLUSTER)
        txn_compare(c, etcdstore_same(&key, c->self->block_revision[space][block]));
    pack_content(c->self, space, &content, txn_put(c, &key));
    return DIBS_OK;
}

static dibs_status add_blocks(struct txn_part *c, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < (size_t) SPACES * BLOCKS && s == DIBS_OK; i++) {
        if (c->is_touched[i / BLOCKS][i % BLOCKS])
            s = add_block(c, (enum etcdstore_space)(i / BLOCKS), (uint16_t) (i % BLOCKS), err);
    }
    return s;
}

/* ---- holders: ours are attached to a live lease; other nodes get a note of their ended claims ---- */

/* Record a claim that we end for its host, which reads its own records. */
static void add_loss(struct txn_part *c, const struct claim_record *before)
{
    const char *node = before->node < c->self->n_nodes ? c->self->nodes[before->node].name : "";
    struct etcdstore_key key = lost_key(c->self, node, before->claim.id);
    struct claim_record row = *before;
    bool is_known = before->lease == 0;

    if (!node[0])
        return; /* that host was removed */
    principal_out(c->self, row.node, row.claim.principal);
    struct block_writer w = pack_block(txn_put(c, &key), 1, 0);
    pack_claim(&w, &row);
    for (size_t i = 0; i < c->n_other; i++)
        is_known = is_known || c->other[i] == before->node;
    if (!is_known && c->n_other < OTHERS_MAX)
        c->other[c->n_other++] = before->node;
}

static void add_holder(struct txn_part *c, const struct claim_record *before, const struct claim_record *now)
{
    bool is_ours = now && etcdstore_is_own(c->self, now->node);

    c->attaches = c->attaches || (is_ours && now->lease != 0);
    if (before && !etcdstore_is_own(c->self, before->node) && (!now || is_ours))
        add_loss(c, before);
}

static void add_lease_compare(struct txn_part *c, const char *node, int64_t incarnation)
{
    struct etcdstore_key key = etcdstore_named_key(c->self, 'l', node);

    txn_compare(c, (struct etcd_compare){ .target = ETCD_CREATE_REVISION,
                                          .key = etcdstore_key_bytes(&key),
                                          .number = incarnation });
}

static void add_lease_compares(struct txn_part *c)
{
    const struct etcd_store *self = c->self;
    struct ledger_lease mine = { 0 };

    for (size_t i = 0; i < c->n_other; i++)
        add_lease_compare(c, self->nodes[c->other[i]].name, self->nodes[c->other[i]].incarnation);
    if (!c->attaches)
        return;
    etcdstore_lease_state(self, &mine);
    add_lease_compare(c, self->node,
                      mine.is_member ? mine.incarnation : self->nodes[etcdstore_number(self)].incarnation);
}

static void add_noted(struct txn_part *c)
{
    for (size_t i = 0; i < c->self->n_lost && c->self->is_noting_lost; i++) {
        struct etcdstore_key key = lost_key(c->self, c->self->node, c->self->lost[i].claim.id);

        txn_delete(c, &key, NULL);
    }
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
    d = memory_kinds[x->change->table].compare(record_of(x->change), record_of(y->change));
    return d ? d : x->order < y->order ? -1 : 1;
}

/* Compare the name's key, unless it belongs to a user of this host: then the tail guards it. */
static void add_name_compare(struct txn_part *c, enum etcdstore_space space, const struct etcdstore_key *key,
                             const struct name_record *known, int64_t revision)
{
    if (space == SPACE_CLUSTER && !is_users_name(known))
        txn_compare(c, etcdstore_same(key, revision));
}

static void add_name(struct txn_part *c, const struct name_record *before, const struct name_record *now)
{
    const struct etcd_store *self = c->self;
    enum etcdstore_space from = before ? (enum etcdstore_space) before->space : SPACE_HOST;
    enum etcdstore_space to = now ? etcdstore_space(self, now->port) : from;

    if (before && (!now || from != to)) {
        struct etcdstore_key key = name_key(self, from, before);

        add_name_compare(c, from, &key, before, before->revision);
        txn_delete(c, &key, NULL);
    }
    if (!now)
        return;
    struct etcdstore_key key = name_key(self, to, now);
    struct name_record out;

    add_name_compare(c, to, &key, now, before && from == to ? before->revision : 0);
    name_out(self, to, now, &out);
    pack_name(txn_put(c, &key), &out);
}

static void add_pool(struct txn_part *c, const dibs_pool *before, const dibs_pool *now)
{
    const dibs_pool *any = now ? now : before;
    struct etcdstore_key key = etcdstore_named_key(c->self, 'p', any->name);

    if (now) {
        pack_pool(txn_put(c, &key), now);
        return;
    }
    struct etcdstore_key removal = etcdstore_named_key(c->self, 'p', STORE_REMOVAL);

    txn_delete(c, &key, NULL);
    (void) txn_put(c, &removal);
}

static void add_sighting(struct txn_part *c, const struct sighting_record *before,
                         const struct sighting_record *now)
{
    struct etcdstore_key key = etcdstore_key(c->self, SPACE_HOST, 's');

    etcdstore_key_add_hex(&key, now ? now->seen.id : before->seen.id, 16);
    if (now)
        pack_sighting(txn_put(c, &key), now);
    else
        txn_delete(c, &key, NULL);
}

/* Compare the fact's key, too: two clusters that begin to use one ledger must not both succeed. */
static void add_fact(struct txn_part *c, const struct fact_record *before, const struct fact_record *now)
{
    const struct fact_record *either = now ? now : before;

    assert(either);
    struct etcdstore_key key = etcdstore_named_key(c->self, 'f', either->subject);

    txn_compare(c, etcdstore_same(&key, before ? before->revision : 0));
    if (now)
        pack_fact(txn_put(c, &key), now);
    else
        txn_delete(c, &key, NULL);
}

/* Put an answer. add_history() removes answers in groups. */
static void add_answer(struct txn_part *c, const struct answer_record *now)
{
    if (!now)
        return;
    struct etcdstore_key key = answer_key(c->self, now);

    pack_answer(txn_put(c, &key), now);
}

static void add_record(struct txn_part *c, size_t table, const void *before, const void *now)
{
    if (table == CLAIMS)
        add_holder(c, before, now);
    else if (table == NAMES)
        add_name(c, before, now);
    else if (table == POOLS)
        add_pool(c, before, now);
    else if (table == SIGHTINGS)
        add_sighting(c, before, now);
    else if (table == ANSWERS)
        add_answer(c, now);
    else if (table == FACTS)
        add_fact(c, before, now);
}

/* Add each changed record once, with its state before all changes and its state now. */
static void add_records(struct txn_part *c)
{
    const struct memory_tables *tables = &c->self->copy.tables;
    AUTO(free_auto) struct touched *all = calloc(tables->n_journal + 1, sizeof *all);
    size_t n = 0;

    if (!all) {
        c->draft->is_lost = true;
        return;
    }
    for (size_t i = 0; i < tables->n_journal; i++) {
        const struct memory_change *change = &tables->journal[i];

        if (change->table == CLAIMS)
            touch(c, ((const struct claim_record *) record_of(change))->claim.port);
        if (change->table == SLOTS)
            touch(c, ((const struct ledger_slot *) record_of(change))->port);
        else if (change->table != EVENTS)
            all[n++] = (struct touched){ change, i };
    }
    qsort(all, n, sizeof *all, by_record);
    for (size_t i = 0; i < n;) {
        size_t first = i;
        enum record_kind table = all[i].change->table;
        const void *record = record_of(all[i].change);

        while (i < n && all[i].change->table == table &&
               memory_kinds[table].compare(record_of(all[i].change), record) == 0)
            i++;
        const void *before = all[first].change->before;
        const void *now = memory_get(tables, table, record);

        if (before || now) /* else the record was created and removed */
            add_record(c, table, before, now);
    }
}

/* Delete the host's keys of this kind below `number`. */
static void add_delete_below(struct txn_part *c, char kind, uint64_t number, int digits)
{
    struct etcdstore_key first = etcdstore_key(c->self, SPACE_HOST, kind);
    struct etcdstore_key last = first;

    etcdstore_key_add_hex(&last, number, digits);
    txn_delete(c, &first, &last);
}

static void add_history(struct txn_part *c)
{
    const struct memory_tables *tables = &c->self->copy.tables;
    const struct memory_table *t = &tables->table[EVENTS];
    size_t n = 0;

    while (n < t->n && ((const struct event_record *) t->item[t->n - 1 - n])->event.seq > c->self->tail.seq)
        n++;
    if (n > 0) {
        const struct event_record *const *fresh = (const struct event_record *const *) &t->item[t->n - n];
        struct etcdstore_key key = etcdstore_key(c->self, SPACE_HOST, 'e');

        c->tail.seq = fresh[n - 1]->event.seq;
        c->tail.cursor = fresh[n - 1]->cursor;
        etcdstore_key_add_hex(&key, c->tail.seq, 16);
        pack_events(txn_put(c, &key), fresh, n);
    }
    if (c->self->trimmed_seq > c->tail.gone) {
        add_delete_below(c, 'e', c->self->trimmed_seq + 1, 16);
        c->tail.gone = c->self->trimmed_seq;
    }
    if (c->self->trimmed_seq > 0)
        add_delete_below(c, 'k', answer_bucket(c->self->trimmed_seq), STORE_BUCKET_DIGITS);
}

/* Compare and put the tail. Every commit of this host does so, which orders them. */
static void add_tail(struct txn_part *c)
{
    struct etcdstore_key key = etcdstore_key(c->self, SPACE_HOST, 't');

    txn_compare(c, etcdstore_same(&key, c->self->tail_revision));
    pack_tail(txn_put(c, &key), &c->tail);
}

/* Replace many compares by one compare of the range: no key in it is newer than the copy. */
static void join_compares(struct txn_part *c, size_t n_before)
{
    if (c->draft->n_compares - n_before <= COMPARES_MAX)
        return;
    c->draft->n_compares = n_before;
    compare_kind(c, 'b', c->self->revision);
    compare_kind(c, 'n', c->self->revision);
}

/* Wake the node of a store that this process does not watch: we commit on its behalf. */
static void add_wake(struct txn_part *c)
{
    struct etcdstore_key key = etcdstore_key(c->self, SPACE_HOST, 'w');

    if (!c->self->is_watched)
        (void) txn_put(c, &key);
}

dibs_status txn_compose(struct txn_part *c, struct txn_draft *draft, struct etcd_store *self, dibs_err *err)
{
    size_t n_before = draft->n_compares;

    *c = (struct txn_part){ .self = self, .draft = draft, .tail = self->tail };
    if (getrandom(&c->tail.nonce, sizeof c->tail.nonce, 0) != (ssize_t) sizeof c->tail.nonce)
        return err_os(err, DIBS_FAILURE, errno, "changing the ledger");
    add_records(c);
    txn_touch_rescoped(c);
    dibs_status s = add_blocks(c, err);
    join_compares(c, n_before);
    if (s != DIBS_OK)
        return s;
    txn_fence(c);
    add_history(c);
    add_noted(c);
    compare_kind(c, 'p', self->pools_revision); /* the pools determine the scope of each port */
    add_lease_compares(c);
    add_tail(c);
    add_wake(c);
    for (size_t i = 0; i < draft->n_changes; i++)
        draft->is_lost = draft->is_lost || draft->changes[i].value.is_lost;
    return draft->is_lost ? err_set(err, DIBS_FAILURE, "changing the ledger: out of memory") : DIBS_OK;
}
