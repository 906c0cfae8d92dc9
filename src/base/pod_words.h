/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_POD_WORDS_H
#define DIBS_BASE_POD_WORDS_H
/* Describe in Kubernetes' terms to whom a claim belongs. kube/identity.h defines the names of such claims. */
#include <stdbool.h>
#include <stddef.h>

#include "dibs/claim.h"

/* Return whether the claim belongs to a namespace, and waits for its pod. */
bool pod_words_is_pending(const dibs_claim *claim);
/* Write "pod 'web-0' in namespace 'shop'", or "Service/front" for a number that an object uses without a
 * claim; false: the claim is neither. A pod is named only if its name follows from the claim. */
bool pod_words_owner(const dibs_claim *claim, char *out, size_t size);
/* The same with the port: "port 'http' of pod 'web-0' in namespace 'shop'". */
bool pod_words_port(const dibs_claim *claim, char *out, size_t size);
#endif
