/* SPDX-License-Identifier: MIT */
/* Load the in-memory copy from etcd. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "store/etcd/etcd_store.h"

#include "base/banned.h"

enum { PAGE_KEYS = 256, EVENTS_PAGE_KEYS = 2048 }; /* a page of blocks has some megabytes at most */

struct etcd_call etcdstore_call(const struct etcd_store *self)
{
    return (struct etcd_call){ .deadline_ms = self->deadline_ms };
}

struct applying {
    struct etcd_store *self;
    enum etcdstore_space space;
    uint16_t block;
    uint64_t claimed; /* ports of the block with a claim, a bit each */
    dibs_status s;
    dibs_err *err;
};

static bool put(struct applying *a, enum record_kind table, const void *record)
{
    a->s = memory_put(&a->self->copy.tables, table, record, a->err);
    return a->s == DIBS_OK;
}

static const char *node_name(const struct etcd_store *self, uint32_t number)
{
    return number < self->n_nodes && self->nodes[number].name[0] ? self->nodes[number].name
                                                                 : "?"; /* it was removed */
}

/* Add its host to a principal that is a user of another host: "uid:1000@NODE". */
static void principal_in(const struct etcd_store *self, uint32_t node, char principal[DIBS_PRINCIPAL_MAX + 1])
{
    size_t n = strlen(principal);

    if (strncmp(principal, "uid:", 4) == 0 && !etcdstore_is_own(self, node))
        (void) snprintf(principal + n, DIBS_PRINCIPAL_MAX + 1 - n, "@%s", node_name(self, node));
}

static void name_in(const struct etcd_store *self, struct name_record *name)
{
    char *at = strchr(name->principal, '@');

    if (at && strcmp(at + 1, self->node) == 0)
        *at = '\0';
}

void etcdstore_cooling_out(struct etcd_store *self, const struct ledger_slot *slot)
{
    if (slot->claim_id != 0 || etcdstore_is_own(self, slot->node))
        return;
    /* Out of memory: it cools a little longer. */
    if (grow((void **) &self->seen, self->n_seen, &self->max_seen, sizeof *self->seen))
        self->seen[self->n_seen++] = *slot;
}

static void cooling_in(const struct etcd_store *self, struct ledger_slot *slot)
{
    if (etcdstore_is_own(self, slot->node))
        return;
    const struct ledger_slot *seen =
        self->n_seen ? bsearch(slot, self->seen, self->n_seen, sizeof *slot, memory_kinds[SLOTS].compare)
                     : NULL;

    slot->released_ms = seen && seen->node == slot->node && seen->there_ms == slot->there_ms
                            ? seen->released_ms
                            : clock_now(0).boot_ms;
}

/* ---- blocks ---- */

/* Return whether the port belongs to this block: elsewhere its claim could be seen twice, or never. */
static bool is_here(const struct applying *a, uint16_t port)
{
    return port / BLOCK_PORTS == a->block && etcdstore_space(a->self, port) == a->space;
}

static bool put_slots(struct applying *a, const struct claim_record *row)
{
    const dibs_claim *c = &row->claim;

    a->claimed |= UINT64_C(1) << c->port % BLOCK_PORTS;
    for (size_t i = 0; i < c->n_bindings; i++) {
        struct ledger_slot slot = record_slot(c, i);

        if (!put(a, SLOTS, &slot))
            return false;
    }
    return true;
}

static bool add_claim(void *ctx, struct claim_record *row)
{
    struct applying *a = ctx;

    if (!is_here(a, row->claim.port))
        return false;
    if (a->space == SPACE_CLUSTER) {
        principal_in(a->self, row->node, row->claim.principal);
        etcdstore_set_node(a->self, row);
    }
    return put(a, CLAIMS, row) && put_slots(a, row);
}

/* Block the port with a kept claim of an unknown holder (INV-6, INV-10). */
static bool block_port(struct applying *a, uint16_t port)
{
    struct claim_record row;

    record_make_lost(&row, INT64_MAX - port, port);
    row.node = a->space == SPACE_HOST ? etcdstore_number(a->self) : 0;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        row.claim.bindings[row.claim.n_bindings++] =
            (dibs_binding){ .proto = proto, .address = { .len = 16 } };
    return put(a, CLAIMS, &row) && put_slots(a, &row);
}

