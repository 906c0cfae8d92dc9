/* SPDX-License-Identifier: MIT */
/* The near copy of what is in etcd. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

enum { PAGE_KEYS = 256 }; /* of blocks: some megabytes at most */

struct etcd_call store_call(const struct etcd_rows *self)
{
    return (struct etcd_call){ .deadline_ms = self->deadline_ms };
}

struct applying {
    struct etcd_rows *self;
    enum store_space space;
    uint16_t block;
    dibs_status s;
    dibs_err *err;
};

static struct packed packed(struct etcd_bytes bytes)
{
    return (struct packed){ bytes.at, bytes.n };
}

static bool put(struct applying *a, enum memory_table_id table, const void *record)
{
    a->s = memory_put(&a->self->near.tables, table, record, a->err);
    return a->s == DIBS_OK;
}

/* ---- blocks ---- */

/* A claim on a port that does not belong there would be seen twice, or never. */
static bool is_here(const struct applying *a, uint16_t port)
{
    return port / BLOCK_PORTS == a->block && store_space(a->self, port) == a->space;
}

static bool put_slots(struct applying *a, const struct row_claim *row)
{
    const dibs_claim *c = &row->claim;

    for (size_t i = 0; i < c->n_bindings; i++) {
        struct ledger_slot slot = { .proto = c->bindings[i].proto,
                                    .port = c->port,
                                    .address = c->bindings[i].address,
                                    .claim_id = c->id,
                                    .is_exclusive = c->is_exclusive };

        if (!put(a, SLOTS, &slot))
            return false;
    }
    return true;
}

static bool add_claim(void *ctx, struct row_claim *row)
{
    struct applying *a = ctx;

    if (!is_here(a, row->claim.port))
        return false;
    if (a->space == SPACE_CLUSTER) {
        store_principal_in(a->self, row->node, row->claim.principal);
        store_dress(a->self, row);
    }
    return put(a, CLAIMS, row) && put_slots(a, row);
}

/* The port stays blocked, by nobody knows whom (INV-6, INV-10). */
static bool block_port(struct applying *a, uint16_t port)
{
    struct row_claim row;

    codec_make_lost(&row, INT64_MAX - port, port);
    row.node = a->space == SPACE_HOST ? store_number(a->self) : 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++)
        row.claim.bindings[row.claim.n_bindings++] =
            (dibs_binding){ .proto = proto, .address = { .len = 16 } };
    return put(a, CLAIMS, &row) && put_slots(a, &row);
}

static bool add_damaged(void *ctx, uint16_t port)
{
    struct applying *a = ctx;

    return is_here(a, port) && block_port(a, port);
}

static bool has_claim(const struct memory_tables *tables, uint16_t port)
{
    const struct memory_table *t = &tables->table[SLOTS];

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++) {
        struct ledger_slot first = { .proto = proto, .port = port };

        for (size_t i = memory_find(tables, SLOTS, &first, NULL); i < t->n; i++) {
            const struct ledger_slot *slot = t->item[i];

            if (slot->proto != proto || slot->port != port)
                break;
            if (slot->claim_id != 0)
                return true;
        }
    }
    return false;
}

/* Whose claims could not be read may be on any port of the block that has no other. */
static bool block_rest(struct applying *a)
{
    for (uint32_t port = a->block * (uint32_t) BLOCK_PORTS; port < (a->block + 1u) * BLOCK_PORTS; port++)
        if (port > 0 && is_here(a, (uint16_t) port) && !has_claim(&a->self->near.tables, (uint16_t) port) &&
            !block_port(a, (uint16_t) port))
            return false;
    return true;
}

static bool add_cooling(void *ctx, const struct ledger_slot *slot)
{
    struct applying *a = ctx;
    struct ledger_slot seen = *slot;

    store_cooling_in(a->self, &seen);
    return is_here(a, slot->port) && put(a, SLOTS, &seen);
}

static bool apply_block(struct applying *a, const struct etcd_kv *kv)
{
    struct block_reader reader = { a, add_claim, add_damaged, add_cooling };

    a->self->block_revision[a->space][a->block] = kv->mod_revision;
    return unpack_block(packed(kv->value), &reader) || (a->s == DIBS_OK && block_rest(a));
}

/* ---- the others ---- */

