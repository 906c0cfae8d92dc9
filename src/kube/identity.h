/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_IDENTITY_H
#define DIBS_KUBE_IDENTITY_H
/* The identity of a pod, from its metadata: which claims are its own, and which object keeps them. Pure: it
 * reads JSON and writes names. The table is in docs/KUBERNETES.md.
 *
 * Claims are those of the principal "ns:NAMESPACE", named GROUP/ROLE/INSTANCE/COMPONENT/PORT. An instance is
 * *named* when no two pods can have its identity at one time, because the identity says what the pod is
 * called: its claims are found again by their name. Every other pod is known by an id of its own, "~ID", and
 * so is a copy of a named pod under another name. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/json.h"
#include "dibs/dibs.h"
#include "workload/discovery.h"

#define IDENTITY_KEY_CLAIM "dibs.dev/claim"       /* annotation: the id, written when the pod is created */
#define IDENTITY_KEY_ASSIGNED "dibs.dev/assigned" /* annotation: all that it was given */
#define IDENTITY_LABEL_GROUP "dibs.dev/group"     /* several objects of a namespace as one group */
#define IDENTITY_LABEL_ROLE "dibs.dev/role"
#define IDENTITY_KEPT_BY_POD "Pod" /* the keeper of claims that last as long as their pod */

enum {
    IDENTITY_ID_MAX = 32,   /* hex digits: 128 random bits */
    IDENTITY_RAW_MAX = 253, /* a name as Kubernetes allows it */
    /* Of a keeper, "KIND/NAME": both fit into the members of a claim. */
    IDENTITY_KIND_MAX = 24,
    IDENTITY_NAME_MAX = DIBS_KEEPER_MAX - 1 - IDENTITY_KIND_MAX,
};

struct identity {
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* "ns:NAMESPACE" */
    bool is_named;
    bool is_grouped;              /* its group may have other roles: a label says so */
    char id[IDENTITY_ID_MAX + 1]; /* "" when it has none (yet), or one that we did not write */
    /* Parts of names, encoded. `instance` is "" for an unnamed pod without an id. */
    char group[DIBS_NAME_PART_MAX + 1];
    char role[DIBS_NAME_PART_MAX + 1];
    char instance[DIBS_NAME_PART_MAX + 1];
    /* The component: its name as it is written (borrowed from the pod; NULL: none) and which of its pods. */
    const char *component;
    uint32_t component_id;
    char role_name[IDENTITY_RAW_MAX + 1]; /* as it is written */
    /* The keeper of a claim: "KIND/NAME" of the object that keeps it, or "Pod". */
    char keeper[DIBS_KEEPER_MAX + 1];      /* of PodScoped ports */
    char role_keeper[DIBS_KEEPER_MAX + 1]; /* of RoleScoped ports; also kept by every pod of the role */
};

/* `ns` NULL: as the pod says. INVALID says which field is wrong. Strings of *out are borrowed from the pod.
 */
dibs_status identity_of_pod(const jsonr_value *pod, const char *ns, struct identity *out, dibs_err *err);
/* The pod has this id from now on; an unnamed one is its instance. */
void identity_take_id(struct identity *identity, const char *id);
/* A new id for the pod: 96 random bits, and 32 that follow from them, from how the pod was asked for, and
 * when. The clock is the wall's: replicas whose clocks differ by more than half a minute draw a new id where
 * the old one would do, which costs a port for a while and nothing else. */
dibs_status identity_draw_id(const jsonr_value *pod, int64_t wall_ms, char out[IDENTITY_ID_MAX + 1],
                             dibs_err *err);
bool identity_is_id(const char *text);
/* Can the pod's id be of this very creation, asked about once more? A copy has a name, a node or a uid that
 * its original did not have then, or comes later than a request to the API server can take. */
bool identity_may_be_asked_again(const struct identity *identity, const jsonr_value *pod, int64_t wall_ms);

/* Where another pod of the pod's own RBG instance is found, as RBG says it; false: it is of none, or has no
 * spec.subdomain, whose service answers for it. */
bool identity_address(const jsonr_value *pod, const struct identity *identity,
                      const struct workload_discovery_ref *ref, char out[WORKLOAD_ADDRESS_MAX]);

/* The name of a claim of the pod: `number` counts the ports of one allocation. */
void identity_claim_name(const struct identity *identity, const struct workload_port *port, uint32_t number,
                         char out[DIBS_NAME_MAX + 1]);

/* ---- shared with keeper.c ---- */
struct identity_labels {
    const jsonr_value *first, *second; /* of the pod or template; then of the object, where it has none */
};
/* NULL when there is none, or an empty one. */
const char *identity_label(const struct identity_labels *labels, const char *key);
/* The controlling object as pods mean it: not a ReplicaSet of a Deployment, but that. */
struct identity_owner {
    const char *kind;
    char name[IDENTITY_RAW_MAX + 1];
};
/* Set group, role and the keeper of what the role shares, of pods with these labels whose object is `owner`.
 */
void identity_place(const struct identity_labels *labels, const struct identity_owner *owner,
                    struct identity *out);
void identity_keeper(const char *kind, const char *name, char out[DIBS_KEEPER_MAX + 1]);
/* The part of a role instance: its number when it is called GROUP-ROLE-NUMBER, else its name. */
void identity_instance(const struct identity_labels *labels, const char *name,
                       char out[DIBS_NAME_PART_MAX + 1]);
#endif
