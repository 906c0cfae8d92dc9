/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_INVENTORY_H
#define DIBS_KUBE_CONTROLLER_INVENTORY_H
/* The cluster's objects as far as claims are concerned: pods with their claims, objects with the claims
 * they keep, and foreign ports. Lists and watches fill it. A pod takes a few hundred bytes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "kube/assigned.h"
#include "kube/controller/foreign_ports.h"
#include "kube/install/installation.h"
#include "kube/keeper.h"

struct inventory_rule {
    struct hash_table_item item; /* by principal and "GROUP/ROLE/" */
    struct keeper_rule rule;
};

/* A pod, a Service, a Namespace with a quota, or an object that keeps claims. */
struct inventory_object {
    struct hash_table_item item; /* by uid */
    bool is_pod;
    unsigned source;
    uint32_t epoch; /* of the last list that had the object */
    char uid[64];
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* "ns:NAMESPACE"; a Namespace's is its own */
    char *name;
    bool has_quota; /* a Namespace with a valid annotation */
    uint32_t quota;
    char id[IDENTITY_ID_MAX + 2]; /* of a pod: "~ID", the instance of its claims; "": it has no id */
    int64_t created_ms;           /* of a pod, by the API server's clock; 0: unknown */
    bool has_missed;              /* a pod that asks for ports and bypassed the webhook */
    bool is_mirror;               /* a pod that mirrors a static one: it gets no ports */
    bool is_reported;             /* ... of which an Event was requested */
    bool is_finished;             /* a pod that will not run again */
    bool is_gone;                 /* a deleted pod, remembered until inventory_forget() */
    struct assigned_claim *claims;
    size_t n_claims;
    bool is_signed; /* the claims, by the webhook: they are proven, whatever the ledger has */
    /* Hashes of all that the object uses: claims, id, instance, names of references, and numbers. */
    struct hash_table_item *uses;
    size_t n_uses, max_uses;
    struct numbers numbers; /* used without a claim */
    struct inventory_rule *rules;
    size_t n_rules, max_rules;
    uint64_t digest; /* of everything the inventory uses of the object */
    bool is_lost;    /* memory was short while the object was read */
};

enum { INVENTORY_SOURCES_MAX = 32 };
struct inventory {                           /* zero: empty */
    const struct installation *installation; /* checks signatures; NULL: none is valid */
    struct hash_table objects;               /* struct inventory_object, by uid */
    /* of all objects; when two names share a hash, both count as used */
    struct hash_table uses;
    struct hash_table rules;                /* of all objects, by principal and "GROUP/ROLE/" */
    uint32_t epochs[INVENTORY_SOURCES_MAX]; /* number of lists, by source */
    size_t n_pods, n_missed;                /* present pods; those that bypassed the webhook */
    uint64_t n_changes;                     /* total */
    uint64_t n_damaged;                     /* total of unreadable objects */
};
void inventory_done(struct inventory *inventory);

/* Add or replace an object of a source. False: out of memory, and the inventory is now incomplete. */
bool inventory_put(struct inventory *inventory, unsigned source, const char *kind, const jsonr_value *object);
void inventory_drop(struct inventory *inventory, const jsonr_value *object);
/* Begin a list of that source; end it: objects that the list did not have are gone. */
void inventory_begin(struct inventory *inventory, unsigned source);
void inventory_end(struct inventory *inventory, unsigned source);

/* Return whether a living pod records the claim with this number. */
bool inventory_has_pod(const struct inventory *inventory, const dibs_claim *claim);
/* Return whether another living pod has the id of this one: one of them is a copy. */
bool inventory_is_copied(const struct inventory *inventory, const struct inventory_object *pod);
/* Return whether the pod with the id in the claim's name is finished or gone, so no admission waits for it.
 * Gone pods are remembered until inventory_forget(). */
bool inventory_had_pod(const struct inventory *inventory, const dibs_claim *claim);
void inventory_forget(struct inventory *inventory);
/* Return whether a living pod refers to the claim's name. */
bool inventory_is_referred(const struct inventory *inventory, const dibs_claim *claim);
/* Return whether an object keeps the claim. False when a present pod has the claim's instance but does not
 * record the claim: the instance gave it up. The pods that refer to a name whose target is gone keep it. */
bool inventory_is_kept(const struct inventory *inventory, const dibs_claim *claim);
/* Return a pod that refers to the claim by its name; NULL: there is none. */
const struct inventory_object *inventory_referrer(struct inventory *inventory, const dibs_claim *claim);
/* Return whether an object uses the number without a claim. */
bool inventory_is_used(const struct inventory *inventory, dibs_proto proto, uint16_t port);

#endif
