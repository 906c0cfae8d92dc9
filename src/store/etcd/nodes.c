/* SPDX-License-Identifier: MIT */
/* The ledger's header in etcd, the numbers of its nodes, and compaction. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/etcd/etcd_store.h"

#include "base/banned.h"

/* Put a key unless it exists; the answer has its value then. A check puts nothing. */
static dibs_status put_once(struct etcd_store *self, const struct etcdstore_key *key,
                            const struct bytes *value, const struct etcd_compare *also,
                            struct etcd_answer *answer, dibs_err *err)
{
    struct etcd_compare compares[2] = { etcdstore_same(key, 0) };
    struct etcd_op put = etcdstore_put_op(key, value);
    struct etcd_op look = etcdstore_read_op(key);
    struct etcd_txn txn = { compares, also ? 2 : 1, &put, self->is_check ? 0 : 1, &look, 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    struct etcd_call call = etcdstore_call(self);

    call.may_repeat = true; /* repeating is harmless: the key exists then */
    if (also)
        compares[1] = *also;
    return value->is_lost ? err_set(err, DIBS_FAILURE, "changing the ledger: out of memory")
                          : etcd_do(self->etcd, &call, &op, answer, err);
}

/* Raise the format of a ledger that an older dibs created. Running processes of that version then fail to
 * commit, because every commit compares the pools, and to read. Their leases and claims stay. */
static dibs_status upgrade(struct etcd_store *self, const struct etcd_kv *found, uint64_t salt, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    AUTO(bytes_done) struct bytes value = { 0 };
    struct etcdstore_key key = etcdstore_key(self, SPACE_CLUSTER, 'v');
    struct etcdstore_key fence = etcdstore_named_key(self, 'p', STORE_FORMAT);
    struct etcd_call call = etcdstore_call(self);

    pack_header(&value, &(struct ledger_header){ .major = STORE_MAJOR, .salt = salt });
    if (value.is_lost)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    struct etcd_compare same = etcdstore_same(&key, found->mod_revision);
    struct etcd_op both[] = {
        etcdstore_put_op(&key, &value),
        { .kind = ETCD_PUT, .key = etcdstore_key_bytes(&fence), .value = { "2", 1 } },
    };
    struct etcd_txn txn = { &same, 1, both, 2, NULL, 0 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    return etcd_do(self->etcd, &call, &op, &answer, err); /* else another process has done it */
}

dibs_status etcdstore_check_header(struct etcd_store *self, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct ledger_header header = { .major = STORE_MAJOR };
    struct etcdstore_key key = etcdstore_key(self, SPACE_CLUSTER, 'v');
    struct bytes value = { 0 };

    if (getrandom(&header.salt, sizeof header.salt, 0) != (ssize_t) sizeof header.salt)
        return err_os(err, DIBS_FAILURE, errno, "opening the ledger");
    pack_header(&value, &header);
    dibs_status s = put_once(self, &key, &value, NULL, &answer, err);
    bytes_done(&value);
    if (s != DIBS_OK)
        return s;
    if (!answer.result.succeeded) {
        const struct etcd_result *found = answer.result.n_results == 1 ? &answer.result.results[0] : NULL;

        if (!found || found->n_kvs != 1 || !unpack_header(found->kvs[0].value, &header))
            return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                               "the keys below '%s' in etcd are not a ledger of dibs", self->config.prefix);
        if (header.major < STORE_MAJOR && !self->is_check)
            s = upgrade(self, &found->kvs[0], header.salt, err);
        if (s != DIBS_OK)
            return s;
    }
    if (header.major > STORE_MAJOR)
        return err_trouble(err, DIBS_TROUBLE_NEWER,
                           "the ledger in etcd has format %u, this dibs knows %d; it was not touched",
                           header.major, STORE_MAJOR);
    self->copy.base.salt = header.salt;
    return DIBS_OK;
}

static bool has_number(const struct etcd_store *self, const char *node)
{
    size_t number = 0;

    return etcdstore_find_node(self, node, strlen(node), &number);
}

dibs_status etcdstore_enrol(struct etcd_store *self, const char *node, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (int i = 0; i < STORE_TRIES_MAX && s == DIBS_OK && !has_number(self, node); i++) {
        AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
        struct etcdstore_key key = etcdstore_named_key(self, 'm', node);
        struct etcdstore_key all = etcdstore_key(self, SPACE_CLUSTER, 'm');
        struct etcdstore_key end = etcdstore_key_end(&all);
        struct bytes value = { 0 };
        uint64_t number = self->n_nodes;

        struct etcd_compare same = etcdstore_not_newer(&all, &end, self->revision);
        pack_number(&value, &number);
        s = number < STORE_NODES_MAX
                ? put_once(self, &key, &value, &same, &answer, err)
                : err_trouble(err, DIBS_TROUBLE_FULL, "the ledger in etcd knows %d hosts already",
                              STORE_NODES_MAX);
        bytes_done(&value);
        if (s == DIBS_OK)
            s = etcdstore_load(self, err);
    }
    if (s == DIBS_OK && !has_number(self, node))
        return err_trouble(err, DIBS_TROUBLE_LOCKED,
                           "too many hosts join the ledger in etcd at once; try again");
    return s;
}

void etcdstore_nodes(const struct store *store, dibs_node_fn fn, void *ctx)
{
    const struct etcd_store *self = (const struct etcd_store *) store;
    bool goes_on = true;

    for (size_t i = 0; i < self->n_nodes && goes_on; i++) {
        dibs_node node = { .is_here = etcdstore_is_own(self, (uint32_t) i),
                           .is_alive = self->nodes[i].incarnation != 0 };

        memcpy(node.name, self->nodes[i].name, sizeof node.name);
        goes_on = !node.name[0] || fn(ctx, &node);
    }
}

static bool count_claim(void *ctx, struct claim_record *row)
{
    (void) row;
    ++*(size_t *) ctx;
    return true;
}

static bool count_damaged(void *ctx, uint16_t port)
{
    (void) port;
    ++*(size_t *) ctx;
    return true;
}

dibs_status etcdstore_count_node(struct store *store, const char *name, size_t *n, int64_t *since,
                                 dibs_err *err)
{
    struct etcd_store *self = etcdstore_begin_call(store);
    struct etcdstore_key first = etcdstore_host_key(self, name, 'b');
    struct etcdstore_key end = etcdstore_key_end(&first);
    struct block_reader counting = { .ctx = n, .claim = count_claim, .damaged = count_damaged };
    struct blocks_read read = { .to = &counting };

    *n = 0;
    self->is_loaded = false;
    dibs_status s = etcdstore_read_blocks(self, &first, &end, &read, err);
    *since = read.revision;
    return s;
}

/* Remove a host in one Txn, if it has committed nothing since and its lease is unchanged. Claims contain its
 * number, so it is never used again: the next number is kept under a name that no host can have. */
dibs_status etcdstore_forget_node(struct store *store, const char *name, int64_t since, dibs_err *err)
{
    struct etcd_store *self = etcdstore_of(store);
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    AUTO(bytes_done) struct bytes next = { 0 };
    struct etcd_call call = etcdstore_call(self);
    size_t number = 0;

    if (!etcdstore_find_node(self, name, strlen(name), &number))
        return err_set(err, DIBS_NOT_FOUND, "no host is called '%.60s' in the cluster", name);
    struct etcdstore_key tail = etcdstore_host_key(self, name, 't');
    struct etcdstore_key own = etcdstore_host_key(self, name, '\0');
    struct etcdstore_key own_end = etcdstore_key_end(&own);
    struct etcdstore_key lease = etcdstore_named_key(self, 'l', name);
    struct etcdstore_key member = etcdstore_named_key(self, 'm', name);
    struct etcdstore_key counter = etcdstore_named_key(self, 'm', STORE_NEXT_NODE);
    uint64_t n_nodes = self->n_nodes;
    pack_number(&next, &n_nodes);
    if (next.is_lost)
        return err_set(err, DIBS_FAILURE, "removing a host: out of memory");
    struct etcd_compare compares[] = {
        { .target = ETCD_CREATE_REVISION,
          .key = etcdstore_key_bytes(&lease),
          .number = self->nodes[number].incarnation },
        etcdstore_not_newer(&tail, &(struct etcdstore_key){ .n = 0 }, since),
    };
    struct etcd_op ops[] = {
        { .kind = ETCD_DELETE, .key = etcdstore_key_bytes(&own), .end = etcdstore_key_bytes(&own_end) },
        { .kind = ETCD_DELETE, .key = etcdstore_key_bytes(&lease) },
        { .kind = ETCD_DELETE, .key = etcdstore_key_bytes(&member) },
        etcdstore_put_op(&counter, &next),
    };
    struct etcd_txn txn = { .compares = compares, .n_compares = 2, .then = ops, .n_then = 4 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    dibs_status s = etcd_do(self->etcd, &call, &op, &answer, err);
    self->is_loaded = false;
    if (s == DIBS_OK && !answer.result.succeeded)
        return err_set(err, DIBS_TAKEN, "host '%.60s' is active: its records have just changed", name);
    return s;
}

/* ---- compaction: at a thousand commits a second, old versions fill etcd's quota within minutes. The node
 * with the oldest lease removes versions older than LEDGER_COMPACT_MS, unless there is plenty of space:
 * others may need the history. A watch that was interrupted for longer reads the whole copy again. ---- */

enum { STATUS_TIMEOUT_MS = 1000 }; /* timeout of the status request; the daemon waits for it */

/* Return whether this host has the oldest lease. */
static bool has_oldest_lease(const struct etcd_store *self)
{
    struct ledger_lease mine;

    etcdstore_lease_state(self, &mine);
    for (size_t i = 0; i < self->n_nodes; i++)
        if (self->nodes[i].incarnation != 0 && self->nodes[i].incarnation < mine.incarnation)
            return false;
    return mine.margin_ms > 0;
}

static bool ask_status(struct etcd_store *self, struct etcd_call *call, struct etcd_status *out)
{
    for (size_t i = 0; i < self->config.n_origins; i++)
        if (etcd_status(self->etcd, call, i, out, NULL) == DIBS_OK)
            return true;
    return false;
}

void etcdstore_compact(struct etcd_store *self, int64_t plenty_bytes)
{
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + STATUS_TIMEOUT_MS };
    struct etcd_status status = { 0 };
    int64_t old = self->compact_revision;

    self->compact_revision = 0;
    if (!self->is_loaded || self->silent_ms != 0 || !has_oldest_lease(self) ||
        !ask_status(self, &call, &status))
        return; /* another host's turn, or etcd does not answer */
    self->compact_revision = status.revision;
    /* Ignore a failure: the next call tries again. */
    if (old > 0 && status.db_used_bytes > plenty_bytes)
        self->state.traffic.n_compactions += etcd_compact(self->etcd, &call, old, NULL) == DIBS_OK;
}
