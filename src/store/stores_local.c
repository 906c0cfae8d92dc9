/* SPDX-License-Identifier: MIT */
/* The stores of dibs, dibs-serve and libdibs: those of one host. An etcd URI can be checked, but not opened.
 */
#include "base/err.h"
#include "store/etcd/client/config.h"
#include "store/memory/table.h"

#include "base/banned.h"

static dibs_status refuse_etcd(const char *rest, const struct ledger_options *options, struct store **out,
                               dibs_err *err)
{
    (void) options;
    (void) out;
    return err_set(err, DIBS_UNAVAILABLE,
                   "only a daemon opens the ledger etcd:%.200s: start 'dibs serve' on this host, and use its "
                   "socket",
                   rest);
}

static dibs_status members_of_etcd(const char *rest, int64_t timeout_ms, struct ledger_cluster *out,
                                   dibs_err *err)
{
    (void) timeout_ms;
    (void) out;
    return err_set(err, DIBS_UNAVAILABLE, "this program cannot ask the members of etcd:%.200s", rest);
}

/* The other members need an open store. */
static const struct cluster_ops cluster_refused = { .members = members_of_etcd };
static const struct store_ops etcd_refused = { .scheme = "etcd",
                                               .cluster = &cluster_refused,
                                               .check = etcd_config_check,
                                               .open = refuse_etcd,
                                               .salvage = memory_rows_salvage };

const struct store_ops *const store_backends[] = { &store_sqlite_ops, &store_memory_ops, &etcd_refused,
                                                   NULL };