static bool apply_node(struct applying *a, const char *name, size_t n, const struct etcd_kv *kv)
{
    struct etcd_rows *self = a->self;
    uint64_t number = 0;

    if (kv->mod_revision > self->nodes_revision)
        self->nodes_revision = kv->mod_revision;

    if (n > DIBS_NODE_MAX || !unpack_number(packed(kv->value), &number) || number >= STORE_NODES_MAX)
        return false;
    if (number >= self->max_nodes) {
        size_t max = number + 64 + number / 2;
        struct store_node *grown = realloc(self->nodes, max * sizeof *grown);

        if (!grown) {
            a->s = err_trouble(a->err, DIBS_TROUBLE_FULL, "reading the ledger: out of memory");
            return false;
        }
        memset(grown + self->max_nodes, 0, (max - self->max_nodes) * sizeof *grown);
        self->nodes = grown;
        self->max_nodes = max;
    }
    bool is_mark = n == strlen(STORE_NEXT_NODE) && memcmp(name, STORE_NEXT_NODE, n) == 0;
    if (number + !is_mark > self->n_nodes)
        self->n_nodes = number + !is_mark;
    if (is_mark)
        return true;
    memcpy(self->nodes[number].name, name, n);
    self->nodes[number].name[n] = '\0';
    if (strcmp(self->nodes[number].name, self->node) == 0) {
        self->has_number = true;
        self->near.base.id_base = number << STORE_ID_SHIFT;
    }
    return true;
}

/* Its claim has the name as well, and is looked for when this one's is not there (INV-6). */
static bool make_lost_name(const struct applying *a, const struct etcd_kv *kv, struct name_record *out)
{
    *out = (struct name_record){ .row.claim_id = INT64_MAX };
    for (uint16_t port = DIBS_PORT_MAX; port > 0 && out->row.port == 0; port--)
        if (store_space(a->self, port) == a->space)
            out->row.port = port; /* any one: it says which space the key is in */
    return store_read_name(a->self, a->space, kv, out) && out->name[0];
}

/* Who has joined without a number is enrolled later, which is told. */
static bool apply_lease(struct applying *a, const char *name, size_t n, const struct etcd_kv *kv)
{
    size_t number = 0;

    if (store_find_node(a->self, name, n, &number))
        a->self->nodes[number].incarnation = kv->create_revision;
    return true;
}

static bool add_lost(void *ctx, struct row_claim *row)
{
    struct applying *a = ctx;
    struct row_claim *grown = realloc(a->self->lost, (a->self->n_lost + 1) * sizeof *grown);

    if (!grown)
        return false;
    a->self->lost = grown;
    a->self->lost[a->self->n_lost++] = *row;
    return true;
}

static bool ignore_damaged(void *ctx, uint16_t port)
{
    (void) ctx;
    (void) port;
    return true;
}

static bool ignore_cooling(void *ctx, const struct ledger_slot *slot)
{
    (void) ctx;
    (void) slot;
    return true;
}

static bool apply_lost(struct applying *a, const struct etcd_kv *kv)
{
    struct block_reader reader = { a, add_lost, ignore_damaged, ignore_cooling };

    return unpack_block(packed(kv->value), &reader);
}

static bool apply_name(struct applying *a, const struct etcd_kv *kv)
{
    struct name_record name;

    if (!unpack_name(packed(kv->value), &name) && !make_lost_name(a, kv, &name))
        return true; /* not even that */
    store_name_in(a->self, &name);
    name.revision = kv->mod_revision;
    name.space = (int) a->space;
    /* Who has what is everybody's has it, whatever a host remembers from before. */
    const struct name_record *known = memory_get(&a->self->near.tables, NAMES, &name);
    if (known && a->space == SPACE_HOST && known->space == SPACE_CLUSTER)
        return true;
    return put(a, NAMES, &name);
}

/* `name`: its own, or what stands in its place (store_fence_key(), store_removal_key()). */
static bool apply_pool(struct applying *a, const char *name, size_t n, const struct etcd_kv *kv)
{
    dibs_pool pool;

    if (kv->mod_revision > a->self->pools_revision)
        a->self->pools_revision = kv->mod_revision;
    if (n == 1 && name[0] == '~')
        return unpack_ports(packed(kv->value), &a->self->fenced);
    if (n == 1 && name[0] == '!')
        return true; /* that it was put is all that it says */
    if (!unpack_pool(packed(kv->value), &pool))
        return false;
    if (pool.scope == DIBS_SCOPE_CLUSTER)
        portbits_add_ranges(&a->self->shared, &pool.ranges);
    return put(a, POOLS, &pool);
}

