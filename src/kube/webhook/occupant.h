/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_OCCUPANT_H
#define DIBS_KUBE_WEBHOOK_OCCUPANT_H
/* The occupant of a number that a pod asks for by `port` or `prefer`: a pod with a claim, or an object that
 * uses the number without one, which the ledger avoids only where it chooses itself. */
#include "kube/webhook/review.h"
#include "workload/workload.h"

/* Avoid a number that an object uses without a claim: TAKEN for `port`; for `prefer` the request becomes one
 * for any number, with a warning. A claim that has the number already stays, with a warning. */
dibs_status occupant_avoid(dibs *handle, const struct workload_port *port, dibs_request *request,
                           struct review_warnings *warnings, dibs_err *err);
/* Replace the ledger's message by one that names the pod, if the required number is the one in `err`. */
void occupant_blame(dibs *handle, const struct workload_port *port, const dibs_request *request,
                    dibs_err *err);
/* Name who else has the number of a request in these protocols; "": nobody. *is_foreign: an object uses it
 * without a claim, and the request's own claim does not have it. */
enum { OCCUPANT_TEXT_MAX = 512 };
dibs_status occupant_find(dibs *handle, uint8_t protos, const dibs_request *request, bool *is_foreign,
                          char out[OCCUPANT_TEXT_MAX], dibs_err *err);
#endif
