/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_POD_PATCH_H
#define DIBS_KUBE_WEBHOOK_POD_PATCH_H
/* Write a pod edit as a JSONPatch (RFC 6902) of the original pod. Values that the pod already has are not
 * changed, so a second run changes nothing. */
#include "base/bytes.h"
#include "codec/json.h"
#include "kube/pod_edit.h"

/* Write the patch; empty: nothing to change. INVALID names the wrong field. */
dibs_status pod_patch_write(const jsonr_value *pod, const struct pod_edit *edit, struct bytes *out,
                            dibs_err *err);
/* The same for the annotations alone, of any object. */
dibs_status pod_patch_annotations(const jsonr_value *object, const struct pod_edit *edit, struct bytes *out,
                                  dibs_err *err);
#endif
