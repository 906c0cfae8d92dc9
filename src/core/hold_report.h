/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_HOLD_REPORT_H
#define DIBS_CORE_HOLD_REPORT_H
/* Whether the kernel holds a claim as its level says. */
#include "core/core.h"

/* Write into hold_note that the claim has the level `guard`, and no guard is bound now. Nothing is written
 * where the guard cannot be seen. */
void hold_report(dibs_claim *claim);
/* Give a claim of the level `enforce` that the kernel does not enforce now the level that it has, `none`, and
 * say in hold_note why. */
void hold_report_enforced(const struct core *core, dibs_claim *claim);
#endif
