/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_ADOPT_H
#define DIBS_CORE_ADOPT_H
/* A process that listens already becomes the holder of a claim for its port. */
#include "core/core.h"

/* Return whether the claim's process, or one below it, serves on `port`, and nobody else has a socket there
 * that conflicts with the claim: then the claim takes the port from nobody, although a probe finds it busy.
 */
bool adopt_may(struct core *core, const struct call *call, const dibs_claim *claim, uint16_t port);
#endif
