/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_ADOPT_H
#define DIBS_KUBE_WEBHOOK_ADOPT_H
/* Pods that have their numbers already, from RBG's own allocator or from `dibs kube inject`. RBG stores the
 * numbers in its RoleInstance and copies them into each pod before the API server asks us: variables of all
 * containers, and `annotationKey`. A pod with other numbers than its instance would contradict what RBG tells
 * the instance's other pods. `kube inject` writes the same, and an annotation that says so where no two pods
 * share the numbers. */
#include "kube/webhook/port_request.h"

/* If the pod has a number for everything it asks for, require these numbers: the mode of the ports,
 * request->required and request->given. A pod that the webhook has served is left alone. */
void adopt_numbers(const jsonr_value *pod, const struct identity *who, struct port_request *request);
/* Extend the message of a refusal of these numbers by who gave them, and what to do. Returns `s`. */
dibs_status adopt_explain(const struct port_request *request, dibs_status s, dibs_err *err);
#endif
