/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_OBJECTS_H
#define DIBS_KUBE_INJECT_OBJECTS_H
/* Find the pod templates in Kubernetes objects, and those of them that request ports. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/yaml.h"
#include "workload/annotation.h"
#include "workload/workload.h"

enum {
    KUBE_OBJECTS_MAX = 1024,   /* with requests, in one file */
    KUBE_TEMPLATES_MAX = 4096, /* of these objects */
    KUBE_LOOKS_MAX = 1 << 20,  /* nodes visited: aliases can expand a short text */
    KUBE_KIND_MAX = 63,        /* what Kubernetes allows */
    KUBE_STRAYS_MAX = 16,      /* reported one by one */
};

/* A reference to a role of another object of the same file and namespace. */
struct kube_foreign {
    size_t object; /* owner of the port */
    struct workload_reference reference;
};

/* A pod or pod template that requests ports. */
struct kube_template {
    size_t object;                /* index of its object */
    const char *role;             /* RBG's role, or the object's name */
    const char *component;        /* NULL: the role has only one kind of pod */
    const yaml_node *pod;         /* the map with metadata and spec */
    const yaml_node *annotations; /* of the component, which take precedence; NULL: none */
    const yaml_node *of_pod;      /* the pod's own; NULL: none */
    const yaml_node *config;      /* annotation with the requests; NULL: none */
    const yaml_node *discovery;   /* annotation of RBG's component discovery; NULL: none */
    const yaml_node *at;          /* first of the two, for messages */
    enum workload_dialect dialect;
    uint32_t instances, size; /* number of instances, and of pods in each */
    bool is_host_network;
    /* Set by kube_model_build(): */
    struct workload_role *in;
    size_t place; /* index of its component in that role */
    struct kube_foreign *foreign;
    size_t n_foreign;
    size_t n_addresses; /* requested by discovery, and left out */
};

struct kube_object {
    const yaml_node *node;
    char kind[KUBE_KIND_MAX + 1];
    const char *ns, *name;
    struct workload_group *group; /* by kube_model_build() */
    struct workload_needs needs;  /* claims; set by the caller */
    uint16_t *ports;              /* port of each claim; set by the caller */
};

struct kube_objects {
    struct kube_object *all; /* with requests, or all named ones */
    size_t n, max;
    struct kube_template *templates; /* ordered by object */
    size_t n_templates, max_templates;
    const yaml_node *strays[KUBE_STRAYS_MAX]; /* first requesting annotations without a pod */
    size_t n_strays;
};

/* Find the objects of all documents. Strings and nodes belong to the tree. INVALID, with the place, when a
 * request cannot be understood. `is_by_name`: find all named objects and ignore their requests. */
dibs_status kube_objects_find(const yaml_text *yaml, bool is_by_name, struct kube_objects *out,
                              dibs_err *err);
void kube_objects_free(struct kube_objects *objects);

/* Return the value of a key, also of a merged one ("<<"), with aliases resolved. */
const yaml_node *kube_get(const yaml_node *map, const char *key);
#endif
