/* SPDX-License-Identifier: MIT */
/* Variables of a pod and their values. */
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "workload/restarts.h"

#include "base/banned.h"

/* Return the index of a need by its name without the group, which the ledger may have renamed since. Needs
 * are few, and the pod's own come first. */
static size_t find(const struct workload_needs *needs, const char *name)
{
    size_t i = 0;

    while (i < needs->n && strcmp(strchr(needs->all[i].name, '/'), strchr(name, '/')) != 0)
        i++;
    return i;
}

void workload_value_text(const struct workload_port *port, const uint16_t *ports, char *out, size_t size)
{
    size_t used = 0;
    uint32_t n = port->is_contiguous ? 1 : port->count;

    for (uint32_t i = 0; i < n && used < size; i++)
        used += (size_t) snprintf(out + used, size - used, "%s%u", i ? "," : "", ports[i]);
}

/* Set the value of one of the pod's ports or references. */
static dibs_status set_value(const struct workload_needs *needs, const char *name,
                             const struct workload_port *port, const uint16_t *ports,
                             struct workload_value *out, dibs_err *err)
{
    size_t at = find(needs, name);

    if (at == needs->n || !port)
        return err_set(err, DIBS_FAILURE, "workload: no need has the name '%s'", name);
    out->port = port;
    out->first = ports[at];
    workload_value_text(port, ports + at, out->text, sizeof out->text);
    return DIBS_OK;
}

dibs_status workload_values(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_needs *needs, const uint16_t *ports,
                            struct workload_value **out, dibs_err *err)
{
    const struct workload_component *component = pod->component;
    size_t total = component->n_ports + component->n_references;
    AUTO(free_auto) struct workload_value *values = calloc(total + 1, sizeof *values);
    char name[DIBS_NAME_MAX + 1];
    dibs_status s = DIBS_OK;

    if (!values)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < component->n_ports && s == DIBS_OK; i++) {
        const struct workload_port *port = &component->ports[i];

        values[i].env = port->env;
        values[i].annotation = port->annotation;
        workload_claim_name(group, pod, port, 0, name);
        s = set_value(needs, name, port, ports, &values[i], err);
    }
    for (size_t i = component->n_ports; i < total && s == DIBS_OK; i++) {
        const struct workload_reference *reference = &component->references[i - component->n_ports];
        const struct workload_port *port = NULL;

        values[i].env = reference->env;
        values[i].is_reference = true;
        s = workload_reference_name(group, pod, reference, name, &port, err);
        if (s == DIBS_OK)
            s = set_value(needs, name, port, ports, &values[i], err);
    }
    if (s != DIBS_OK)
        return s;
    *out = TAKE(values);
    return DIBS_OK;
}

static bool has_variable(const struct workload_value *values, size_t n, const char *variable)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i].env, variable) == 0)
            return true;
    return false;
}

void workload_each_variable(const struct workload_pod *pod, const struct workload_value *values,
                            workload_variable_fn *fn, void *ctx)
{
    size_t n = pod->component->n_ports + pod->component->n_references;
    char number[16];

    (void) snprintf(number, sizeof number, "%u", n > 0 ? values[0].first : 0u);
    if (pod->component->n_ports > 0 && !has_variable(values, n, "PORT"))
        fn(ctx, "PORT", number);
    (void) snprintf(number, sizeof number, "%u", pod->id);
    if (pod->component->size > 1 && !has_variable(values, n, "DIBS_POD"))
        fn(ctx, "DIBS_POD", number);
    for (size_t i = 0; i < n; i++)
        fn(ctx, values[i].env, values[i].text);
}

static void add_variable(void *ctx, const char *variable, const char *text)
{
    struct bytes *to = ctx;

    if (to->n > 0)
        bytes_add_text(to, " ");
    bytes_add_text(to, variable);
    bytes_add_text(to, "=");
    bytes_add_text(to, text);
}

char *workload_env_text(const struct workload_pod *pod, const struct workload_value *values)
{
    struct bytes text = { 0 };

    workload_each_variable(pod, values, add_variable, &text);
    bytes_add(&text, "", 1);
    if (!text.is_lost)
        return text.at;
    bytes_done(&text);
    return NULL;
}

