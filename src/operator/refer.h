/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_REFER_H
#define DIBS_OPERATOR_REFER_H
/* References: which claim of its group a pod means by ROLE.PORT, whether it is there yet or not. */
#include "operator/asking.h"
#include "operator/identity.h"

struct refer {
    uint16_t port;                /* what its target has; 0: that is claimed with this pod, as */
    char name[DIBS_NAME_MAX + 1]; /* ... this */
    size_t line;                  /* the caller's own */
};

/* Where the i-th reference leads. PodScoped is looked for first, then RoleScoped. INVALID names the field: it
 * leads nowhere, or to a pod that nobody can know before it is there. */
dibs_status refer_find(dibs *handle, const struct asking *asking, const struct identity *who, size_t i,
                       struct refer *out, dibs_err *err);

/* What a reference that came before this pod has called a port of it, if it did not know better. */
enum { REFER_GUESSES = 6 };
size_t refer_guesses(const struct identity *who, const struct workload_port *port,
                     char out[REFER_GUESSES][DIBS_NAME_MAX + 1]);
#endif