static bool apply_answer(struct applying *a, const struct etcd_kv *kv)
{
    struct row_answer answer;

    return unpack_answer(packed(kv->value), &answer) && put(a, ANSWERS, &answer);
}

static bool apply_sighting(struct applying *a, const struct etcd_kv *kv)
{
    struct sighting_record sighting;

    return !unpack_sighting(packed(kv->value), &sighting) || put(a, SIGHTINGS, &sighting);
}

bool store_block_number(const char *text, size_t n, uint16_t *out)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t number = 0;

    for (size_t i = 0; i < n; i++) {
        const char *digit = memchr(digits, text[i], sizeof digits - 1);

        if (!digit)
            return false;
        number = number << 4 | (uint32_t) (digit - digits);
    }
    *out = (uint16_t) number;
    return n == 4 && number < BLOCKS;
}

/* What stands behind the space: "b/01d4". False: it cannot be read. */
static bool apply(struct applying *a, const char *rest, size_t n, const struct etcd_kv *kv)
{
    switch (rest[0]) {
    case 'b': return store_block_number(rest + 2, n - 2, &a->block) && apply_block(a, kv);
    case 'k': return apply_answer(a, kv);
    case 'l': return apply_lease(a, rest + 2, n - 2, kv);
    case 'm': return apply_node(a, rest + 2, n - 2, kv);
    case 'n': return apply_name(a, kv);
    case 'p': return apply_pool(a, rest + 2, n - 2, kv);
    case 's': return apply_sighting(a, kv);
    case 't':
        a->self->tail_revision = kv->mod_revision;
        return unpack_tail(packed(kv->value), &a->self->tail);
    case 'x': return apply_lost(a, kv);
    default: return true; /* not for the copy */
    }
}

/* ---- one record ---- */

/* What stands behind prefix and space; NULL: it is not there. */
static const char *rest_of(const struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv,
                           size_t *n)
{
    size_t head = store_key(self, space, 0).n;

    if (kv->key.n < head + 2)
        return NULL;
    *n = kv->key.n - head;
    return (const char *) kv->key.at + head;
}

char store_kind(const struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv)
{
    size_t n = 0;
    const char *rest = rest_of(self, space, kv, &n);

    if (!rest)
        return '\0';
    return *rest;
}

bool store_read_block(const struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv,
                      uint16_t *out)
{
    size_t n = 0;
    const char *rest = rest_of(self, space, kv, &n);

    return rest && store_block_number(rest + 2, n - 2, out);
}

bool store_read_name(const struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv,
                     struct name_record *out)
{
    size_t n = 0;
    const char *rest = rest_of(self, space, kv, &n);
    const char *end = rest ? memchr(rest + 2, '\0', n - 2) : NULL;

    if (!end || end - rest - 2 > DIBS_PRINCIPAL_MAX || rest + n - end - 1 > DIBS_NAME_MAX)
        return false;
    memcpy(out->principal, rest + 2, (size_t) (end - rest - 2));
    memcpy(out->name, end + 1, (size_t) (rest + n - end - 1));
    store_name_in(self, out);
    return true;
}

static bool take_record(struct applying *a, const struct etcd_kv *kv)
{
    size_t n = 0;
    const char *rest = rest_of(a->self, a->space, kv, &n);

    if (rest && apply(a, rest, n, kv))
        return true;
    if (a->s == DIBS_OK)
        a->s = err_trouble(a->err, DIBS_TROUBLE_DAMAGED,
                           "the ledger in etcd has a record that cannot be read: %.*s", (int) kv->key.n,
                           (const char *) kv->key.at);
    return false;
}

dibs_status store_apply(struct etcd_rows *self, enum store_space space, const struct etcd_kv *kv,
                        dibs_err *err)
{
    struct applying a = { .self = self, .space = space, .err = err };

    (void) take_record(&a, kv);
    return a.s;
}

/* ---- reading ---- */

static bool take_page(void *ctx, const struct etcd_kv *kvs, size_t n)
{
    struct applying *a = ctx;

    for (size_t i = 0; i < n; i++)
        if (!take_record(a, &kvs[i]))
            return false;
    return true;
}

