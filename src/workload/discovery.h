/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_DISCOVERY_H
#define DIBS_WORKLOAD_DISCOVERY_H
/* RBG's component discovery: its annotation, and the addresses of pods (annotation.c). */
#include "workload/workload.h"

#define WORKLOAD_KEY_DISCOVERY "rolebasedgroup.workloads.x-k8s.io/component-discovery"

enum {
    WORKLOAD_ADDRESS_MAX = 1024, /* four names of up to 253 bytes, and separators */
};

/* How the pods of an instance are named. */
enum workload_pod_type {
    WORKLOAD_COMPONENT_PODS,     /* INSTANCE-COMPONENT-ID */
    WORKLOAD_LEADER_WORKER_PODS, /* INSTANCE-ID, for the component "worker" INSTANCE-(ID + 1) */
    WORKLOAD_STANDALONE_POD,     /* INSTANCE */
};

struct workload_pod_id {
    enum workload_pod_type type;
    const char *instance;
    const char *component;
    uint32_t id;
};

/* A variable for a port or an address of a pod, of an instance or component. */
struct workload_discovery_ref {
    const char *env;
    const char *component;
    const char *port; /* NULL for an address */
    uint16_t index;
};
struct workload_discovery {
    struct workload_discovery_ref *ports;
    size_t n_ports;
    struct workload_discovery_ref *addresses;
    size_t n_addresses;
};

/* Parse the annotation; NULL and "" leave *out unchanged. Strings belong to the group. */
dibs_status workload_discovery_parse(struct workload_group *group, struct workload_place place,
                                     const char *text, struct workload_discovery *out, dibs_err *err);
/* Append the ports of `found` to the references, as copies of `like`. False: out of memory. */
bool workload_discovery_add(struct workload_group *group, const struct workload_discovery *found,
                            const struct workload_reference *like, struct workload_component *component);
/* Write the name that RBG gives the pod; false when it does not fit. */
bool workload_pod_name(const struct workload_pod_id *pod, char *out, size_t size);
/* Write "POD.SERVICE.NAMESPACE.svc.cluster.local"; false when it does not fit. */
bool workload_discovery_address(const struct workload_pod_id *pod, const char *service, const char *ns,
                                char out[WORKLOAD_ADDRESS_MAX]);
#endif
