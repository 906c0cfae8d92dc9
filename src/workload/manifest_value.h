/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_MANIFEST_VALUE_H
#define DIBS_WORKLOAD_MANIFEST_VALUE_H
/* Single values of a manifest. Each reader leaves its output as it was when the key is not there; a wrong
 * type is INVALID, with what was expected and where. After the first fault every reader does nothing. Nothing
 * outside of workload/manifest*.c includes this. */
#include "codec/yaml.h"
#include "workload/workload.h"

struct manifest {
    const yaml_text *yaml;
    struct workload_group *group;
    size_t n_parts; /* ports and references read */
    struct workload_faults faults;
};

/* `node` is a map and has none but these keys (the list ends with NULL). `what` it is, for messages. */
void manifest_map(struct manifest *m, const yaml_node *node, const char *what, const char *const *keys);
/* The key must be there. */
void manifest_need(struct manifest *m, const yaml_node *map, const char *what, const char *key);
/* Text into the group's arena. */
void manifest_text(struct manifest *m, const yaml_node *map, const char *key, const char **out);
void manifest_number(struct manifest *m, const yaml_node *map, const char *key, uint32_t min, uint32_t max,
                     uint32_t *out);
void manifest_bool(struct manifest *m, const yaml_node *map, const char *key, bool *out);
/* The list itself, of `min` to `max` items; NULL: it is not there. */
const yaml_node *manifest_list(struct manifest *m, const yaml_node *map, const char *key, uint32_t min,
                               uint32_t max);

/* Record what is wrong with the node. */
#define manifest_fault(m, node, ...) workload_fault(&(m)->faults, manifest_place(node), __VA_ARGS__)
/* "... must be EXPECTED, not a list" */
void manifest_wrong(struct manifest *m, const yaml_node *node, const char *what, const char *expected);
/* Record the failure of a call that has set m->err, with the node's place in front. */
void manifest_failed(struct manifest *m, const yaml_node *node, dibs_status status);
/* From the group's arena; NULL after a fault, and without memory, which is one. */
void *manifest_take(struct manifest *m, size_t size);
const char *manifest_copy(struct manifest *m, const char *text);
struct workload_place manifest_place(const yaml_node *node);

/* ---- ports and references (manifest_port.c) ---- */
void manifest_ports(struct manifest *m, const yaml_node *map, struct workload_component *out);
void manifest_references(struct manifest *m, const yaml_node *map, struct workload_component *out);
#endif
