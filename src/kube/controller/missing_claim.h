/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_MISSING_CLAIM_H
#define DIBS_KUBE_CONTROLLER_MISSING_CLAIM_H
/* A claim that the ledger lacks: a pod's, or a declared number that an object uses. */
#include "kube/controller/inventory.h"

struct missing_claim {
    struct inventory_object *object;
    struct assigned_claim *claim; /* NULL: a number used without a claim */
    uint16_t port;
    uint8_t protos;
};

/* Write the claim as it belongs in the pool. */
void missing_claim_make(const struct missing_claim *missing, const char *pool, dibs_claim *c);
/* Write the name of a number used without a claim. */
void missing_claim_number_name(const struct missing_claim *missing, char out[DIBS_NAME_MAX + 1]);
#endif