/* All keys of these kinds, at the copy's revision. */
static dibs_status read_kinds(struct etcd_rows *self, enum store_space space, char from, char to,
                              dibs_err *err)
{
    struct applying a = { .self = self, .space = space, .err = err };
    struct store_key first = store_key(self, space, from);
    struct store_key last = store_key(self, space, to);
    struct store_key end = store_key_end(&last);
    struct etcd_call call = store_call(self);
    struct etcd_pages pages = { .key = store_key_bytes(&first),
                                .end = store_key_bytes(&end),
                                .page = PAGE_KEYS,
                                .revision = self->revision,
                                .take = take_page,
                                .ctx = &a };
    dibs_status s = etcd_read_pages(self->etcd, &call, &pages, &self->revision, err);

    self->is_overtaken = call.fault == ETCD_FAULT_COMPACTED;
    return s == DIBS_OK ? a.s : s;
}

static void forget(struct etcd_rows *self)
{
    const struct memory_table *slots = &self->near.tables.table[SLOTS];

    self->n_seen = 0;
    for (size_t i = 0; i < slots->n; i++)
        store_cooling_out(self, slots->item[i]);
    memory_tables_done(&self->near.tables);
    memory_tables_init(&self->near.tables, memory_kinds, TABLE_COUNT);
    memset(self->block_revision, 0, sizeof self->block_revision);
    memset(&self->shared, 0, sizeof self->shared);
    memset(&self->fenced, 0, sizeof self->fenced);
    self->revision = self->tail_revision = self->pools_revision = self->nodes_revision = 0;
    self->tail = (struct node_tail){ 0 };
    if (self->nodes)
        memset(self->nodes, 0, self->max_nodes * sizeof *self->nodes);
    self->n_nodes = self->n_lost = 0;
    self->has_number = false;
    self->is_loaded = false;
}

static void find_rank(struct etcd_rows *self)
{
    self->rank = self->n_hosts = 0;
    for (size_t i = 0; i < self->n_nodes; i++) {
        if (!self->nodes[i].name[0])
            continue;
        self->n_hosts++;
        self->rank += !self->has_number || i < store_number(self); /* they stand by their numbers */
    }
    self->n_hosts += !self->has_number;
}

static dibs_status load(struct etcd_rows *self, dibs_err *err)
{
    int64_t began_ms = clock_monotonic_ms();

    forget(self);
    self->traffic.n_loads++;
    dibs_status s = read_kinds(self, SPACE_CLUSTER, 'm', 'm', err); /* who is who, */
    find_rank(self);
    if (s == DIBS_OK)
        s = read_kinds(self, SPACE_CLUSTER, 'l', 'l', err); /* ... who lives, */
    if (s == DIBS_OK)
        s = read_kinds(self, SPACE_CLUSTER, 'p', 'p', err); /* ... and whose the ports are: */
    if (s == DIBS_OK)
        s = read_kinds(self, SPACE_CLUSTER, 'b', 'b', err);
    if (s == DIBS_OK)
        s = read_kinds(self, SPACE_CLUSTER, 'n', 'n', err);
    if (s == DIBS_OK)
        s = read_kinds(self, SPACE_HOST, 'b', 'b', err);
    if (s == DIBS_OK)
        s = read_kinds(self, SPACE_HOST, 'k', 'x', err);
    memory_commit(&self->near.tables);
    self->is_loaded = s == DIBS_OK;
    self->load_ms = clock_monotonic_ms() - began_ms;
    self->read_at = self->revision;
    self->is_loose = true; /* ports that are everybody's may not have been, or have been claimed without us */
    if (s == DIBS_OK && self->lease)
        store_compare_lease(self);
    return s;
}

dibs_status store_load(struct etcd_rows *self, dibs_err *err)
{
    enum { TRIES = 8 };
    dibs_status s = load(self, err);

    for (int i = 1; i < TRIES && s != DIBS_OK && self->is_overtaken; i++)
        s = load(self, err);
    return s;
}

dibs_status store_refresh(struct etcd_rows *self, dibs_err *err)
{
    struct store_key key = store_key(self, SPACE_HOST, 't');
    struct etcd_call call = store_call(self);
    struct etcd_op look = { .kind = ETCD_RANGE, .key = store_key_bytes(&key), .is_count_only = true };
    struct etcd_answer answer = { 0 };

    if (!self->is_loaded)
        return store_load(self, err);
    dibs_status s = etcd_do(self->etcd, &call, &look, &answer, err);
    bool is_same = s == DIBS_OK && answer.revision == self->revision;

    etcd_answer_done(&answer);
    return s != DIBS_OK || is_same ? s : store_load(self, err);
}
