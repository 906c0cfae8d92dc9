/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_ANNOTATION_H
#define DIBS_WORKLOAD_ANNOTATION_H
/* The port-allocator annotation of RBG (KEP-171), and ours: the same JSON under a key of our own.
 *
 * Configurations that RBG accepts and then fails on, or silently gets wrong, are refused when they are read.
 */
#include "workload/workload.h"

#define WORKLOAD_KEY_RBG "rolebasedgroup.workloads.x-k8s.io/port-allocator"
#define WORKLOAD_KEY_OWN "dibs.dev/ports"

/* How `from` is written: ROLE.COMPONENT.PORT, or any form of workload_reference_parse(). */
enum workload_dialect { WORKLOAD_RBG, WORKLOAD_OWN };

/* Fills the component's ports and references; NULL and "" leave it as it is. A message has the component's
 * place in front. Names and variables that are there twice are left to workload_check(). */
dibs_status workload_annotation_parse(struct workload_group *group, enum workload_dialect dialect,
                                      const char *text, struct workload_component *out, dibs_err *err);
/* "role.component.port" with RBG's own messages. */
dibs_status workload_reference_parse_rbg(struct workload_group *group, const char *text,
                                         struct workload_reference *out, dibs_err *err);
/* Would Kubernetes take it as the key of an annotation: an optional DNS prefix, a name of at most 63? */
bool workload_is_annotation_key(const char *key);
#endif
