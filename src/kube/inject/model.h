/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_MODEL_H
#define DIBS_KUBE_INJECT_MODEL_H
/* Kubernetes objects as workload groups: one group for each object, so that what happens to one object's
 * claims is nobody else's business.
 *
 * All pods of a template get the same values, because a template is one text. Hence a role has one instance
 * and a component one pod here, however many run in the cluster. */
#include "kube/inject/objects.h"
#include "workload/workload.h"

/* A reference to a role of another object of the same file and namespace. */
struct kube_foreign {
    size_t object; /* whose port it is */
    struct workload_reference reference;
};

struct kube_pod {
    struct workload_group *group;
    struct workload_role *role;
    size_t component; /* its place in the role */
    struct kube_foreign *foreign;
    size_t n_foreign;
    size_t n_addresses; /* requested by discovery, and left out */
};

struct kube_model {
    struct workload_group **groups; /* one for each object */
    size_t n_groups;
    struct kube_pod *pods; /* one for each template */
};

/* INVALID with a place for whatever is wrong with the annotations or their references. */
dibs_status kube_model_build(const yaml_text *yaml, const struct kube_objects *objects,
                             struct kube_model *out, dibs_err *err);
void kube_model_free(struct kube_model *model);
#endif
