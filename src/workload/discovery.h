/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_DISCOVERY_H
#define DIBS_WORKLOAD_DISCOVERY_H
/* How RBG's pods find each other: the names of pods, the keys under which their ports are stored, and the
 * component-discovery annotation that asks for them. */
#include "workload/workload.h"

#define WORKLOAD_KEY_DISCOVERY "rolebasedgroup.workloads.x-k8s.io/component-discovery"

enum {
    WORKLOAD_STORAGE_KEY_MAX = 63, /* the name of an annotation's key */
    WORKLOAD_ADDRESS_MAX = 1024,   /* four names of up to 253, and what stands between */
};

/* How the pods of an instance are named. */
enum workload_pod_type {
    WORKLOAD_COMPONENT_PODS,     /* INSTANCE-COMPONENT-ID */
    WORKLOAD_LEADER_WORKER_PODS, /* INSTANCE-0 is the leader, INSTANCE-1 the first worker */
    WORKLOAD_STANDALONE_POD,     /* INSTANCE */
};

struct workload_pod_id {
    enum workload_pod_type type;
    const char *instance;
    const char *component;
    uint32_t id;
};

/* An instance's or component's variable for a port or an address of a pod. */
struct workload_discovery_ref {
    const char *env;
    const char *component;
    const char *port; /* NULL: of an address */
    uint32_t index;
};
struct workload_discovery {
    struct workload_discovery_ref *ports;
    size_t n_ports;
    struct workload_discovery_ref *addresses;
    size_t n_addresses;
};

/* False when it does not fit. */
bool workload_pod_name(const struct workload_pod_id *pod, char *out, size_t size);
/* "OWNER.PORT", the owner being a pod (PodScoped) or a component (RoleScoped), when that is a valid key and
 * can be split in one way only. Anything else becomes a word with a hash and without a dot, so that no two
 * ports have one key. */
void workload_storage_key(const char *owner, const char *port, char out[WORKLOAD_STORAGE_KEY_MAX + 1]);

/* NULL and "": nothing is asked for. Strings are the group's. */
dibs_status workload_discovery_parse(struct workload_group *group, const char *text,
                                     struct workload_discovery *out, dibs_err *err);
/* The stored value of a port: its pod's own, else the component's. `find` looks a key up. NOT_FOUND names
 * what is missing. */
dibs_status workload_discovery_port(const struct workload_discovery_ref *ref,
                                    const struct workload_pod_id *instance,
                                    const char *(*find)(void *ctx, const char *key), void *ctx,
                                    const char **out, dibs_err *err);
/* "POD.SERVICE.NAMESPACE.svc.cluster.local"; false when it does not fit. */
bool workload_discovery_address(const struct workload_pod_id *pod, const char *service, const char *ns,
                                char out[WORKLOAD_ADDRESS_MAX]);
#endif
