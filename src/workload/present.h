/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_PRESENT_H
#define DIBS_WORKLOAD_PRESENT_H
/* The existing claims of a group, recognised by their names: five parts, the third an instance or "-", and
 * a sixth, the number, if it was moved while in use. Other names in the group are the user's own. */
#include "workload/workload.h"

bool present_is_manifest_name(const char *name);
/* Return whether a pod without ports of its own declared this claim to show that it uses a port of its role
 * or of another role. No need has that claim. */
bool present_is_use(const dibs_claim *claim);
/* Return the length of the pod's name in this one: "shop/web/0/-" of "shop/web/0/-/http/8080". */
size_t present_pod_length(const char *name);

struct present {
    dibs_claim *claims; /* revalidated, sorted by name */
    size_t n, max;
    bool is_full; /* out of memory */
};
void present_free(struct present *p);
/* List the claims of the group's directory, also under its former names, or else of the group. */
dibs_status present_list(dibs *handle, const struct workload_group *group, struct present *out,
                         dibs_err *err);
/* Return the index of the name; n: it has no claim. */
size_t present_find(const struct present *p, const char *name);
/* Return whether the claim is held, or possibly held (INV-5). */
bool present_is_held(const dibs_claim *claim);
/* Return whether a process holds it. A lease does not show that a process runs. */
bool present_is_run_with(const dibs_claim *claim);
/* Return the length of the prefix of the pods' claims of a RoleScoped port, "shop/web/"; 0: not one. */
size_t present_shared_length(const dibs_claim *claim);
/* Find the user of a RoleScoped port, which has no holder of its own: the first held claim of its pods,
 * processes before leases. NULL: not RoleScoped, or no pod of the role has a held claim. */
const dibs_claim *present_role_user(const struct present *p, const dibs_claim *claim);
#endif
