/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_IDENTITY_H
#define DIBS_KUBE_IDENTITY_H
/* The identity of a pod, derived from its metadata: which claims it has, and which object keeps them. Pure:
 * it reads JSON and writes names. docs/KUBERNETES.md has the table.
 *
 * Claims belong to the principal "ns:NAMESPACE" and are named GROUP/ROLE/INSTANCE/COMPONENT/PORT. An
 * instance is *named* when its identity determines the pod's name, so that no two pods can have it at one
 * time: a new pod finds its claims by their names. Every other pod has an id of its own, "~ID", and so has
 * a copy of a named pod under another name. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/json.h"
#include "dibs/dibs.h"
#include "workload/discovery.h"

#define IDENTITY_KEY_CLAIM "dibs.dev/claim"         /* annotation: the id, written at the pod's creation */
#define IDENTITY_KEY_ASSIGNED "dibs.dev/assigned"   /* annotation: all claims of the pod */
#define IDENTITY_KEY_SIGNATURE "dibs.dev/signature" /* annotation: proves the other two */
#define IDENTITY_KEY_INJECTED "dibs.dev/injected"   /* annotation: `kube inject` has set the variables */
#define IDENTITY_KEY_QUOTA "dibs.dev/quota"         /* annotation of a Namespace: its number of ports */
#define IDENTITY_LABEL_GROUP "dibs.dev/group"       /* joins several objects of a namespace to one group */
#define IDENTITY_LABEL_ROLE "dibs.dev/role"
#define IDENTITY_KEPT_BY_POD "Pod"        /* the keeper of claims that last as long as their pod */
#define IDENTITY_OBSERVED "kube:observed" /* the principal of numbers used without a claim; no namespace */

enum {
    IDENTITY_ID_MAX = 32,   /* hex digits: 128 random bits */
    IDENTITY_RAW_MAX = 253, /* longest name in Kubernetes */
    /* Of a keeper, "KIND/NAME", sized for the members of a claim: */
    IDENTITY_KIND_MAX = 24,
    IDENTITY_NAME_MAX = DIBS_KEEPER_MAX - 1 - IDENTITY_KIND_MAX,
};

struct identity {
    char principal[DIBS_PRINCIPAL_MAX + 1]; /* "ns:NAMESPACE" */
    bool is_named;
    bool is_grouped;              /* its group may have other roles: a label says so, or a JobSet */
    bool runs_once;               /* named, and its instance is over when a pod of it has succeeded */
    char id[IDENTITY_ID_MAX + 1]; /* "": none yet, or not written by dibs */
    /* Encoded parts of names. `instance` is "" for an unnamed pod without an id. */
    char group[DIBS_NAME_PART_MAX + 1];
    char role[DIBS_NAME_PART_MAX + 1];
    char instance[DIBS_NAME_PART_MAX + 1];
    /* The component's name, not encoded (borrowed from the pod; NULL: none), and the pod's number in it. */
    const char *component;
    uint32_t component_id;
    char role_name[IDENTITY_RAW_MAX + 1]; /* not encoded */
    /* Keepers: "KIND/NAME" of the object that keeps a claim, or "Pod". */
    char keeper[DIBS_KEEPER_MAX + 1];      /* of PodScoped ports */
    char role_keeper[DIBS_KEEPER_MAX + 1]; /* of RoleScoped ports; every pod of the role keeps them, too */
};

/* Identify a pod. `ns` NULL: the pod's own. INVALID names the field. *out borrows from the pod. */
dibs_status identity_of_pod(const jsonr_value *pod, const char *ns, struct identity *out, dibs_err *err);
/* A pod that a RoleInstance of RBG will have: number `id` of one of its components. */
struct identity_component {
    const jsonr_value *instance, *component;
    const char *ns;
    uint32_t id;
};
/* Identify the pod before it exists, and write its name. False: the instance or the component has no name. */
bool identity_of_component(const struct identity_component *of, struct identity *out,
                           char pod[WORKLOAD_ADDRESS_MAX]);
/* Give the pod this id; for an unnamed pod it becomes the instance. */
void identity_take_id(struct identity *identity, const char *id);
/* Draw a new id for the pod: 96 random bits, and a 32-bit hash of them, of the pod as it was requested, and
 * of the time. With wall clocks of replicas more than 30 s apart, a repeated admission draws a new id,
 * which costs one port until its lease expires. */
dibs_status identity_draw_id(const jsonr_value *pod, int64_t wall_ms, char out[IDENTITY_ID_MAX + 1],
                             dibs_err *err);
bool identity_is_id(const char *text);
/* Return whether dibs itself writes the annotation of this key. */
bool identity_is_own_key(const char *key);
/* Return whether the pod's id can come from an earlier admission of the same creation. A copy has a name,
 * node or uid that its original did not have then, or arrives later than a request can take. */
bool identity_may_be_asked_again(const struct identity *identity, const jsonr_value *pod, int64_t wall_ms);

/* Write the address of another pod of the pod's own RBG instance. False: the pod is not RBG's, or has no
 * spec.subdomain, whose service resolves the address. */
bool identity_address(const jsonr_value *pod, const struct identity *identity,
                      const struct workload_discovery_ref *ref, char out[WORKLOAD_ADDRESS_MAX]);

/* Write the name of a claim of the pod; `number` counts the ports of one allocation. */
void identity_claim_name(const struct identity *identity, const struct workload_port *port, uint32_t number,
                         char out[DIBS_NAME_MAX + 1]);

/* ---- shared with keeper.c and indexed_job.c ---- */
/* Parse an index as Kubernetes writes it: "7", never "07", so that a pod has only one name. */
bool identity_index(const char *text, uint32_t *out);
struct identity_labels {
    const jsonr_value *first, *second; /* of the pod or template; then of the object, as a fallback */
};
/* Return the label; NULL when it is absent or empty. */
const char *identity_label(const struct identity_labels *labels, const char *key);
/* The controlling object; the Deployment instead of its ReplicaSet. */
struct identity_owner {
    const char *kind;
    char name[IDENTITY_RAW_MAX + 1];
    const char *role; /* of its pods, among the roles of the object; NULL: it has one, called as the object */
};
/* Set group, role and role keeper for pods with these labels whose object is `owner`. */
void identity_place(const struct identity_labels *labels, const struct identity_owner *owner,
                    struct identity *out);
void identity_keeper(const char *kind, const char *name, char out[DIBS_KEEPER_MAX + 1]);
/* Write the instance part: the number of a role instance GROUP-ROLE-NUMBER, else its name. */
void identity_instance(const struct identity_labels *labels, const char *name,
                       char out[DIBS_NAME_PART_MAX + 1]);
#endif