static bool add_damaged(void *ctx, uint16_t port)
{
    struct applying *a = ctx;

    return is_here(a, port) && block_port(a, port);
}

/* Block all ports of the block without a readable claim: any of them may have an unreadable one. */
static bool block_rest(struct applying *a)
{
    for (uint32_t port = a->block * (uint32_t) BLOCK_PORTS; port < (a->block + 1u) * BLOCK_PORTS; port++)
        if (port > 0 && is_here(a, (uint16_t) port) && !(a->claimed >> port % BLOCK_PORTS & 1) &&
            !block_port(a, (uint16_t) port))
            return false;
    return true;
}

static bool add_cooling(void *ctx, const struct ledger_slot *slot)
{
    struct applying *a = ctx;
    struct ledger_slot seen = *slot;

    if (!is_here(a, slot->port))
        return true; /* left over from before the port changed its scope */
    cooling_in(a->self, &seen);
    return put(a, SLOTS, &seen);
}

static bool apply_block(struct applying *a, const struct etcd_kv *kv)
{
    struct block_reader reader = { a, add_claim, add_damaged, add_cooling };

    a->claimed = 0;
    a->self->block_revision[a->space][a->block] = kv->mod_revision;
    return unpack_block(kv->value, &reader) || (a->s == DIBS_OK && block_rest(a));
}

/* ---- other records ---- */

static bool apply_node(struct applying *a, const char *name, size_t n, const struct etcd_kv *kv)
{
    struct etcd_store *self = a->self;
    uint64_t number = 0;

    if (kv->mod_revision > self->nodes_revision)
        self->nodes_revision = kv->mod_revision;
    if (n > DIBS_NODE_MAX || !unpack_number(kv->value, &number) || number >= STORE_NODES_MAX)
        return false;
    bool is_counter = n == strlen(STORE_NEXT_NODE) && memcmp(name, STORE_NEXT_NODE, n) == 0;
    if (number + !is_counter > self->n_nodes)
        self->n_nodes = number + !is_counter;
    if (is_counter)
        return true;
    memcpy(self->nodes[number].name, name, n);
    self->nodes[number].name[n] = '\0';
    if (strcmp(self->nodes[number].name, self->node) == 0) {
        self->state.has_number = true;
        self->copy.base.id_base = number << STORE_ID_SHIFT;
    }
    return true;
}

/* Make a name whose record is damaged: the ledger then searches for the claim with that name (INV-6). */
static bool make_lost_name(const struct applying *a, struct etcd_bytes rest, struct name_record *out)
{
    *out = (struct name_record){ .claim_id = INT64_MAX };
    for (uint16_t port = DIBS_PORT_MAX; port > 0 && out->port == 0; port--)
        if (etcdstore_space(a->self, port) == a->space)
            out->port = port; /* any port of that space: it determines the space of the key */
    return etcdstore_read_name(a->self, rest, out) && out->name[0];
}

/* Apply a node's lease. The watch reports the enrolment of a node that joined without a number. */
static bool apply_lease(struct applying *a, const char *name, size_t n, const struct etcd_kv *kv)
{
    size_t number = 0;

    if (etcdstore_find_node(a->self, name, n, &number))
        a->self->nodes[number].incarnation = kv->create_revision;
    return true;
}

static bool add_lost(void *ctx, struct claim_record *row)
{
    struct applying *a = ctx;
    struct claim_record *grown = realloc(a->self->lost, (a->self->n_lost + 1) * sizeof *grown);

    if (!grown)
        return false;
    a->self->lost = grown;
    a->self->lost[a->self->n_lost++] = *row;
    return true;
}

static bool add_event(void *ctx, const struct event_record *event)
{
    return put(ctx, EVENTS, event);
}

