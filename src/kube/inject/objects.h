/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_OBJECTS_H
#define DIBS_KUBE_INJECT_OBJECTS_H
/* Where the pods of Kubernetes objects are described, and which of these descriptions ask for ports. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/yaml.h"
#include "workload/annotation.h"
#include "workload/workload.h"

enum {
    KUBE_OBJECTS_MAX = 1024,   /* that ask for ports, in one file */
    KUBE_TEMPLATES_MAX = 4096, /* of these objects */
    KUBE_LOOKS_MAX = 1 << 20,  /* things looked at: aliases make many of a short text */
    KUBE_KIND_MAX = 63,        /* what Kubernetes allows */
    KUBE_STRAYS_MAX = 16,      /* shown one by one */
};

/* A reference to a role of another object of the same file and namespace. */
struct kube_foreign {
    size_t object; /* whose port it is */
    struct workload_reference reference;
};

/* A pod, or what pods are made from, that asks for ports. */
struct kube_template {
    size_t object;                /* whose it is */
    const char *role;             /* RBG's role, or the object's name */
    const char *component;        /* NULL: the role has one kind of pod only */
    const yaml_node *pod;         /* the map with metadata and spec */
    const yaml_node *annotations; /* of the component, which go over those of the pod; NULL: none */
    const yaml_node *of_pod;      /* the pod's own; NULL: none */
    const yaml_node *config;      /* what is asked for; NULL: nothing */
    const yaml_node *discovery;   /* what of other components; NULL: nothing */
    const yaml_node *at;          /* the first of the two, for messages */
    enum workload_dialect dialect;
    uint32_t instances, size; /* so many pods are made from it: in each instance `size` */
    bool is_host_network;
    /* By kube_model_build(): */
    struct workload_role *in;
    size_t place; /* of its component in that role */
    struct kube_foreign *foreign;
    size_t n_foreign;
    size_t n_addresses; /* requested by discovery, and left out */
};

struct kube_object {
    const yaml_node *node;
    char kind[KUBE_KIND_MAX + 1];
    const char *ns, *name;
    struct workload_group *group; /* by kube_model_build() */
    struct workload_needs needs;  /* its claims, by the caller, */
    uint16_t *ports;              /* ... and the port of each */
};

struct kube_objects {
    struct kube_object *all; /* those that ask for ports, or all with a name */
    size_t n, max;
    struct kube_template *templates; /* in the order of their objects */
    size_t n_templates, max_templates;
    const yaml_node *strays[KUBE_STRAYS_MAX]; /* annotations that belong to no pod, the first of them */
    size_t n_strays;
};

/* Every object of every document. Strings and nodes are the tree's. INVALID with a place when something that
 * asks for ports cannot be understood. `is_by_name`: whatever has a name, and nothing that is asked for. */
dibs_status kube_objects_find(const yaml_text *yaml, bool is_by_name, struct kube_objects *out,
                              dibs_err *err);
void kube_objects_free(struct kube_objects *objects);

/* The value of a key, a merged one ("<<") too; followed. */
const yaml_node *kube_get(const yaml_node *map, const char *key);
/* The same along "a.b.c". */
const yaml_node *kube_at(const yaml_node *map, const char *path);
#endif
