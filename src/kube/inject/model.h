/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_MODEL_H
#define DIBS_KUBE_INJECT_MODEL_H
/* Kubernetes objects as workload groups, one group per object, so that a change of one object never touches
 * another's claims.
 *
 * All pods of a template get the same values, because a template is one text. So a role has one instance
 * and a component one pod here, however many run in the cluster. */
#include "kube/inject/objects.h"

/* Build the group of each object. INVALID, with the place, for faulty annotations or references. */
dibs_status kube_model_build(const yaml_text *yaml, struct kube_objects *objects, dibs_err *err);

static inline struct workload_component *kube_component(const struct kube_template *t)
{
    return &t->in->components[t->place];
}
#endif