static bool apply_name(struct applying *a, struct etcd_bytes rest, const struct etcd_kv *kv)
{
    struct name_record name;

    if (!unpack_name(kv->value, &name) && !make_lost_name(a, rest, &name))
        return true; /* its key is damaged, too */
    name_in(a->self, &name);
    name.revision = kv->mod_revision;
    name.space = (int) a->space;
    /* A cluster-scope name wins over one that the host remembers from before. */
    const struct name_record *known = memory_get(&a->self->copy.tables, NAMES, &name);
    if (known && a->space == SPACE_HOST && known->space == SPACE_CLUSTER)
        return true;
    return put(a, NAMES, &name);
}

/* Apply a pool, or one of STORE_FENCE, STORE_REMOVAL and STORE_FORMAT. */
static bool apply_pool(struct applying *a, const char *name, size_t n, const struct etcd_kv *kv)
{
    dibs_pool pool;

    if (kv->mod_revision > a->self->pools_revision)
        a->self->pools_revision = kv->mod_revision;
    if (n == 1 && name[0] == STORE_FENCE[0])
        return unpack_ports(kv->value, &a->self->fenced);
    /* Only their revisions matter. A later format's name is none of these: it is a pool that cannot be read.
     */
    if (name[0] == STORE_REMOVAL[0] || (n == strlen(STORE_FORMAT) && memcmp(name, STORE_FORMAT, n) == 0))
        return true;
    if (!unpack_pool(kv->value, &pool))
        return false;
    if (pool.scope == DIBS_SCOPE_CLUSTER)
        portbits_add_ranges(&a->self->shared, &pool.ranges);
    return put(a, POOLS, &pool);
}

static bool apply_header(struct applying *a, const struct etcd_kv *kv)
{
    struct ledger_header header = { 0 };

    if (!unpack_header(kv->value, &header))
        return false;
    a->self->format = header.major;
    a->self->copy.base.salt = header.salt;
    return true;
}

/* Apply a fact. An unreadable one is empty, until the controller writes it again (INV-6). */
static bool apply_fact(struct applying *a, const char *subject, size_t n, const struct etcd_kv *kv)
{
    struct fact_record fact;

    if (!unpack_fact(kv->value, &fact))
        fact = (struct fact_record){ 0 };
    if (n >= sizeof fact.subject)
        return true; /* not of dibs */
    memcpy(fact.subject, subject, n);
    fact.revision = kv->mod_revision;
    return put(a, FACTS, &fact);
}

/* Apply one key to the copy; `rest` is the key without prefix and space: "b/01d4". False: not decodable. */
static bool apply(struct applying *a, struct etcd_bytes rest, const struct etcd_kv *kv)
{
    const char *name = (const char *) rest.at + 2;
    size_t n = rest.n - 2;
    struct answer_record answer;
    struct sighting_record sighting;

    switch (name[-2]) {
    case 'b': return etcdstore_read_block(rest, &a->block) && apply_block(a, kv);
    case 'e':
        (void) unpack_events(kv->value, add_event, a); /* events that cannot be decoded are skipped */
        return a->s == DIBS_OK;
    case 'f': return apply_fact(a, name, n, kv);
    case 'k': return unpack_answer(kv->value, &answer) && put(a, ANSWERS, &answer);
    case 'l': return apply_lease(a, name, n, kv);
    case 'm': return apply_node(a, name, n, kv);
    case 'n': return apply_name(a, rest, kv);
    case 'p': return apply_pool(a, name, n, kv);
    case 's': return !unpack_sighting(kv->value, &sighting) || put(a, SIGHTINGS, &sighting);
    case 'v': return apply_header(a, kv);
    case 't': a->self->tail_revision = kv->mod_revision; return unpack_tail(kv->value, &a->self->tail);
    case 'x': return unpack_block(kv->value, &(struct block_reader){ .ctx = a, .claim = add_lost });
    default: return true; /* other kinds are not part of the copy */
    }
}

struct etcd_bytes etcdstore_rest(const struct etcd_store *self, enum etcdstore_space space,
                                 const struct etcd_kv *kv)
{
    size_t head = etcdstore_key(self, space, 0).n;

    if (kv->key.n < head + 2)
        return (struct etcd_bytes){ "", 0 };
    return (struct etcd_bytes){ (const char *) kv->key.at + head, kv->key.n - head };
}

