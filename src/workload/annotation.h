/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_ANNOTATION_H
#define DIBS_WORKLOAD_ANNOTATION_H
/* Parse RBG's port-allocator annotation (KEP-171), and ours: the same JSON under another key.
 * Configurations that RBG accepts but then fails on, or handles wrongly without a message, are refused. */
#include "workload/workload.h"

#define WORKLOAD_KEY_RBG "rolebasedgroup.workloads.x-k8s.io/port-allocator"
#define WORKLOAD_KEY_OWN "dibs.dev/ports"

/* Syntax of `from`: ROLE.COMPONENT.PORT, or any form of workload_reference_parse(). */
enum workload_dialect { WORKLOAD_RBG, WORKLOAD_OWN };

/* Parse ports and references into the component; NULL and "" change nothing. Messages begin with the
 * component's place. workload_check() finds duplicate names and variables. */
dibs_status workload_annotation_parse(struct workload_group *group, enum workload_dialect dialect,
                                      const char *text, struct workload_component *out, dibs_err *err);
/* Parse "role.component.port", with RBG's own messages. */
dibs_status workload_reference_parse_rbg(struct workload_group *group, const char *text,
                                         struct workload_reference *out, dibs_err *err);
/* Return whether Kubernetes accepts the annotation key: an optional DNS prefix, a name of 63 bytes. */
bool workload_is_annotation_key(const char *key);
#endif
