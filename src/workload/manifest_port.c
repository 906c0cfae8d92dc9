/* SPDX-License-Identifier: MIT */
/* The ports and references of a role or component. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "net/bindings.h"
#include "workload/manifest_value.h"

#include "base/banned.h"

enum { SHOWN = 80 };

static dibs_status put_place(const struct manifest *m, const yaml_node *node, dibs_status s, dibs_err *err)
{
    return s == DIBS_INVALID ? err_wrap(err, s, "%s:%u:%u", yaml_name(m->yaml), node->line, node->column) : s;
}

static dibs_status count_parts(struct manifest *m, const yaml_node *list, dibs_err *err)
{
    m->n_parts += list->n;
    if (m->n_parts <= WORKLOAD_PARTS_MAX)
        return DIBS_OK;
    return yaml_error(m->yaml, list, err, "more than %d ports and references", WORKLOAD_PARTS_MAX);
}

/* ---- ports ---- */

static dibs_status read_scope(const struct manifest *m, const yaml_node *node, struct workload_port *out,
                              dibs_err *err)
{
    char shown[SHOWN];
    const char *text = "PodScoped";
    dibs_status s = manifest_text(m, node, "scope", &text, err);

    if (s != DIBS_OK)
        return s;
    out->scope = strcmp(text, "RoleScoped") == 0 ? WORKLOAD_ROLE_SCOPED : WORKLOAD_POD_SCOPED;
    if (out->scope == WORKLOAD_ROLE_SCOPED || strcmp(text, "PodScoped") == 0)
        return DIBS_OK;
    return yaml_error(m->yaml, yaml_get(node, "scope"), err,
                      "'scope' must be 'PodScoped' or 'RoleScoped', got '%s'",
                      text_safe(text, shown, sizeof shown));
}

static dibs_status read_number(const struct manifest *m, const yaml_node *node, struct workload_port *out,
                               dibs_err *err)
{
    const struct manifest_limits ports = { 1, DIBS_PORT_MAX };
    uint32_t required = 0;
    uint32_t preferred = 0;
    uint32_t count = 1;
    dibs_status s = manifest_number(m, node, "port", ports, &required, err);

    if (s == DIBS_OK)
        s = manifest_number(m, node, "prefer", ports, &preferred, err);
    if (s == DIBS_OK)
        s = manifest_number(m, node, "count", (struct manifest_limits){ 1, WORKLOAD_COUNT_MAX }, &count, err);
    if (s == DIBS_OK)
        s = manifest_bool(m, node, "contiguous", &out->is_contiguous, err);
    if (s != DIBS_OK)
        return s;
    if (required && preferred)
        return yaml_error(m->yaml, yaml_key(node, "prefer"), err, "either 'port' or 'prefer', not both");
    out->mode = required ? DIBS_REQUIRED : preferred ? DIBS_PREFERRED : DIBS_RANDOM;
    out->port = (uint16_t) (required ? required : preferred);
    out->count = (uint16_t) count;
    return DIBS_OK;
}

static dibs_status add_address(const struct manifest *m, const yaml_node *node, const dibs_proto *protos,
                               size_t n_protos, struct workload_port *out, dibs_err *err)
{
    const yaml_node *at = yaml_follow(node);

    if (!yaml_is_text(at))
        return manifest_wrong(m, at, "address", "text or a list of texts", err);
    return put_place(m, at, bindings_add(at->text, protos, n_protos, out->bindings, &out->n_bindings, err),
                     err);
}

static dibs_status read_bindings(const struct manifest *m, const yaml_node *node, struct workload_port *out,
                                 dibs_err *err)
{
    const yaml_node *address = yaml_get(node, "address");
    const yaml_node *list = NULL;
    const char *proto = NULL;
    dibs_proto protos[BINDINGS_PROTOS_MAX] = { DIBS_TCP };
    size_t n_protos = 1;
    dibs_status s = manifest_text(m, node, "proto", &proto, err);

    if (s == DIBS_OK && proto)
        s = put_place(m, yaml_get(node, "proto"), bindings_protos(proto, protos, &n_protos, err), err);
    if (s == DIBS_OK && address && address->kind == YAML_LIST)
        s = manifest_list(m, node, "address", (struct manifest_limits){ 1, DIBS_BINDINGS_MAX }, &list, err);
    else if (s == DIBS_OK && address)
        return add_address(m, address, protos, n_protos, out, err);
    else if (s == DIBS_OK && proto)
        return bindings_add("*", protos, n_protos, out->bindings, &out->n_bindings, err);
    for (const yaml_node *item = list ? list->first : NULL; s == DIBS_OK && item; item = item->next)
        s = add_address(m, item, protos, n_protos, out, err);
    return s;
}

static dibs_status give_env(const struct manifest *m, struct workload_port *out, dibs_err *err)
{
    char env[WORKLOAD_ENV_MAX + 1] = "";

    workload_port_env(out->name, env, sizeof env);
    out->env = workload_text(m->group, env);
    return out->env ? DIBS_OK : manifest_no_memory(m, err);
}

