/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_PRESENT_H
#define DIBS_WORKLOAD_PRESENT_H
/* The claims that a group has made. They are known by their names: five parts, the third an instance or "-",
 * and of those that were moved while they were in use the number as a sixth. Other names in the group are a
 * person's own, and are left alone. */
#include "workload/workload.h"

bool present_is_manifest_name(const char *name);
/* Is it the claim by which a pod without a port of its own declares that it uses this one, a port of its
 * whole role or of another role? No need has that claim. */
bool present_is_use(const dibs_claim *claim);
/* How long its pod's name within this one is: "shop/web/0/-" of "shop/web/0/-/http/8080". */
size_t present_pod_length(const char *name);

struct present {
    dibs_claim *claims; /* judged, sorted by name */
    size_t n, max;
    bool is_full; /* no memory */
};
void present_free(struct present *p);
/* List the claims of the group's directory, also those of a group name that its manifest had before; without
 * a directory those of the group. */
dibs_status present_list(dibs *handle, const struct workload_group *group, struct present *out,
                         dibs_err *err);
/* The place of the name; n: it has no claim. */
size_t present_find(const struct present *p, const char *name);
/* Is the claim held, as far as is known (INV-5)? */
bool present_is_held(const dibs_claim *claim);
/* Is it held by a process? A lease is the user's own and does not show that anything runs. */
bool present_is_run_with(const dibs_claim *claim);
/* How much of a whole role's port's name those of its pods' claims begin with: "shop/web/". 0: it is no such
 * port. */
size_t present_shared_length(const dibs_claim *claim);
/* Find the user of a port of a whole role, which has no holder of its own: the first of its pods' held
 * claims, processes before leases. NULL: it is no such port, or no pod of the role has a held claim. */
const dibs_claim *present_role_user(const struct present *p, const dibs_claim *claim);
#endif
