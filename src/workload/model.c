/* SPDX-License-Identifier: MIT */
/* Memory of the model, and lookups in it. */
#include <stdarg.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "workload/workload.h"

#include "base/banned.h"

struct workload_group *workload_new(void)
{
    return calloc(1, sizeof(struct workload_group));
}

void workload_free(struct workload_group *group)
{
    if (!group)
        return;
    arena_free(group->arena);
    free(group);
}

void *workload_take(struct workload_group *group, size_t size)
{
    return arena_take(&group->arena, size);
}

char *workload_text(struct workload_group *group, const char *text)
{
    return arena_text(&group->arena, text, strlen(text));
}

DIBS_PRINTF(4, 0)
static dibs_status put_error(const struct workload_group *group, struct workload_place place, dibs_err *err,
                             const char *fmt, va_list args)
{
    char text[DIBS_ERR_MSG_MAX] = "";

    (void) vsnprintf(text, sizeof text, fmt, args);
    if (!group->source)
        return err_set(err, DIBS_INVALID, "%s", text);
    if (!place.line)
        return err_set(err, DIBS_INVALID, "%s: %s", group->source, text);
    return err_set(err, DIBS_INVALID, "%s:%u:%u: %s", group->source, place.line, place.column, text);
}

dibs_status workload_error(const struct workload_group *group, struct workload_place place, dibs_err *err,
                           const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    dibs_status s = put_error(group, place, err, fmt, args);
    va_end(args);
    return s;
}

void workload_fault(struct workload_faults *faults, struct workload_place place, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    if (faults->status == DIBS_OK)
        faults->status = put_error(faults->group, place, faults->err, fmt, args);
    va_end(args);
}

bool workload_scope_parse(const char *text, enum workload_scope *out)
{
    *out = strcmp(text, "RoleScoped") == 0 ? WORKLOAD_ROLE_SCOPED : WORKLOAD_POD_SCOPED;
    return *out == WORKLOAD_ROLE_SCOPED || strcmp(text, "PodScoped") == 0;
}

const struct workload_role *workload_role(const struct workload_group *group, const char *name)
{
    for (size_t i = 0; i < group->n_roles; i++)
        if (strcmp(group->roles[i].name, name) == 0)
            return &group->roles[i];
    return NULL;
}

const struct workload_component *workload_component(const struct workload_role *role, const char *name)
{
    for (size_t i = 0; i < role->n_components; i++) {
        const char *has = role->components[i].name;

        if (name && has ? strcmp(has, name) == 0 : name == has)
            return &role->components[i];
    }
    return NULL;
}

const struct workload_port *workload_port(const struct workload_component *component, const char *name)
{
    for (size_t i = 0; i < component->n_ports; i++)
        if (strcmp(component->ports[i].name, name) == 0)
            return &component->ports[i];
    return NULL;
}

const dibs_binding *workload_bindings(const struct workload_port *port, size_t *n)
{
    static const dibs_binding plain = { .proto = DIBS_TCP, .address = { .len = 16 } };

    *n = port->n_bindings ? port->n_bindings : 1;
    return port->n_bindings ? port->bindings : &plain;
}
