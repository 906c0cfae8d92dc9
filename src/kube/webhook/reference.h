/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_REFERENCE_H
#define DIBS_KUBE_WEBHOOK_REFERENCE_H
/* Resolve references: which claim of its group a pod means by ROLE.PORT. When the target's pod has not
 * arrived, a port is reserved: claimed under the target's future name, without a keeper. A role whose pods
 * are known, by this pod's template or by a pod that was admitted, has no other ports than theirs. */
#include "kube/identity.h"
#include "kube/webhook/port_request.h"

struct reference {
    uint16_t ports[WORKLOAD_COUNT_MAX]; /* numbers of the target's port */
    uint32_t n;                         /* how many; 0: the caller claims `name` */
    char name[DIBS_NAME_MAX + 1];       /* the claim of the first number, to be made when n is 0 */
    bool is_reserved;                   /* no pod has the port yet */
    uint16_t run;                       /* dibs_claim.run of the target's first claim */
    size_t line;                        /* for the caller's use */
    uint16_t given;                     /* number to claim `name` with; 0: any */
    /* The port's name if it turns out to be RoleScoped; "": its scope is known, or already recorded. */
    char role_name[DIBS_NAME_MAX + 1];
};

/* Resolve the i-th reference: to a PodScoped port first, then to a RoleScoped one. INVALID names the field:
 * a known target without that port, or a pod whose name cannot be predicted. TAKEN: another instance has a
 * reservation, and it is unknown whether the role shares the port. */
dibs_status reference_find(dibs *handle, const struct port_request *request, const struct identity *who,
                           size_t i, struct reference *out, dibs_err *err);

/* Write the names that the first number of the i-th reference may have; returns how many. reference_find()
 * reserves a port under the first one. */
enum { REFERENCE_NAMES_MAX = 4 };
size_t reference_names(const struct port_request *request, const struct identity *who, size_t i,
                       char out[REFERENCE_NAMES_MAX][DIBS_NAME_MAX + 1]);

struct reservation {
    char name[DIBS_NAME_MAX + 1]; /* "": none */
    uint16_t other;               /* port of a second reservation, which the role will not use; 0: none */
};
/* Find the reservation for a port of this pod. */
dibs_status reservation_find(dibs *handle, const struct identity *who, const struct workload_port *port,
                             struct reservation *out, dibs_err *err);
#endif
