/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_MANIFEST_VALUE_H
#define DIBS_WORKLOAD_MANIFEST_VALUE_H
/* Readers of single values, for workload/manifest*.c only. An absent key leaves the output unchanged; a
 * wrong type is INVALID, with the place. After the first fault every reader does nothing. */
#include "codec/yaml.h"
#include "workload/workload.h"

struct manifest {
    const yaml_text *yaml;
    struct workload_group *group;
    size_t n_parts; /* ports and references read */
    struct workload_faults faults;
};

/* Check that `node` is a map with only these keys (NULL-terminated). Messages call it `what`. */
void manifest_map(struct manifest *m, const yaml_node *node, const char *what, const char *const *keys);
/* Check that the key exists. */
void manifest_need(struct manifest *m, const yaml_node *map, const char *what, const char *key);
/* Copy a text into the group's arena. */
void manifest_text(struct manifest *m, const yaml_node *map, const char *key, const char **out);
void manifest_number(struct manifest *m, const yaml_node *map, const char *key, uint32_t min, uint32_t max,
                     uint32_t *out);
void manifest_bool(struct manifest *m, const yaml_node *map, const char *key, bool *out);
/* Return the list, of `min` to `max` items; NULL: absent. */
const yaml_node *manifest_list(struct manifest *m, const yaml_node *map, const char *key, uint32_t min,
                               uint32_t max);

/* Record a fault of the node. */
#define manifest_fault(m, node, ...) workload_fault(&(m)->faults, manifest_place(node), __VA_ARGS__)
/* Record "... must be EXPECTED, not a list". */
void manifest_wrong(struct manifest *m, const yaml_node *node, const char *what, const char *expected);
/* Record the failure of a call that has set m->err, prefixed with the node's place. */
void manifest_failed(struct manifest *m, const yaml_node *node, dibs_status status);
/* Allocate from the group's arena. NULL after a fault; lack of memory is one. */
void *manifest_take(struct manifest *m, size_t size);
const char *manifest_copy(struct manifest *m, const char *text);
struct workload_place manifest_place(const yaml_node *node);

/* ---- ports and references (manifest_port.c) ---- */
void manifest_ports(struct manifest *m, const yaml_node *map, struct workload_component *out);
void manifest_references(struct manifest *m, const yaml_node *map, struct workload_component *out);
/* Add to the number of parts of the group, which is bounded. */
void manifest_count_parts(struct manifest *m, const yaml_node *node, size_t n);

/* ---- `env` and `cwd` (manifest_variable.c) ---- */
/* Read the texts of `env`. The component's ports and references must have been read. */
void manifest_variables(struct manifest *m, const yaml_node *map, struct workload_component *out);
void manifest_directory(struct manifest *m, const yaml_node *map, struct workload_role *out);
#endif
