/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_ASSIGNED_H
#define DIBS_KUBE_ASSIGNED_H
/* The annotation dibs.dev/assigned: the claims that a pod was given when it was created. The webhook writes
 * it, and the controller restores a lost ledger from it. */
#include "base/bytes.h"
#include "kube/identity.h"

enum { ASSIGNED_MAX = 4096 }; /* claims of one pod: more than fit into the annotations of an object */

struct assigned_claim {
    char *name;
    uint16_t port;
    uint8_t protos; /* bit (1 << proto) for each */
    char keeper[DIBS_KEEPER_MAX + 1];
    uint16_t run; /* as of a claim; 0: not recorded */
    /* The controller's own: */
    unsigned n_refused; /* times that it could not be restored */
    int64_t again_ms;   /* when to try again; 0: at once */
};

/* INVALID: dibs did not write all of it: then *out has nothing of it. The caller ends the list with
 * assigned_free(). FAILURE: out of memory. */
dibs_status assigned_read(const char *text, struct assigned_claim **out, size_t *n, dibs_err *err);
void assigned_free(struct assigned_claim *claims, size_t n); /* NULL is fine */
/* `claims` are those of all ports of the configuration, one after another. NUL-terminated. */
void assigned_write(const struct identity *identity, const struct workload_component *config,
                    const dibs_claim *claims, struct bytes *out);
#endif
