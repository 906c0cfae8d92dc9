/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_POD_PATCH_H
#define DIBS_KUBE_WEBHOOK_POD_PATCH_H
/* Write a pod edit as a JSONPatch (RFC 6902) of the pod as it came. What the pod already has is left alone,
 * so that a second time changes nothing. */
#include "base/bytes.h"
#include "codec/json.h"
#include "kube/pod_edit.h"

/* Empty when there is nothing to change. INVALID names the field that makes no sense. */
dibs_status pod_patch_write(const jsonr_value *pod, const struct pod_edit *edit, struct bytes *out,
                            dibs_err *err);
#endif