struct variable {
    const char *name, *text;
};

/* Split the text, which comes from a record that any program may have written. SIZE_MAX: invalid. */
static size_t cut(char *text, struct variable *out)
{
    size_t n = 0;
    char *rest = text;

    for (char *word = strsep(&rest, " "); word && word[0]; word = strsep(&rest, " ")) {
        char *value = strchr(word, '=');

        if (!value || !value[1] || value[1 + strspn(value + 1, "0123456789,")])
            return SIZE_MAX;
        *value = '\0';
        if (!workload_is_env_name(word))
            return SIZE_MAX;
        out[n++] = (struct variable){ word, value + 1 };
    }
    return n;
}

static const char *text_of(const struct variable *all, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].text;
    return NULL;
}

void restart_compare(struct workload_restart *r)
{
    /* A variable takes at least three bytes and a blank. */
    AUTO(free_auto) struct variable *before = calloc(strlen(r->was) / 4 + 1, sizeof *before);
    AUTO(free_auto) struct variable *after = calloc(strlen(r->now) / 4 + 1, sizeof *after);
    size_t n_before = before ? cut(r->was, before) : SIZE_MAX;
    size_t n_after = after ? cut(r->now, after) : SIZE_MAX;

    if (n_before == SIZE_MAX || n_after == SIZE_MAX)
        return;
    struct workload_difference *all = calloc(n_before + n_after + 1, sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < n_after && all; i++) {
        const char *old = text_of(before, n_before, after[i].name);

        if (!old || strcmp(old, after[i].text) != 0)
            all[n++] = (struct workload_difference){ after[i].name, old, after[i].text, false };
    }
    for (size_t i = 0; i < n_before && all; i++)
        if (!text_of(after, n_after, before[i].name))
            all[n++] = (struct workload_difference){ before[i].name, before[i].text, NULL, false };
    r->all = all;
    r->n = n;
}

void restart_free(struct workload_restart *restart)
{
    free(restart->all);
    free(restart->was);
    free(restart->now);
}

dibs_status workload_obtain(dibs *handle, const struct workload_group *group,
                            const struct workload_needs *needs, uint16_t **out, dibs_err *err)
{
    AUTO(free_auto) dibs_request *requests = calloc(needs->n + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(needs->n + 1, sizeof *claims);
    AUTO(free_auto) uint16_t *ports = calloc(needs->n + 1, sizeof *ports);
    dibs_batch batch = { .requests = requests, .n = needs->n };

    if (!requests || !claims || !ports)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < needs->n; i++)
        requests[i] = workload_request(group, &needs->all[i]);
    dibs_status s = workload_advise(group, dibs_claim_ports(handle, &batch, claims, err), err);
    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < needs->n; i++)
        ports[i] = claims[i].port;
    *out = TAKE(ports);
    return DIBS_OK;
}

dibs_status workload_advise(const struct workload_group *group, dibs_status status, dibs_err *err)
{
    if (status != DIBS_TAKEN || !err || !err->blocker.differs || !present_is_manifest_name(err->blocker.name))
        return status;
    dibs_blocker blocker = err->blocker;
    (void) err_set(err, status,
                   "'%s' has port %u, which is not what %s says of it now; 'dibs plan' shows what changed, "
                   "'dibs up' makes it so",
                   blocker.name, blocker.port, group->source ? group->source : "the group");
    err->blocker = blocker;
    return status;
}

bool workload_user_of(dibs *handle, const struct workload_group *group, const dibs_blocker *blocker,
                      dibs_claim *out)
{
    AUTO(present_free) struct present present = { 0 };
    const dibs_claim *user = NULL;

    if (present_list(handle, group, &present, NULL) != DIBS_OK)
        return false;
    for (size_t i = 0; i < present.n && !user; i++) {
        const dibs_claim *claim = &present.claims[i];

        /* The blocker may have the name NAME/PORT, which the rolled-back sync gave it. */
        if (claim->port == blocker->port && strncmp(blocker->name, claim->name, strlen(claim->name)) == 0)
            user = present_is_held(claim) ? claim : present_role_user(&present, claim);
    }
    if (!user || user->holder != DIBS_HELD_BY_PROCESS)
        return false;
    *out = *user;
    return true;
}
