/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_INVENTORY_OBJECT_H
#define DIBS_KUBE_CONTROLLER_INVENTORY_OBJECT_H
/* One object of the inventory: what it uses, as read from the API server. For inventory.c only. */
#include "base/auto.h"
#include "kube/controller/inventory.h"

/* Fill the object, which is zero but for its uid. False: out of memory. */
bool inventory_object_read(struct inventory *inv, struct inventory_object *o, const char *kind,
                           const jsonr_value *object);
/* Forget all that the object uses; its id stays. */
void inventory_object_clear(struct inventory_object *o);
void inventory_object_free(struct inventory_object *o); /* NULL is fine */
DEFINE_AUTO(struct inventory_object, inventory_object_free)
/* Add a hash to what the object uses. False: out of memory. */
bool inventory_object_use(struct inventory_object *o, uint64_t hash);
/* Hash everything the inventory uses of an object: most changes concern only a pod's status. */
uint64_t inventory_object_digest(const struct inventory_object *o);

/* Hash "NAME/PORT". A claim that left its name for another number already has that form. */
uint64_t inventory_claim_hash(const char *principal, const char *name, uint16_t port);
/* Hash the id of a pod. A finished pod has another hash: it has no claims any more, but it arrived. */
uint64_t inventory_id_hash(const char *principal, const char *id, bool is_finished);
/* Hash a name that a pod may refer to: of all numbers of a port, PORT and PORT.1 on, that of the first. */
uint64_t inventory_referred_hash(const char *principal, const char *name);
/* Hash a number used without a claim, which belongs to no namespace. */
uint64_t inventory_number_hash(unsigned proto, uint16_t port);
#endif
