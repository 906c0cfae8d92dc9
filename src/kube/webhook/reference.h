/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_REFERENCE_H
#define DIBS_KUBE_WEBHOOK_REFERENCE_H
/* References: which claim of its group a pod means by ROLE.PORT. When the target's pod has not come yet, a
 * port is reserved: claimed under the name that the target would have, without a keeper. */
#include "kube/identity.h"
#include "kube/webhook/port_request.h"

struct reference {
    uint16_t ports[WORKLOAD_COUNT_MAX]; /* what its target has: all numbers of the port, */
    uint32_t n;                         /* ... so many; 0: the caller claims the port, under */
    char name[DIBS_NAME_MAX + 1];       /* ... this name */
    uint16_t run;                       /* of the target's first claim (dibs_claim.run) */
    size_t line;                        /* the caller's own */
    /* The name that the port has if it is RoleScoped, while nobody knows that; "": it is known, or recorded
     * already. */
    char role_name[DIBS_NAME_MAX + 1];
};

/* Find where the i-th reference leads: to a PodScoped port first, then to a RoleScoped one. INVALID names the
 * field: it leads nowhere, or to a pod that nobody can know before it is there. TAKEN: a port was reserved
 * for another instance before, and it is not known yet whether the role shares it. */
dibs_status reference_find(dibs *handle, const struct port_request *request, const struct identity *who,
                           size_t i, struct reference *out, dibs_err *err);

/* The name under which reference_find() reserves a port for the i-th reference. */
void reference_target(const struct port_request *request, const struct identity *who, size_t i,
                      char out[DIBS_NAME_MAX + 1]);

struct reservation {
    char name[DIBS_NAME_MAX + 1]; /* "": none */
    uint16_t other;               /* the port of a further one, which the role will not use; 0: none */
};
/* Find what was reserved for a port of this pod. */
dibs_status reservation_find(dibs *handle, const struct identity *who, const struct workload_port *port,
                             struct reservation *out, dibs_err *err);
#endif
