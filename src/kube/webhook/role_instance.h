/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_ROLE_INSTANCE_H
#define DIBS_KUBE_WEBHOOK_ROLE_INSTANCE_H
/* Ports of a RoleInstance's pods before these exist. RBG reads the numbers for an instance's pods, references
 * and component discovery from annotations of the instance: "POD.PORT" of a PodScoped port, "COMPONENT.PORT"
 * of a RoleScoped one. Without them it creates no pod, or one whose numbers its other pods do not know. The
 * webhook claims all of them by the names under which the pods will ask, and writes those that are missing.
 */
#include "kube/webhook/allocation.h"

struct role_instance {           /* zero: nothing to write */
    struct workload_port *ports; /* of all pods; `annotation` is the instance's */
    size_t n_ports, max_ports;
    struct identity *whos; /* the pod of each port */
    size_t max_whos;
    /* A RoleScoped port as "POD.PORT", too: RBG's references look for nothing else. */
    struct role_instance_alias {
        const char *key;
        size_t port; /* index of the port */
    } * aliases;
    size_t n_aliases, max_aliases;
};

/* Read what the pods of a RoleInstance ask for and the instance does not have yet, as one request; *request
 * is empty when there is nothing to do. INVALID: a template is wrong, or an update changes a number. The
 * caller ends *out with role_instance_done(), also on failure. */
dibs_status role_instance_read(const struct review *review, struct role_instance *out,
                               struct port_request *request, struct review_warnings *warnings, dibs_err *err);
void role_instance_done(struct role_instance *instance);
/* Claim the ports and add their annotations to the edit. RBG's numbers are kept where they can be had. */
dibs_status role_instance_claim(dibs *handle, const struct role_instance *instance,
                                struct allocation *allocation, struct pod_edit *out, dibs_err *err);
#endif
