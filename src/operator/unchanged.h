/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_UNCHANGED_H
#define DIBS_OPERATOR_UNCHANGED_H
/* What a pod was given is fixed with its creation: its containers run with it. */
#include "json/json.h"

/* INVALID names the field that an update would change. */
dibs_status unchanged_check(const json_value *old, const json_value *object, dibs_err *err);
#endif
