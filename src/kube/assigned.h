/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_ASSIGNED_H
#define DIBS_KUBE_ASSIGNED_H
/* The annotation dibs.dev/assigned: the claims that a pod got at its creation. The webhook writes it; the
 * controller restores a lost ledger from it. */
#include "base/bytes.h"
#include "kube/identity.h"

enum { ASSIGNED_MAX = 4096 }; /* of one pod: more than fit into an object's annotations */

struct assigned_claim {
    char *name;
    uint16_t port;
    uint8_t protos; /* bit (1 << proto) for each */
    char keeper[DIBS_KEEPER_MAX + 1];
    uint16_t run; /* as in dibs_claim; 0: not recorded */
    /* Used by the controller only: */
    unsigned n_refused; /* failed attempts to restore the claim */
    int64_t again_ms;   /* when to retry; 0: at once */
};

/* Parse the annotation. The caller frees the list with assigned_free(). INVALID: dibs did not write all of
 * it, and *out is empty. FAILURE: out of memory. */
dibs_status assigned_read(const char *text, struct assigned_claim **out, size_t *n, dibs_err *err);
void assigned_free(struct assigned_claim *claims, size_t n); /* NULL is fine */
/* Write "http 20001, gossip 20002 UDP"; a list that does not fit ends in "...". */
void assigned_describe(const struct assigned_claim *claims, size_t n, char *out, size_t size);
/* Write the annotation, NUL-terminated. `claims` are those of all ports of the configuration, in order. */
void assigned_write(const struct identity *identity, const struct workload_component *config,
                    const dibs_claim *claims, struct bytes *out);
#endif
