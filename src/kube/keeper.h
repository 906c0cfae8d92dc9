/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_KEEPER_H
#define DIBS_KUBE_KEEPER_H
/* Keeper rules: which claims a Kubernetes object keeps, whether their pods are there or not. */
#include "kube/identity.h"

struct keeper_rule {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char keeper[DIBS_KEEPER_MAX + 1];      /* of such claims */
    char prefix[DIBS_NAME_MAX + 1];        /* "GROUP/ROLE/" */
    char instance[DIBS_NAME_PART_MAX + 1]; /* one instance, or "-" for what is RoleScoped; "": by number */
    uint32_t first, n;                     /* instances by their number */
    char port[DIBS_NAME_PART_MAX + 1];     /* only this one of it; "": all */
};
typedef void keeper_rule_fn(void *ctx, const struct keeper_rule *rule);
/* Call `fn` for each rule of an object of this kind; a list's items do not say their kind. StatefulSet and
 * LeaderWorkerSet by their replicas, RoleInstance itself, RoleBasedGroup its roles; every other object that
 * has a pod template what its pods share. What is no such object keeps nothing. */
void keeper_rules_of(const char *kind, const jsonr_value *object, keeper_rule_fn *fn, void *ctx);
/* A claim without a keeper, made for a reference before its own pod came, is covered by any. */
bool keeper_rule_covers(const struct keeper_rule *rule, const dibs_claim *claim);
#endif
