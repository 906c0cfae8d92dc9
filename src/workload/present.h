/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_PRESENT_H
#define DIBS_WORKLOAD_PRESENT_H
/* The claims that a group has made. They are known by their names: five parts, the third an instance or "-",
 * and of those that were moved while they were in use the number as a sixth. Whatever else has a name in the
 * group is a person's own, and is left alone. */
#include "workload/workload.h"

bool present_is_manifest_name(const char *name);
/* A sign that a pod runs, no port of the manifest's (workload_sign_name). */
bool present_is_sign(const char *name);
/* How long its pod's name within this one is: "shop/web/0/-" of "shop/web/0/-/http/8080". */
size_t present_pod_length(const char *name);

struct present {
    dibs_claim *claims; /* judged, sorted by name */
    size_t n, max;
    bool is_full; /* no memory */
};
void present_free(struct present *p);
/* A directory's claims are its manifest's, also those of a group that the manifest had before; without a
 * directory those of the group are. */
dibs_status present_list(dibs *handle, const struct workload_group *group, struct present *out,
                         dibs_err *err);
/* The place of the name; n: it has no claim. */
size_t present_find(const struct present *p, const char *name);
/* Does somebody hold the claim, as far as is known (INV-5)? */
bool present_is_held(const dibs_claim *claim);
/* Is it a process? A lease is the user's own, and says nothing of what runs. */
bool present_is_run_with(const dibs_claim *claim);
/* How much of a whole role's port's name those of its pods' claims begin with: "shop/web/". 0: it is no such
 * port. */
size_t present_shared_length(const dibs_claim *claim);
/* A port of a whole role has no holder of its own: those of its pods are, processes before leases. NULL: it
 * is no such port, or nobody holds one of theirs. */
const dibs_claim *present_role_user(const struct present *p, const dibs_claim *claim);
/* The first claim that somebody holds, or that a process does, of those whose names begin with these bytes;
 * NULL: none. */
const dibs_claim *present_held(const struct present *p, const char *name, size_t len);
const dibs_claim *present_run_with(const struct present *p, const char *name, size_t len);
#endif
