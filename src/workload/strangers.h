/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_STRANGERS_H
#define DIBS_WORKLOAD_STRANGERS_H
/* Finds processes that listen on a claimed port and do not belong to its claim. A claim without a holder is
 * not defended by the kernel: any program can bind its port. */
#include "workload/workload.h"

/* The ports of this network namespace that had a socket a moment ago. Start with zeros. */
struct strangers;
struct strangers *strangers_new(void);
void strangers_free(struct strangers **self);

/* Is any socket on the claim's port? Most ports have none, and one read answers for all of them. */
bool strangers_is_used(struct strangers *self, const dibs_claim *claim);
/* Find a socket that uses the claim's port, listens, and is not the claim's: its user is another one, or, on
 * a kept claim without a holder, its process works outside of the claim's project. `group` (may be NULL): the
 * ports of its containers may belong to root, whose program passes their connections on. */
bool strangers_find(struct strangers *self, dibs *handle, const struct workload_group *group,
                    const dibs_claim *claim, dibs_socket *out);
#endif
