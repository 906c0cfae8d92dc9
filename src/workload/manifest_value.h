/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_MANIFEST_VALUE_H
#define DIBS_WORKLOAD_MANIFEST_VALUE_H
/* Single values of a manifest. Each reader leaves its output as it was when the key is not there; a wrong
 * type is INVALID, with what was expected and where. Nothing outside of workload/manifest*.c includes this.
 */
#include "workload/workload.h"
#include "yaml/yaml.h"

struct manifest {
    const yaml_text *yaml;
    struct workload_group *group;
    size_t n_parts; /* ports and references read */
};

struct manifest_limits {
    uint32_t min, max;
};

/* `node` is a map and has none but these keys (the list ends with NULL). `what` it is, for messages. */
dibs_status manifest_map(const struct manifest *m, const yaml_node *node, const char *what,
                         const char *const *keys, dibs_err *err);
/* Text into the group's arena. */
dibs_status manifest_text(const struct manifest *m, const yaml_node *map, const char *key, const char **out,
                          dibs_err *err);
dibs_status manifest_number(const struct manifest *m, const yaml_node *map, const char *key,
                            struct manifest_limits limits, uint32_t *out, dibs_err *err);
dibs_status manifest_bool(const struct manifest *m, const yaml_node *map, const char *key, bool *out,
                          dibs_err *err);
/* The list itself, of limits.min to limits.max items. */
dibs_status manifest_list(const struct manifest *m, const yaml_node *map, const char *key,
                          struct manifest_limits limits, const yaml_node **out, dibs_err *err);
/* The key must be there. */
dibs_status manifest_need(const struct manifest *m, const yaml_node *map, const char *what, const char *key,
                          dibs_err *err);
/* "... must be EXPECTED, not a list" */
dibs_status manifest_wrong(const struct manifest *m, const yaml_node *node, const char *what,
                           const char *expected, dibs_err *err);
dibs_status manifest_no_memory(const struct manifest *m, dibs_err *err);
struct workload_place manifest_place(const yaml_node *node);

/* ---- ports and references (manifest_port.c) ---- */
dibs_status manifest_ports(struct manifest *m, const yaml_node *map, struct workload_component *out,
                           dibs_err *err);
dibs_status manifest_references(struct manifest *m, const yaml_node *map, struct workload_component *out,
                                dibs_err *err);
#endif
