/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_PORT_REQUEST_H
#define DIBS_KUBE_WEBHOOK_PORT_REQUEST_H
/* The ports that a pod, or a template of pods, requests: the annotation, read and checked; with it what RBG's
 * discovery of components asks for, which are references within the role of the pod. */
#include "kube/identity.h"
#include "workload/annotation.h"
#include "workload/discovery.h"

/* Ports of one pod: what it was given stands in one annotation, and Kubernetes takes 256 KiB of them. */
enum { PORT_REQUEST_PORTS_MAX = 512 };

struct port_request {
    struct workload_group *group; /* owns the rest; NULL: nothing is asked for */
    const char *key;              /* of the annotation */
    enum workload_dialect dialect;
    const struct workload_component *config;
    size_t n_written; /* references of that annotation: what follows is discovered, and has no role */
    struct workload_discovery discovery;
};

/* `pod`: a map with metadata. INVALID names the field, with `where` ("spec.template.", or "") in front. The
 * caller ends it with port_request_done(). */
dibs_status port_request_read(const jsonr_value *pod, const char *where, struct port_request *out,
                              dibs_err *err);
void port_request_done(struct port_request *request);
/* The field of the i-th reference, for messages. */
enum { PORT_REQUEST_FIELD_MAX = 128 };
void port_request_field(const struct port_request *request, size_t reference,
                        char out[PORT_REQUEST_FIELD_MAX]);
/* Does it ask for anything? */
bool port_request_is_some(const struct port_request *request);
/* How many ports, each number counted. */
size_t port_request_count(const struct port_request *request);
/* The annotation of either key, for comparing; NULL: none. */
const char *port_request_annotation(const jsonr_value *pod, const char *key);
#endif
