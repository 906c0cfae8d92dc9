/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_ASSIGNED_H
#define DIBS_OPERATOR_ASSIGNED_H
/* The annotation dibs.dev/assigned as the controller reads it: what a pod was given. */
#include "operator/census.h"

enum { ASSIGNED_MAX = 4096 }; /* claims of one pod: more than fit into the annotations of an object */

/* INVALID: it is none, wholly or in part: then *out has nothing of it. The caller frees the list and the
 * names in it. FAILURE: out of memory. */
dibs_status assigned_read(const char *text, struct census_claim **out, size_t *n, dibs_err *err);
#endif