bool etcdstore_read_name(const struct etcd_store *self, struct etcd_bytes rest, struct name_record *out)
{
    const char *principal = (const char *) rest.at + 2;
    const char *end = memchr(principal, '\0', rest.n - 2);
    size_t n = end ? (size_t) (end - principal) : 0;
    size_t n_name = rest.n - 2 - n - 1;

    if (!end || n > DIBS_PRINCIPAL_MAX || n_name > DIBS_NAME_MAX)
        return false;
    memcpy(out->principal, principal, n);
    memcpy(out->name, end + 1, n_name);
    name_in(self, out);
    return true;
}

bool etcdstore_read_block(struct etcd_bytes rest, uint16_t *out)
{
    static const char digits[] = "0123456789abcdef";
    const char *text = rest.at;
    uint32_t number = 0;

    for (size_t i = 2; i < rest.n; i++) {
        const char *digit = memchr(digits, text[i], sizeof digits - 1);

        if (!digit)
            return false;
        number = number << 4 | (uint32_t) (digit - digits);
    }
    *out = (uint16_t) number;
    return rest.n == 6 && number < BLOCKS;
}

static bool take_record(struct applying *a, const struct etcd_kv *kv)
{
    struct etcd_bytes rest = etcdstore_rest(a->self, a->space, kv);

    if (rest.n > 0 && apply(a, rest, kv))
        return true;
    if (a->s == DIBS_OK)
        a->s = err_trouble(a->err, DIBS_TROUBLE_DAMAGED,
                           "the ledger in etcd has a record that cannot be read: %.*s", (int) kv->key.n,
                           (const char *) kv->key.at);
    return false;
}

dibs_status etcdstore_apply(struct etcd_store *self, enum etcdstore_space space, const struct etcd_kv *kv,
                            dibs_err *err)
{
    struct applying a = { .self = self, .space = space, .err = err };

    (void) take_record(&a, kv);
    return a.s;
}

static bool take_page(void *ctx, const struct etcd_kv *kvs, size_t n)
{
    struct applying *a = ctx;

    for (size_t i = 0; i < n; i++)
        if (!take_record(a, &kvs[i]))
            return false;
    return true;
}

static bool read_blocks(void *ctx, const struct etcd_kv *kvs, size_t n)
{
    struct blocks_read *r = ctx;

    for (size_t i = 0; i < n; i++)
        r->is_whole = unpack_block(kvs[i].value, r->to) && r->is_whole;
    return true;
}

dibs_status etcdstore_read_blocks(struct etcd_store *self, const struct etcdstore_key *first,
                                  const struct etcdstore_key *end, struct blocks_read *read, dibs_err *err)
{
    struct etcd_call call = etcdstore_call(self);
    struct etcd_op range = { .kind = ETCD_RANGE,
                             .key = etcdstore_key_bytes(first),
                             .end = etcdstore_key_bytes(end),
                             .limit = PAGE_KEYS };

    read->is_whole = true;
    dibs_status s = etcd_read_pages(self->etcd, &call, &range, read_blocks, read, err);
    read->revision = range.revision;
    return s;
}

/* Read all keys of these kinds at the copy's revision. */
static dibs_status read_kinds(struct etcd_store *self, enum etcdstore_space space, char from, char to,
                              dibs_err *err)
{
    struct applying a = { .self = self, .space = space, .err = err };
    struct etcdstore_key first = etcdstore_key(self, space, from);
    struct etcdstore_key last = etcdstore_key(self, space, to);
    struct etcdstore_key end = etcdstore_key_end(&last);
    struct etcd_call call = etcdstore_call(self);
    struct etcd_op range = { .kind = ETCD_RANGE,
                             .key = etcdstore_key_bytes(&first),
                             .end = etcdstore_key_bytes(&end),
                             .limit = from == 'e' ? EVENTS_PAGE_KEYS : PAGE_KEYS,
                             .revision = self->revision };
    dibs_status s = etcd_read_pages(self->etcd, &call, &range, take_page, &a, err);

    self->revision = range.revision;
    self->is_overtaken = call.fault == ETCD_FAULT_COMPACTED;
    return s == DIBS_OK ? a.s : s;
}