static dibs_status read_port(const struct manifest *m, const yaml_node *node, struct workload_port *out,
                             dibs_err *err)
{
    static const char *const keys[] = { "name", "env",    "annotation", "scope",      "proto", "address",
                                        "port", "prefer", "count",      "contiguous", NULL };
    dibs_status s = DIBS_OK;

    out->place = manifest_place(node);
    out->count = 1;
    if (yaml_is_text(node)) { /* "http" is { name: http } */
        out->name = workload_text(m->group, node->text);
        return out->name ? give_env(m, out, err) : manifest_no_memory(m, err);
    }
    s = manifest_map(m, node, "a port", keys, err);
    if (s == DIBS_OK)
        s = manifest_need(m, node, "a port", "name", err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "name", &out->name, err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "env", &out->env, err);
    if (s == DIBS_OK && !out->env)
        s = give_env(m, out, err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "annotation", &out->annotation, err);
    if (s == DIBS_OK)
        s = read_scope(m, node, out, err);
    if (s == DIBS_OK)
        s = read_number(m, node, out, err);
    return s == DIBS_OK ? read_bindings(m, node, out, err) : s;
}

dibs_status manifest_ports(struct manifest *m, const yaml_node *map, struct workload_component *out,
                           dibs_err *err)
{
    const yaml_node *list = NULL;
    dibs_status s =
        manifest_list(m, map, "ports", (struct manifest_limits){ 0, WORKLOAD_PORTS_MAX }, &list, err);

    if (s == DIBS_OK && list)
        s = count_parts(m, list, err);
    if (s != DIBS_OK || !list)
        return s;
    out->ports = workload_take(m->group, list->n * sizeof *out->ports);
    if (!out->ports)
        return manifest_no_memory(m, err);
    for (const yaml_node *item = list->first; s == DIBS_OK && item; item = item->next)
        s = read_port(m, yaml_follow(item), &out->ports[out->n_ports++], err);
    return s;
}

/* ---- references ---- */

/* { role: api, port: http }: the way to name what has a dot or a bracket in its name. */
static dibs_status read_target(const struct manifest *m, const yaml_node *node,
                               struct workload_reference *out, dibs_err *err)
{
    static const char *const keys[] = { "role", "instance", "component", "pod", "port", NULL };
    const struct manifest_limits indexes = { 0, WORKLOAD_INSTANCES_MAX - 1 };
    uint32_t instance = UINT32_MAX;
    uint32_t pod = UINT32_MAX;
    dibs_status s = manifest_map(m, node, "'from'", keys, err);

    if (s == DIBS_OK)
        s = manifest_need(m, node, "'from'", "role", err);
    if (s == DIBS_OK)
        s = manifest_need(m, node, "'from'", "port", err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "role", &out->role, err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "component", &out->component, err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "port", &out->port, err);
    if (s == DIBS_OK)
        s = manifest_number(m, node, "instance", indexes, &instance, err);
    if (s == DIBS_OK)
        s = manifest_number(m, node, "pod", indexes, &pod, err);
    out->instance = instance == UINT32_MAX ? -1 : (int32_t) instance;
    out->pod = pod == UINT32_MAX ? -1 : (int32_t) pod;
    return s;
}

static dibs_status read_reference(const struct manifest *m, const yaml_node *node,
                                  struct workload_reference *out, dibs_err *err)
{
    static const char *const keys[] = { "env", "from", NULL };
    const yaml_node *from = NULL;
    dibs_status s = manifest_map(m, node, "a reference", keys, err);

    if (s == DIBS_OK)
        s = manifest_need(m, node, "a reference", "env", err);
    if (s == DIBS_OK)
        s = manifest_need(m, node, "a reference", "from", err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "env", &out->env, err);
    if (s != DIBS_OK)
        return s;
    from = yaml_get(node, "from");
    out->place = manifest_place(from);
    if (from->kind == YAML_MAP)
        return read_target(m, from, out, err);
    if (!yaml_is_text(from))
        return manifest_wrong(m, from, "from", "text such as 'role.port', or a map", err);
    return put_place(m, from, workload_reference_parse(m->group, from->text, out, err), err);
}

dibs_status manifest_references(struct manifest *m, const yaml_node *map, struct workload_component *out,
                                dibs_err *err)
{
    const yaml_node *list = NULL;
    dibs_status s = manifest_list(m, map, "references",
                                  (struct manifest_limits){ 0, WORKLOAD_REFERENCES_MAX }, &list, err);

    if (s == DIBS_OK && list)
        s = count_parts(m, list, err);
    if (s != DIBS_OK || !list)
        return s;
    out->references = workload_take(m->group, list->n * sizeof *out->references);
    if (!out->references)
        return manifest_no_memory(m, err);
    for (const yaml_node *item = list->first; s == DIBS_OK && item; item = item->next)
        s = read_reference(m, yaml_follow(item), &out->references[out->n_references++], err);
    return s;
}
