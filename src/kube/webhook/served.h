/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_SERVED_H
#define DIBS_KUBE_WEBHOOK_SERVED_H
/* Pods that RBG's own allocator has served. RBG stores the numbers in its RoleInstance and copies them into
 * each pod before the API server asks us: variables of all containers, and `annotationKey`. A pod with other
 * numbers than its instance would contradict what RBG tells the instance's other pods. */
#include "kube/webhook/port_request.h"

/* If RBG has given the pod a number for everything it asks for, require these numbers: the mode of the ports,
 * and request->given. A pod that dibs itself has served is left alone. */
void served_adopt(const jsonr_value *pod, const struct identity *who, struct port_request *request);
#endif
