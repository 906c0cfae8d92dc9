/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "cli/manifest.h"
#include "codec/json.h"

#include "base/banned.h"

struct variable {
    char name[DIBS_NAME_MAX + 8];
    char value[8 * WORKLOAD_COUNT_MAX];
};

struct variables {
    struct variable *all;
    size_t n;
};

static void variables_free(struct variables *v)
{
    free(v->all);
}

/* ---- printing ---- */

/* Values are digits and commas: nothing to quote in any of these. */
static const struct format {
    const char *name;
    const char *before, *between;
} formats[] = {
    { "dotenv", "", "=" },
    { "export", "export ", "=" },
    { "fish", "set -gx ", " " },
    { "systemd", "", "=" }, /* as EnvironmentFile= reads it */
};

static void print_json(const struct variables *v)
{
    struct jsonw w;

    jsonw_begin(&w, stdout);
    jsonw_object(&w);
    for (size_t i = 0; i < v->n; i++)
        jsonw_key_string(&w, v->all[i].name, v->all[i].value);
    jsonw_end_object(&w);
    jsonw_finish(&w);
}

static void print(const struct variables *v, const struct format *format)
{
    for (size_t i = 0; i < v->n; i++)
        (void) printf("%s%s%s%s\n", format->before, v->all[i].name, format->between, v->all[i].value);
}

static dibs_status format_from(const struct cli *cli, const struct format **out, dibs_err *err)
{
    const char *name = cli_value(cli, "format");

    *out = &formats[0];
    if (!name || strcmp(name, "json") == 0) {
        *out = name || cli->json ? NULL : *out;
        return DIBS_OK;
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0) {
            *out = &formats[i];
            return DIBS_OK;
        }
    return err_set(err, DIBS_INVALID,
                   "env: there is no format '%.40s'; there are dotenv, export, json, fish and systemd", name);
}

/* ---- collecting ---- */

static dibs_status of_pod(struct cli *cli, const struct workload_group *group, const struct workload_pod *pod,
                          struct variables *out, dibs_err *err)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    AUTO(free_auto) struct workload_value *values = NULL;
    dibs_status s = workload_needs_of(group, pod, &needs, err);

    if (s == DIBS_OK)
        s = workload_obtain(cli->handle, group, &needs, &ports, err);
    if (s == DIBS_OK)
        s = workload_values(group, pod, &needs, ports, &values, err);
    if (s != DIBS_OK)
        return s;
    out->n = pod->component->n_ports + pod->component->n_references;
    out->all = calloc(out->n + 1, sizeof *out->all);
    if (!out->all)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < out->n; i++) {
        (void) snprintf(out->all[i].name, sizeof out->all[i].name, "%s", values[i].env);
        (void) snprintf(out->all[i].value, sizeof out->all[i].value, "%s", values[i].text);
    }
    return DIBS_OK;
}

/* All of the group: "web/0/http" is WEB_0_HTTP_PORT, and WEB_HTTP_PORT when the role has but one instance. */
static void whole_name(const struct workload_need *need, char *out, size_t size)
{
    char typed[DIBS_NAME_MAX + 1];
    bool is_one = need->port->scope == WORKLOAD_ROLE_SCOPED || need->pod.role->instances == 1;
    char instance[16] = "";
    char component[WORKLOAD_NAME_MAX + 16] = "";

    if (!is_one)
        (void) snprintf(instance, sizeof instance, "/%u", need->pod.instance);
    if (need->pod.component->name && need->pod.component->size > 1 &&
        need->port->scope == WORKLOAD_POD_SCOPED)
        (void) snprintf(component, sizeof component, "/%s/%u", need->pod.component->name, need->pod.id);
    else if (need->pod.component->name)
        (void) snprintf(component, sizeof component, "/%s", need->pod.component->name);
    (void) snprintf(typed, sizeof typed, "%s%s%s/%s", need->pod.role->name, instance, component,
                    need->port->name);
    workload_port_env(typed, out, size);
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;

    return strcmp(*x, *y);
}

static dibs_status check_once(const struct variables *v, dibs_err *err)
{
    AUTO(free_auto) const char **sorted = calloc(v->n + 1, sizeof *sorted);

    if (!sorted)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < v->n; i++)
        sorted[i] = v->all[i].name;
    qsort(sorted, v->n, sizeof *sorted, by_name);
    for (size_t i = 1; i < v->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return err_set(err, DIBS_INVALID,
                           "env: two ports would both be $%s; ask for one role: dibs env ROLE", sorted[i]);
    return DIBS_OK;
}

static dibs_status of_group(struct cli *cli, const struct workload_group *group, struct variables *out,
                            dibs_err *err)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    dibs_status s = workload_needs_all(group, &needs, err);

    if (s != DIBS_OK)
        return s;
    out->all = calloc(needs.n + 1, sizeof *out->all);
    if (!out->all)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < needs.n; i++)
        if (needs.all[i].number == 0)
            whole_name(&needs.all[i], out->all[out->n++].name, sizeof out->all->name);
    s = check_once(out, err); /* before anything is claimed */
    if (s == DIBS_OK)
        s = workload_obtain(cli->handle, group, &needs, &ports, err);
    for (size_t i = 0, k = 0; i < needs.n && s == DIBS_OK; i++)
        if (needs.all[i].number == 0) {
            workload_value_text(needs.all[i].port, &ports[i], out->all[k].value, sizeof out->all[k].value);
            k++;
        }
    return s;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    const struct workload_group *group = cli->manifest;
    AUTO(variables_free) struct variables v = { 0 };
    struct workload_pod pod = { 0 };
    const struct format *format = NULL;
    dibs_status s = format_from(cli, &format, err);

    if (s == DIBS_OK)
        s = cli_open_manifest(cli, err);
    if (s != DIBS_OK)
        return s;
    if (cli->argc) {
        s = workload_pod_parse(group, cli->argv[0], &pod, err);
        if (s == DIBS_OK)
            s = of_pod(cli, group, &pod, &v, err);
    } else {
        s = of_group(cli, group, &v, err);
    }
    if (s != DIBS_OK)
        return s;
    if (format)
        print(&v, format);
    else
        print_json(&v);
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "format",
      .arg = "FORMAT",
      .help = "dotenv (the default), export, json, fish or systemd",
      .words = "dotenv export json fish systemd" },
    { 0 },
};

const struct cli_cmd cmd_env = {
    .name = "env",
    .args = "[ROLE[/INSTANCE[/COMPONENT[/POD]]]]",
    .summary = "Print the environment of a role of the manifest",
    .details = "The variables that 'dibs run ROLE' would set: the role's own ports, and those\n"
               "of other roles that it refers to. Ports that are not claimed yet are claimed\n"
               "and kept. Without ROLE, every port of the manifest, each under a name made of\n"
               "its role, instance (if there are several) and port: WEB_0_HTTP_PORT.",
    .examples = "dibs env\n"
                "dibs env web/0 --format export\n"
                "dibs env api --format json\n",
    .opts = opts,
    .max_args = 1,
    .flags = CLI_MANIFEST,
    .run = run,
};