static void forget(struct etcd_store *self)
{
    const struct memory_table *slots = &self->copy.tables.table[SLOTS];

    self->n_seen = 0;
    for (size_t i = 0; i < slots->n; i++)
        etcdstore_cooling_out(self, slots->item[i]);
    memory_tables_done(&self->copy.tables);
    memset(self->block_revision, 0, sizeof self->block_revision);
    memset(&self->shared, 0, sizeof self->shared);
    memset(&self->fenced, 0, sizeof self->fenced);
    self->revision = self->tail_revision = self->pools_revision = self->nodes_revision = 0;
    self->tail = (struct node_tail){ 0 };
    memset(self->nodes, 0, self->n_nodes * sizeof *self->nodes);
    self->n_nodes = self->n_lost = 0;
    self->format = 0;
    self->state.has_number = false;
    self->is_loaded = false;
}

static void find_rank(struct etcd_store *self)
{
    self->state.rank = self->state.n_hosts = 0;
    for (size_t i = 0; i < self->n_nodes; i++) {
        if (!self->nodes[i].name[0])
            continue;
        self->state.n_hosts++;
        self->state.rank +=
            !self->state.has_number || i < etcdstore_number(self); /* nodes are indexed by number */
    }
    self->state.n_hosts += !self->state.has_number;
}

/* After a reload of the copy, check that our lease still exists. */
static void compare_lease(const struct etcd_store *self)
{
    int64_t known = self->state.has_number ? self->nodes[etcdstore_number(self)].incarnation : 0;
    struct ledger_lease now = { 0 };

    etcdstore_lease_state(self, &now);
    if (now.incarnation != 0 && now.incarnation <= self->read_at && now.incarnation != known)
        etcdstore_lease_recheck(self->lease);
}

static dibs_status load(struct etcd_store *self, dibs_err *err)
{
    static const struct {
        enum etcdstore_space space;
        char from, to;
    } parts[] = {
        { SPACE_CLUSTER, 'm', 'm' }, /* the nodes */
        { SPACE_CLUSTER, 'l', 'l' }, /* their leases */
        { SPACE_CLUSTER, 'f', 'f' }, /* facts */
        { SPACE_CLUSTER, 'p', 'v' }, /* the pools, which decide the scope of the ports below; the header */
        { SPACE_CLUSTER, 'b', 'b' }, { SPACE_CLUSTER, 'n', 'n' }, { SPACE_HOST, 'b', 'b' },
        { SPACE_HOST, 'e', 'e' },    { SPACE_HOST, 'k', 'x' },
    };
    int64_t began_ms = clock_monotonic_ms();
    int64_t revision = self->revision;
    uint64_t cluster_id = self->cluster_id;
    dibs_status s = DIBS_OK;

    forget(self);
    self->state.traffic.n_loads++;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && s == DIBS_OK; i++)
        s = read_kinds(self, parts[i].space, parts[i].from, parts[i].to, err);
    find_rank(self);
    memory_commit(&self->copy.tables);
    self->cluster_id = etcd_cluster_id(self->etcd);
    /* The watches have seen revisions that this etcd does not have. A failed read counts as that, too. */
    self->is_cut =
        self->is_cut || self->revision < revision || (cluster_id != 0 && self->cluster_id != cluster_id);
    if (s == DIBS_OK && self->format != STORE_MAJOR)
        s = etcdstore_check_header(self, err); /* it was lost with the data, or an older dibs wrote it */
    if (s == DIBS_OK && self->lease && self->is_cut)
        s = etcdstore_lease_rejoin(self->lease, self->deadline_ms, err);
    self->is_loaded = s == DIBS_OK;
    self->load_ms = clock_monotonic_ms() - began_ms;
    self->read_at = self->revision;
    self->is_unattached = true; /* a snapshot may have restored claims of this node */
    if (s == DIBS_OK && self->lease)
        compare_lease(self);
    return s;
}

dibs_status etcdstore_load(struct etcd_store *self, dibs_err *err)
{
    dibs_status s = load(self, err);

    for (int i = 1; i < STORE_TRIES_MAX && s != DIBS_OK && self->is_overtaken; i++)
        s = load(self, err);
    return s;
}
