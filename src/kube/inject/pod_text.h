/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_POD_TEXT_H
#define DIBS_KUBE_INJECT_POD_TEXT_H
/* Write a pod edit into the text of a manifest. Values that are already right are not changed. */
#include "kube/inject/objects.h"
#include "kube/inject/splice.h"
#include "kube/pod_edit.h"

/* Edit the text of template `t`. Host ports go into the first container. */
void pod_text_edit(struct splice *s, const struct kube_template *t, const struct pod_edit *edit);
#endif
