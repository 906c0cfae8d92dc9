/* SPDX-License-Identifier: MIT */
/* The stores of dibs-serve-etcd and dibs-kube: with etcd, which needs an HTTP client. */
#include "store/store.h"

#include "base/banned.h"

const struct store_ops *const store_backends[] = { &store_sqlite_ops, &store_memory_ops, &store_etcd_ops,
                                                   NULL };
