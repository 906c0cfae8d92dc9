/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_SNAPSHOT_READ_H
#define DIBS_CLI_SNAPSHOT_READ_H
/* A full snapshot back into values: every member checked, the whole or nothing. */
#include "dibs/dibs.h"
#include "json/json.h"

#define SNAPSHOT_VERSION 1 /* of the full format; another one is refused */

struct snapshot {
    dibs_pool *pools;
    size_t n_pools;
    dibs_claim *claims;
    size_t n_claims;
};

/* INVALID names the item and the member. The caller ends *out with snapshot_done() in any case. */
dibs_status snapshot_read(const json_value *root, struct snapshot *out, dibs_err *err);
void snapshot_done(struct snapshot *snapshot);
#endif
