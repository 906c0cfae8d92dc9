/* SPDX-License-Identifier: MIT */
/* What a pod is told: its variables and their values. */
#include <string.h>

#include "base/err.h"
#include "workload/workload.h"

#include "base/banned.h"

/* The place of a claim among the needs; they are few, and the pod's own come first. */
static size_t find(const struct workload_needs *needs, const char *name)
{
    size_t i = 0;

    while (i < needs->n && strcmp(needs->all[i].name, name) != 0)
        i++;
    return i;
}

void workload_value_text(const struct workload_port *port, const dibs_claim *claims, char *out, size_t size)
{
    size_t used = 0;
    uint32_t n = port->is_contiguous ? 1 : port->count;

    for (uint32_t i = 0; i < n && used < size; i++)
        used += (size_t) snprintf(out + used, size - used, "%s%u", i ? "," : "", claims[i].port);
}

dibs_status workload_values(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_needs *needs, const dibs_claim *claims,
                            struct workload_value **out, size_t *n, dibs_err *err)
{
    const struct workload_component *component = pod->component;
    size_t total = component->n_ports + component->n_references;
    AUTO(free_auto) struct workload_value *values = calloc(total + 1, sizeof *values);

    if (!values)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < total; i++) {
        bool is_reference = i >= component->n_ports;
        const struct workload_reference *reference =
            is_reference ? &component->references[i - component->n_ports] : NULL;
        const struct workload_port *port = is_reference ? NULL : &component->ports[i];
        char name[DIBS_NAME_MAX + 1];
        dibs_status s = DIBS_OK;

        if (is_reference)
            s = workload_reference_name(group, pod, reference, name, &port, err);
        else
            workload_claim_name(group, pod, port, 0, name);
        if (s != DIBS_OK)
            return s;
        size_t at = find(needs, name);
        if (at == needs->n)
            return err_set(err, DIBS_FAILURE, "workload: '%s' was not asked for", name);
        values[i].env = is_reference ? reference->env : port->env;
        values[i].annotation = is_reference ? NULL : port->annotation;
        values[i].is_reference = is_reference;
        values[i].port = port;
        values[i].first = claims[at].port;
        workload_value_text(port, claims + at, values[i].text, sizeof values[i].text);
    }
    *n = total;
    *out = TAKE(values);
    return DIBS_OK;
}

dibs_status workload_obtain(dibs *handle, const struct workload_group *group,
                            const struct workload_needs *needs, dibs_claim **out, dibs_err *err)
{
    AUTO(free_auto) dibs_request *requests = calloc(needs->n + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(needs->n + 1, sizeof *claims);
    dibs_batch batch = { .requests = requests, .n = needs->n };

    if (!requests || !claims)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < needs->n; i++)
        requests[i] = workload_request(group, &needs->all[i]);
    dibs_status s = dibs_claim_ports(handle, &batch, claims, err);
    if (s == DIBS_OK)
        *out = TAKE(claims);
    return s;
}
