/* SPDX-License-Identifier: MIT */
/* What a ledger in etcd has once: its mark, and a number for each host. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

/* Puts it unless it is there; *found is what is there then. */
static dibs_status put_once(struct etcd_rows *self, const struct store_key *key, const struct bytes *value,
                            const struct etcd_compare *also, struct etcd_answer *answer, dibs_err *err)
{
    struct etcd_compare compares[2] = { { .target = ETCD_CREATE_REVISION, .key = store_key_bytes(key) } };
    struct etcd_op put = { .kind = ETCD_PUT, .key = store_key_bytes(key), .value = { value->at, value->n } };
    struct etcd_op look = { .kind = ETCD_RANGE, .key = store_key_bytes(key) };
    struct etcd_txn txn = { compares, also ? 2 : 1, &put, 1, &look, 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    struct etcd_call call = store_call(self);

    call.may_repeat = true; /* then it is there */
    if (also)
        compares[1] = *also;
    return value->is_lost ? err_set(err, DIBS_FAILURE, "changing the ledger: out of memory")
                          : etcd_do(self->etcd, &call, &op, answer, err);
}

dibs_status store_mark(struct etcd_rows *self, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct ledger_mark mark = { .major = STORE_MAJOR };
    struct store_key key = store_key(self, SPACE_CLUSTER, 'v');
    struct bytes value = { 0 };

    if (getrandom(&mark.salt, sizeof mark.salt, 0) != (ssize_t) sizeof mark.salt)
        return err_os(err, DIBS_FAILURE, errno, "opening the ledger");
    pack_mark(&value, &mark);
    dibs_status s = put_once(self, &key, &value, NULL, &answer, err);
    bytes_done(&value);
    if (s != DIBS_OK)
        return s;
    if (!answer.result.succeeded) {
        const struct etcd_result *found = answer.result.n_results == 1 ? &answer.result.results[0] : NULL;

        if (!found || found->n_kvs != 1 ||
            !unpack_mark((struct packed){ found->kvs[0].value.at, found->kvs[0].value.n }, &mark))
            return err_trouble(err, DIBS_TROUBLE_DAMAGED, "what is below '%s' in etcd is no ledger of dibs",
                               self->config.prefix);
    }
    if (mark.major > STORE_MAJOR)
        return err_trouble(err, DIBS_TROUBLE_NEWER,
                           "the ledger in etcd has format %u, this dibs knows %d; it was not touched",
                           mark.major, STORE_MAJOR);
    self->near.salt = mark.salt;
    return DIBS_OK;
}

static bool has_number(const struct etcd_rows *self, const char *node)
{
    size_t number = 0;

    return store_find_node(self, node, strlen(node), &number);
}

dibs_status store_enrol_other(struct etcd_rows *self, const char *node, dibs_err *err)
{
    enum { TRIES = 32 };
    dibs_status s = DIBS_OK;

    for (int i = 0; i < TRIES && s == DIBS_OK && !has_number(self, node); i++) {
        AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
        struct store_key key = store_key(self, SPACE_CLUSTER, 'm');
        struct store_key all = key;
        struct store_key end = store_key_end(&all);
        struct bytes value = { 0 };
        uint64_t number = self->n_nodes;

        struct etcd_compare same = { .target = ETCD_MOD_REVISION,
                                     .relation = ETCD_LESS,
                                     .key = store_key_bytes(&all),
                                     .end = store_key_bytes(&end),
                                     .number = self->revision + 1 };
        store_key_add(&key, node, strlen(node));
        pack_number(&value, number);
        s = number < STORE_NODES_MAX
                ? put_once(self, &key, &value, &same, &answer, err)
                : err_trouble(err, DIBS_TROUBLE_FULL, "the ledger in etcd knows %d hosts already",
                              STORE_NODES_MAX);
        bytes_done(&value);
        if (s == DIBS_OK)
            s = store_load(self, err);
    }
    if (s == DIBS_OK && !has_number(self, node))
        return err_trouble(err, DIBS_TROUBLE_LOCKED,
                           "too many hosts join the ledger in etcd at once; try again");
    return s;
}

dibs_status store_enrol(struct etcd_rows *self, dibs_err *err)
{
    return store_enrol_other(self, self->node, err);
}
