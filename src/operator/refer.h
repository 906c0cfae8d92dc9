/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_REFER_H
#define DIBS_OPERATOR_REFER_H
/* References: which claim of its group a pod means by ROLE.PORT, whether it is there yet or not. */
#include "operator/asking.h"
#include "operator/identity.h"

struct refer {
    uint16_t ports[WORKLOAD_COUNT_MAX]; /* what its target has: all numbers of the port, */
    uint32_t n;                         /* ... so many; 0: that is claimed with this pod, as */
    char name[DIBS_NAME_MAX + 1];       /* ... this */
    size_t line;                        /* the caller's own */
    /* Nobody knows yet whether the port is the target's own or its role's: what it would be called then is
     * marked in the same commit, so that of a reference and a target that come at once one sees the other.
     * "": it is known, or marked. */
    char mark[DIBS_NAME_MAX + 1];
};

/* Where the i-th reference leads. PodScoped is looked for first, then RoleScoped. INVALID names the field: it
 * leads nowhere, or to a pod that nobody can know before it is there. TAKEN: another instance was told a
 * number of the same port before, and it is not known yet whether that is everybody's. */
dibs_status refer_find(dibs *handle, const struct asking *asking, const struct identity *who, size_t i,
                       struct refer *out, dibs_err *err);

/* What the claims are called that refer_find() makes for it before its target has come: the target's own, and
 * the mark. */
void refer_names(const struct asking *asking, const struct identity *who, size_t i,
                 char own[DIBS_NAME_MAX + 1], char shared[DIBS_NAME_MAX + 1]);

/* Is it the mark of a reference: no port of anybody, only a name that is spoken for? */
bool refer_is_mark(const dibs_claim *claim);

/* What was claimed for a port of a pod before the pod came, under which name ever, and its mark. `name` or
 * `mark` "": none. */
struct refer_foreseen {
    char name[DIBS_NAME_MAX + 1];
    char mark[DIBS_NAME_MAX + 1];
    uint16_t other; /* the port of a further one, which nobody will have; 0: none */
};
dibs_status refer_foreseen(dibs *handle, const struct identity *who, const struct workload_port *port,
                           struct refer_foreseen *out, dibs_err *err);
#endif
