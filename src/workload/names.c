/* SPDX-License-Identifier: MIT */
/* Names of a workload's claims. */
#include <stdio.h>
#include <string.h>

#include "base/name_part.h"
#include "workload/workload.h"

#include "base/banned.h"

enum { NUMBER_MAX = 11 }; /* '.' and ten digits */

void workload_part(const char *name, uint32_t number, char out[DIBS_NAME_PART_MAX + 1])
{
    name_part_encode(name, ".", DIBS_NAME_PART_MAX - NUMBER_MAX, out);
    if (number > 0)
        (void) snprintf(out + strlen(out), NUMBER_MAX + 1, ".%u", number);
    if (strcmp(out, "-") == 0) /* "-" means "none" */
        (void) snprintf(out, 4, "%%2D");
}

/* Write the name of a pod, or of all its component's pods. `last`: the port's part, or "". */
static void name_pod(const struct workload_group *group, const struct workload_pod *pod, bool is_shared,
                     const char *last, char out[DIBS_NAME_MAX + 1])
{
    char role[DIBS_NAME_PART_MAX + 1];
    char instance[16] = "-";
    char component[DIBS_NAME_PART_MAX + 1] = "-";

    name_part_encode(pod->role->name, "", DIBS_NAME_PART_MAX, role);
    if (!is_shared)
        (void) snprintf(instance, sizeof instance, "%u", pod->instance);
    if (pod->component->name)
        workload_part(pod->component->name, is_shared ? 0 : pod->id, component);
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s/%s/%s%s%s", group->group, role, instance, component,
                    *last ? "/" : "", last);
}

void workload_pod_prefix(const struct workload_group *group, const struct workload_pod *pod,
                         char out[DIBS_NAME_MAX + 1])
{
    name_pod(group, pod, false, "", out);
}

void workload_claim_name(const struct workload_group *group, const struct workload_pod *pod,
                         const struct workload_port *port, uint32_t number, char out[DIBS_NAME_MAX + 1])
{
    char last[DIBS_NAME_PART_MAX + 1];

    workload_part(port->name, number, last);
    name_pod(group, pod, port->scope == WORKLOAD_ROLE_SCOPED, last, out);
}
