/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_ETCD_LEDGER_H
#define DIBS_TESTS_ETCD_LEDGER_H
/* Several hosts on one ledger in a real etcd: each is a handle with a name of its own. */
#include <poll.h>

#include "support/etcd.h"
#include "support/ledger.h"

/* Each case has a prefix of its own; hosts are handles with a name. */
struct ledger *host_for(const struct t_ledger *t, const char *node, int64_t timeout_ms);
struct ledger *host(const struct t_ledger *t, const char *node);

/* Wait until the ledger has more notices than `before`, ten seconds at most. */
void follow(struct ledger *ledger, uint64_t before);
int open_case(void **state);
int close_case(void **state);
dibs_status try_claim(struct t_ledger *t, struct ledger *ledger, const struct ledger_want *want,
                      dibs_claim *out);
/* Claim this port for any address. */
dibs_status claim_port(struct t_ledger *t, struct ledger *ledger, uint16_t port, dibs_claim *out);
dibs_claim must_claim(struct t_ledger *t, struct ledger *ledger, const struct ledger_want *want);
void make_pool(struct t_ledger *t, struct ledger *ledger, const char *name, dibs_range range);

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_case, close_case)
#endif
