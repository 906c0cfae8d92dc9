/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ETCD_LEASE_H
#define DIBS_LEDGER_ETCD_LEASE_H
/* The lease of this host in a cluster: c/l/NODE is there while it lives, and claims on ports that are
 * everybody's hang on it.
 *
 * A thread renews it with a client of its own, so that a commit that waits for a member costs no lease, and a
 * member that hangs costs no commit. An incarnation of a host is the revision in which c/l/NODE was made: it
 * is never the same again. A daemon that comes back while the key of its boot is still there goes on with
 * that incarnation; another boot of the same name is waited for, because it may be another machine. */
#include "etcd/etcd.h"

struct store_lease;

struct store_lease_options {
    const struct etcd_config *config; /* copied */
    struct etcd_bytes key;            /* copied, at most STORE_KEY_BYTES */
    const char *node;                 /* for messages; lives as long as the lease */
    const char *boot_id;
    int64_t ttl_ms; /* etcd has whole seconds, and a least one */
    int notice;     /* an eventfd, told of every change of the incarnation */
};

/* UNAVAILABLE: etcd does not answer. TAKEN: a host of another boot has that name, and renews its lease. */
dibs_status store_lease_open(const struct store_lease_options *options, struct store_lease **out,
                             dibs_err *err);
void store_lease_close(struct store_lease *lease); /* it runs on until its TTL ends; NULL is fine */

/* It may have ended: look at once. */
void store_lease_doubt(struct store_lease *lease);

struct store_lease_now {
    int64_t incarnation; /* 0: it has ended, and there is no other yet */
    int64_t until_ms;    /* CLOCK_BOOTTIME: until then nobody else may think that it has ended */
    int64_t ttl_ms;
    uint64_t n_ended; /* incarnations that were lost */
    char trouble[256];
};
void store_lease_look(struct store_lease *lease, struct store_lease_now *out);
#endif
