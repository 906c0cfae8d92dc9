/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_KEEPER_H
#define DIBS_KUBE_KEEPER_H
/* Keeper rules: which claims a Kubernetes object keeps, with or without their pods. */
#include "kube/identity.h"

struct keeper_rule {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char keeper[DIBS_KEEPER_MAX + 1];      /* of the covered claims */
    char prefix[DIBS_NAME_MAX + 1];        /* "GROUP/ROLE/" */
    char instance[DIBS_NAME_PART_MAX + 1]; /* one instance, or "-" for RoleScoped ports; "": by number */
    uint32_t first, n;                     /* numbers of the instances */
    char port[DIBS_NAME_PART_MAX + 1];     /* only this port; "": all */
};
typedef void keeper_rule_fn(void *ctx, const struct keeper_rule *rule);
/* Call `fn` for each rule of an object of this kind. A StatefulSet and a LeaderWorkerSet keep the claims of
 * their replicas, an Indexed Job and a JobSet those of their indexes until they have completed or failed, a
 * RoleInstance its own, a RoleBasedGroup those of its roles, any other object with a pod
 * template the claims that its pods share. Other objects keep nothing. */
void keeper_rules_of(const char *kind, const jsonr_value *object, keeper_rule_fn *fn, void *ctx);
/* Return whether the rule covers the claim. Any rule covers a reservation, which has no keeper. */
bool keeper_rule_covers(const struct keeper_rule *rule, const dibs_claim *claim);
#endif
