/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_EDIT_H
#define DIBS_KUBE_EDIT_H
/* What a pod template is told, as changes of its text. */
#include "kube/objects.h"
#include "kube/splice.h"

struct kube_value {
    const char *env;
    const char *annotation; /* NULL: none */
    const char *text;
    const uint16_t *ports; /* that the pod itself listens on; none for a reference */
    size_t n_ports;
    unsigned protos; /* of these; bit (1 << proto) */
};

/* The variables in every container and init container, in front of the others so that those can use them, or
 * in the place of those of the same name; the annotations; and for a pod in the host's network the ports, in
 * the first container. What is there already is not changed. */
dibs_status kube_edit(struct splice *s, const struct kube_template *t, const struct kube_value *values,
                      size_t n, dibs_err *err);
#endif
