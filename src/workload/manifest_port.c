/* SPDX-License-Identifier: MIT */
/* Parse the ports and references of a role or component. */

#include "net/bindings.h"
#include "workload/manifest_value.h"

#include "base/banned.h"

void manifest_count_parts(struct manifest *m, const yaml_node *node, size_t n)
{
    m->n_parts += n;
    if (m->n_parts > WORKLOAD_PARTS_MAX)
        manifest_fault(m, node, "more than %d ports and references", WORKLOAD_PARTS_MAX);
}

static void read_scope(struct manifest *m, const yaml_node *node, struct workload_port *out)
{
    const char *text = NULL;

    manifest_text(m, node, "scope", &text);
    if (text && !workload_scope_parse(text, &out->scope))
        manifest_fault(m, yaml_get(node, "scope"), "'scope' must be 'PodScoped' or 'RoleScoped', got '%.80s'",
                       text);
}

static void read_number(struct manifest *m, const yaml_node *node, struct workload_port *out)
{
    uint32_t required = 0;
    uint32_t preferred = 0;
    uint32_t count = 1;
    uint32_t container = 0;
    uint32_t as = 0;

    manifest_number(m, node, "port", 1, DIBS_PORT_MAX, &required);
    manifest_number(m, node, "prefer", 1, DIBS_PORT_MAX, &preferred);
    manifest_number(m, node, "count", 1, WORKLOAD_COUNT_MAX, &count);
    manifest_number(m, node, "container", 1, DIBS_PORT_MAX, &container);
    manifest_number(m, node, "as", 1, DIBS_PORT_MAX, &as);
    manifest_bool(m, node, "contiguous", &out->is_contiguous);
    manifest_bool(m, node, "reuse", &out->is_reuser);
    if (required && preferred)
        manifest_fault(m, yaml_key(node, "prefer"), "either 'port' or 'prefer', not both");
    out->mode = required ? DIBS_REQUIRED : preferred ? DIBS_PREFERRED : DIBS_RANDOM;
    out->port = (uint16_t) (required ? required : preferred);
    out->count = (uint16_t) count;
    out->container = (uint16_t) container;
    out->as = (uint16_t) as;
}

static void add_address(struct manifest *m, const yaml_node *node, const dibs_proto *protos, size_t n_protos,
                        struct workload_port *out)
{
    if (!yaml_is_text(node))
        manifest_wrong(m, node, "address", "text or a list of texts");
    else
        manifest_failed(
            m, node,
            bindings_add(node->text, protos, n_protos, out->bindings, &out->n_bindings, m->faults.err));
}

static void read_bindings(struct manifest *m, const yaml_node *node, struct workload_port *out)
{
    const yaml_node *address = yaml_get(node, "address");
    const char *proto = NULL;
    dibs_proto protos[PROTO_LIST_MAX] = { DIBS_TCP };
    size_t n_protos = 1;

    manifest_text(m, node, "proto", &proto);
    if (m->faults.status == DIBS_OK && proto)
        manifest_failed(m, yaml_get(node, "proto"), proto_list(proto, protos, &n_protos, m->faults.err));
    if (m->faults.status != DIBS_OK || (!proto && !address))
        return;
    if (!address)
        m->faults.status =
            bindings_add("*", protos, n_protos, out->bindings, &out->n_bindings, m->faults.err);
    else if (address->kind != YAML_LIST)
        add_address(m, address, protos, n_protos, out);
    else
        (void) manifest_list(m, node, "address", 1, DIBS_BINDINGS_MAX);
    for (const yaml_node *item = address ? address->first : NULL; m->faults.status == DIBS_OK && item;
         item = item->next)
        add_address(m, yaml_follow(item), protos, n_protos, out);
}

static void read_port(struct manifest *m, const yaml_node *node, struct workload_port *out)
{
    static const char *const keys[] = { "name",      "env",  "annotation", "scope", "proto",
                                        "address",   "port", "prefer",     "count", "contiguous",
                                        "container", "as",   "reuse",      NULL };
    char env[WORKLOAD_ENV_MAX + 1] = "";

    out->place = manifest_place(node);
    out->count = 1;
    if (yaml_is_text(node)) { /* "http" is { name: http } */
        out->name = manifest_copy(m, node->text);
    } else {
        manifest_map(m, node, "a port", keys);
        manifest_need(m, node, "a port", "name");
        manifest_text(m, node, "name", &out->name);
        manifest_text(m, node, "env", &out->env);
        manifest_text(m, node, "annotation", &out->annotation);
        read_scope(m, node, out);
        read_number(m, node, out);
        read_bindings(m, node, out);
    }
    if (m->faults.status == DIBS_OK && !out->env) {
        workload_port_env(out->name, env, sizeof env);
        out->env = manifest_copy(m, env);
    }
}

void manifest_ports(struct manifest *m, const yaml_node *map, struct workload_component *out)
{
    const yaml_node *list = manifest_list(m, map, "ports", 0, WORKLOAD_PORTS_MAX);

    if (!list)
        return;
    manifest_count_parts(m, list, list->n);
    out->ports = manifest_take(m, list->n * sizeof *out->ports);
    for (const yaml_node *item = list->first; m->faults.status == DIBS_OK && item; item = item->next)
        read_port(m, yaml_follow(item), &out->ports[out->n_ports++]);
}

/* Read { role: api, port: http }, the form for names with a dot or a bracket. */
static void read_target(struct manifest *m, const yaml_node *node, struct workload_reference *out)
{
    static const char *const keys[] = { "role", "instance", "component", "pod", "port", NULL };
    uint32_t instance = UINT32_MAX;
    uint32_t pod = UINT32_MAX;

    manifest_map(m, node, "'from'", keys);
    manifest_need(m, node, "'from'", "role");
    manifest_need(m, node, "'from'", "port");
    manifest_text(m, node, "role", &out->role);
    manifest_text(m, node, "component", &out->component);
    manifest_text(m, node, "port", &out->port);
    manifest_number(m, node, "instance", 0, WORKLOAD_INSTANCES_MAX - 1, &instance);
    manifest_number(m, node, "pod", 0, WORKLOAD_INSTANCES_MAX - 1, &pod);
    out->instance = instance == UINT32_MAX ? -1 : (int32_t) instance;
    out->pod = pod == UINT32_MAX ? -1 : (int32_t) pod;
}

static void read_reference(struct manifest *m, const yaml_node *node, struct workload_reference *out)
{
    static const char *const keys[] = { "env", "from", NULL };

    manifest_map(m, node, "a reference", keys);
    manifest_need(m, node, "a reference", "env");
    manifest_need(m, node, "a reference", "from");
    manifest_text(m, node, "env", &out->env);
    if (m->faults.status != DIBS_OK)
        return;
    const yaml_node *from = yaml_get(node, "from");
    out->place = manifest_place(from);
    if (from->kind == YAML_MAP)
        read_target(m, from, out);
    else if (!yaml_is_text(from))
        manifest_wrong(m, from, "from", "text such as 'role.port', or a map");
    else
        manifest_failed(m, from, workload_reference_parse(m->group, from->text, out, m->faults.err));
}

void manifest_references(struct manifest *m, const yaml_node *map, struct workload_component *out)
{
    const yaml_node *list = manifest_list(m, map, "references", 0, WORKLOAD_REFERENCES_MAX);

    if (!list)
        return;
    manifest_count_parts(m, list, list->n);
    out->references = manifest_take(m, list->n * sizeof *out->references);
    for (const yaml_node *item = list->first; m->faults.status == DIBS_OK && item; item = item->next)
        read_reference(m, yaml_follow(item), &out->references[out->n_references++]);
}
