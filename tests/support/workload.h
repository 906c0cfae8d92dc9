/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_WORKLOAD_H
#define DIBS_TESTS_WORKLOAD_H
/* A group made by hand, on a ledger in memory, and short ways to sync it. */
#include <string.h>

#include "support/core.h"
#include "support/t.h"
#include "workload/workload.h"

struct world {
    dibs *handle;
    struct workload_group *group;
    dibs_err err;
};

/* A group made by hand: role `name` with `instances`, and ports that are filled in by the test. */
struct workload_role *add_role(struct workload_group *group, const char *name, uint32_t instances,
                               size_t n_ports);
int setup(void **state);
int teardown(void **state);
struct workload_plan sync_now(struct world *w);
void assert_counts(const struct workload_plan *plan, size_t keep, size_t add, size_t move, size_t drop);
uint16_t port_of(struct world *w, const char *name);

/* That process becomes the holder, as `dibs run` would make its child; 0: this one. */
void hold_by(struct world *w, const char *name, pid_t pid);
void hold(struct world *w, const char *name);
void let_go(struct world *w, const char *name);
const struct workload_change *change_of(const struct workload_plan *plan, const char *name);
dibs_claim claim_of(struct world *w, const char *name);
bool is_there(struct world *w, const char *name);

/* A sync of which only the claims that it makes are of interest. */
void sync_on(struct world *w);
void must_be(struct workload_port *port, uint16_t number);
dibs_status check_idle(struct world *w, uint32_t instance);
#endif
