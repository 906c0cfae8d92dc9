/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_POD_ASSIGNMENT_H
#define DIBS_KUBE_WEBHOOK_POD_ASSIGNMENT_H
/* The signed assignment of a new pod: an earlier admission wrote and signed it, and the pod is now
 * admitted again, is a copy, or comes from a backup. Without a valid signature anybody may have written it.
 */
#include "kube/assigned.h"
#include "kube/webhook/allocation.h"
#include "kube/webhook/review.h"

struct pod_assignment { /* zero: the pod has none */
    bool is_signed;
    struct assigned_claim *claims;
    size_t n;
};

/* Read the assignment of a new pod. INVALID: it has one of the annotations, and no valid signature. */
dibs_status pod_assignment_read(const struct installation *installation, const struct review *review,
                                struct pod_assignment *out, dibs_err *err);
void pod_assignment_done(struct pod_assignment *assignment);
/* Keep the id that the pod brings when this is a repeated admission of the same creation; otherwise draw a
 * new one. A named pod is identified by its name; for others a new claim is always safe. */
dibs_status pod_assignment_choose_id(dibs *handle, const struct allocation *allocation, dibs_err *err);
/* Let the name of a new claim remember the number that the pod brings for it, which it then gets if that is
 * free (INV-7): of a pod that lives it is not. `assignment` may be NULL. */
dibs_status pod_assignment_remember(dibs *handle, const struct pod_assignment *assignment, const char *claim,
                                    dibs_err *err);
/* Claim exactly what the pod brings, for a pod that asks for nothing else. TAKEN: another pod has it, or may
 * still have it. */
dibs_status pod_assignment_claim(dibs *handle, const struct allocation *allocation, dibs_err *err);
#endif
