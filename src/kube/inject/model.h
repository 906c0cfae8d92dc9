/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_MODEL_H
#define DIBS_KUBE_INJECT_MODEL_H
/* Kubernetes objects as workload groups: one group for each object, so that what happens to one object's
 * claims is nobody else's business.
 *
 * All pods of a template get the same values, because a template is one text. Hence a role has one instance
 * and a component one pod here, however many run in the cluster. */
#include "kube/inject/objects.h"

/* Set the group of each object, and what a template is in it. INVALID with a place for whatever is wrong with
 * the annotations or their references. */
dibs_status kube_model_build(const yaml_text *yaml, struct kube_objects *objects, dibs_err *err);

static inline struct workload_component *kube_component(const struct kube_template *t)
{
    return &t->in->components[t->place];
}
#endif
