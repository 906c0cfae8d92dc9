/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_INVENTORY_H
#define DIBS_KUBE_CONTROLLER_INVENTORY_H
/* The objects of the cluster, as far as claims are concerned: pods with their claims, objects with the claims
 * that they keep, and ports that are used without a claim. Fed with the objects of lists and watches; asks
 * nobody. Memory: of a pod its claims and its names, some hundred bytes; of an object what it keeps. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "kube/assigned.h"
#include "kube/controller/foreign_ports.h"
#include "kube/keeper.h"

struct inventory_rule {
    struct hash_table_item item; /* by principal and "GROUP/ROLE/" */
    struct keeper_rule rule;
};

/* A pod, a Service, or an object that keeps claims. */
struct inventory_object {
    struct hash_table_item item; /* by uid */
    bool is_pod;
    unsigned source;
    uint32_t epoch; /* of the last list that had it */
    char uid[64];
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* "ns:NAMESPACE" */
    char *name;
    char id[IDENTITY_ID_MAX + 2]; /* of a pod: "~ID", the instance of its claims; "": it has none */
    bool is_finished;             /* a pod that will not run again */
    bool is_gone;                 /* ... and is not there any more; remembered until inventory_forget() */
    struct assigned_claim *claims;
    size_t n_claims;
    /* Hashes of names that are in use while the object is there: its claims, its id, the instance that it
     * is, claims that it may have been given as references before their pods came, and its numbers. */
    struct hash_table_item *uses;
    size_t n_uses, max_uses;
    struct numbers numbers; /* used without a claim */
    struct inventory_rule *rules;
    size_t n_rules, max_rules;
    uint64_t digest; /* of all that the object says */
    bool is_lost;    /* memory was short while it was read */
};

enum { INVENTORY_SOURCES_MAX = 32 };
struct inventory {                          /* zero: empty */
    struct hash_table objects;              /* struct inventory_object, by uid */
    struct hash_table uses;                 /* of all objects. Two names with one hash: both are kept */
    struct hash_table rules;                /* of all objects, by principal and "GROUP/ROLE/" */
    uint32_t epochs[INVENTORY_SOURCES_MAX]; /* lists so far */
    size_t n_pods;                          /* that are there */
    uint64_t n_changes;                     /* so far */
    uint64_t n_damaged;                     /* objects that could not be understood */
};
void inventory_done(struct inventory *inventory);

/* Add or replace an object of a source (a small number). False: memory is short, and the inventory is not
 * complete any more. */
bool inventory_put(struct inventory *inventory, unsigned source, const char *kind, const jsonr_value *object);
void inventory_drop(struct inventory *inventory, const jsonr_value *object);
/* A list of that source begins; the list is complete: objects that it did not have are gone. */
void inventory_begin(struct inventory *inventory, unsigned source);
void inventory_end(struct inventory *inventory, unsigned source);

/* Does a pod that is alive say that it has the claim, with its number? */
bool inventory_has_pod(const struct inventory *inventory, const dibs_claim *claim);
/* Is the pod for which it was made, by its id, finished or gone? Then it has come, and nobody has to wait for
 * it. A pod that is gone is remembered until inventory_forget(). */
bool inventory_had_pod(const struct inventory *inventory, const dibs_claim *claim);
void inventory_forget(struct inventory *inventory);
/* Does an object keep it? Not what its instance had before: a pod of that instance, which is there and does
 * not say that it has the claim, has it no more, and never will. What was made before its own pod came is
 * kept by those who refer to it, too: they run with the number. */
bool inventory_is_kept(const struct inventory *inventory, const dibs_claim *claim);
/* Does somebody use the number without a claim? */
bool inventory_is_used(const struct inventory *inventory, dibs_proto proto, uint16_t port);

#endif
