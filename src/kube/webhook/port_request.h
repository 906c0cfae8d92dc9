/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_PORT_REQUEST_H
#define DIBS_KUBE_WEBHOOK_PORT_REQUEST_H
/* The ports that a pod or pod template requests: the parsed and checked annotation, and RBG's component
 * discovery as references within the pod's role. */
#include "kube/identity.h"
#include "workload/annotation.h"
#include "workload/discovery.h"

/* Ports of one pod. One annotation lists them all, and Kubernetes allows 256 KiB of annotations. */
enum { PORT_REQUEST_PORTS_MAX = 512 };

struct port_request {
    struct workload_group *group; /* owns the rest; NULL: no request */
    const char *key;              /* of the annotation */
    enum workload_dialect dialect;
    const struct workload_component *config;
    size_t n_written; /* references of the annotation; the rest come from discovery and have no role */
    struct workload_discovery discovery;
    /* A pod that has its numbers already, from RBG's allocator or `kube inject`: those of the references (0:
     * none), and of all ports, counting each number of a port. NULL: it has none. */
    const uint16_t *given, *required;
    bool is_injected; /* by `kube inject` */
};

/* Read the request of `pod`, a map with metadata. INVALID names the field, prefixed with `where`
 * ("spec.template.", or ""). The caller ends it with port_request_done(). */
dibs_status port_request_read(const jsonr_value *pod, const char *where, struct port_request *out,
                              dibs_err *err);
void port_request_done(struct port_request *request);
/* Write the field of the i-th reference, for messages. */
enum { PORT_REQUEST_FIELD_MAX = 128 };
void port_request_field(const struct port_request *request, size_t reference,
                        char out[PORT_REQUEST_FIELD_MAX]);
/* Return whether it requests anything. */
bool port_request_is_some(const struct port_request *request);
/* Return the number of ports, counting each number of a port. */
size_t port_request_count(const struct port_request *request);
/* Return the port number that an annotation or a variable has as text; 0: NULL, or no port number. */
uint16_t port_request_number(const char *text);
/* Return the value that a variable has in the pod's first container; NULL: none. */
const char *port_request_variable(const jsonr_value *pod, const char *env);
/* Return the annotation of the given key; NULL: none. */
const char *port_request_annotation(const jsonr_value *pod, const char *key);
/* Return whether the pod mirrors a static pod, which its node runs unchanged from a file. */
bool port_request_is_mirror(const jsonr_value *pod);
#endif
