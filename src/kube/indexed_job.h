/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INDEXED_JOB_H
#define DIBS_KUBE_INDEXED_JOB_H
/* Pods of Jobs: an Indexed Job numbers them, and a JobSet numbers its Jobs. */
#include "kube/identity.h"

/* Identify a pod whose owner is a Job; false: its owner is something else. A pod of a JobSet gets that as
 * its owner. *out borrows from the labels. */
bool indexed_job_identify(const jsonr_value *metadata, const struct identity_labels *labels,
                          struct identity_owner *owner, struct identity *out);
#endif
