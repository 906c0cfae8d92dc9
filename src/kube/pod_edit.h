/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_POD_EDIT_H
#define DIBS_KUBE_POD_EDIT_H
/* The changes that give a pod its ports: variables, annotations and host ports. inject/pod_text.c writes
 * them into the text of a manifest, webhook/pod_patch.c as a JSONPatch. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "workload/workload.h"

struct pod_edit_pair {
    const char *name, *value;
};
struct pod_edit_port {
    uint16_t port;
    const char *protocol; /* "TCP", "UDP", "SCTP" */
};

struct pod_edit { /* zero: no change; ended by pod_edit_done() */
    /* Variables of every container and init container. They replace those of the same name; new ones come
     * first, so that the others can use $(NAME). */
    struct pod_edit_pair *env;
    size_t n_env, max_env;
    struct pod_edit_pair *annotations;
    size_t n_annotations, max_annotations;
    const char *removed; /* annotation to remove, if present; NULL: none */
    /* Host ports of a pod in the host network; the scheduler keeps them free. */
    struct pod_edit_port *ports;
    size_t n_ports, max_ports;
    struct pod_edit_port *obsolete; /* host ports copied from another pod */
    size_t n_obsolete, max_obsolete;
    struct arena *texts; /* owns the values */
    bool is_lost;        /* memory was short: the edit is incomplete */
};

/* Names are borrowed, values are copied. */
void pod_edit_variable(struct pod_edit *edit, const char *name, const char *value);
void pod_edit_annotation(struct pod_edit *edit, const char *key, const char *value);
/* Add variable, annotation and host ports for a port of the pod with these numbers. */
void pod_edit_own_port(struct pod_edit *edit, const struct workload_port *port, const uint16_t *numbers);
void pod_edit_obsolete(struct pod_edit *edit, uint16_t number, uint8_t protos);
void pod_edit_done(struct pod_edit *edit);
#endif
