/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_HOSTS_H
#define DIBS_TESTS_HOSTS_H
/* Three hosts on one ledger in a real etcd of three members, each with an engine of its own; and short ways
 * to ask for ports of the pool "nodeports" that they share. */
#include "support/core.h"
#include "support/etcd.h"

enum { HOSTS = 3 };
extern const char *const host_names[HOSTS];

struct cluster_case {
    struct engine e;
    struct core *at[HOSTS];
};

int hosts_start(void **state);
int hosts_open(void **state);
int hosts_close(void **state);

#define NEED_CLUSTER()  \
    do {                \
        need_network(); \
        NEED_ETCD();    \
    } while (0)

void hosts_make_pool(struct cluster_case *c, const char *name, const char *ranges, int64_t cooldown_ms);
dibs_status hosts_take(struct cluster_case *c, size_t host, uint16_t port, dibs_claim *out);
dibs_status hosts_take_any(struct cluster_case *c, size_t host, dibs_claim *out);

/* `n` at once: the storage is the same, and it takes less time. */
void hosts_take_many(struct cluster_case *c, size_t host, size_t n, struct portbits *seen);
void hosts_release(struct cluster_case *c, uint16_t port);

/* Free and used, as every host sees it. */
void hosts_check_usage(struct cluster_case *c, uint32_t free_ports, uint32_t used);
void hosts_check_list(struct cluster_case *c, const uint16_t *ports, size_t n);

#define HOSTS_TEST(name) cmocka_unit_test_setup_teardown(name, hosts_open, hosts_close)
#endif
