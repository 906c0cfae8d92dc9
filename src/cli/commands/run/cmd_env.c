/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "cli/compose.h"
#include "cli/manifest.h"
#include "codec/json.h"

#include "base/banned.h"

/* Values are digits and commas, so no format needs quotes. */
static const struct format {
    const char *name;
    const char *before, *between; /* NULL: JSON */
} formats[] = {
    { "dotenv", "", "=" },       { "export", "export ", "=" },
    { "fish", "set -gx ", " " }, { "systemd", "", "=" }, /* as EnvironmentFile= reads it */
    { "json", NULL, NULL },
};

struct printing {
    struct cli *cli;
    const struct format *format;
};

static void begin(const struct printing *p)
{
    if (!p->format->before)
        jsonw_object(&p->cli->w);
}

static void print(const struct printing *p, const char *name, const char *value)
{
    if (p->format->before)
        (void) printf("%s%s%s%s\n", p->format->before, name, p->format->between, value);
    else
        jsonw_key_string(&p->cli->w, name, value);
}

static void end(const struct printing *p)
{
    if (!p->format->before)
        jsonw_end_object(&p->cli->w);
}

static dibs_status format_from(const struct cli *cli, const struct format **out, dibs_err *err)
{
    const char *given = cli_value(cli, "format");
    const char *name = given ? given : cli->json ? "json" : "dotenv";

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0) {
            *out = &formats[i];
            return DIBS_OK;
        }
    return err_set(err, DIBS_INVALID,
                   "env: there is no format '%.40s'; "
                   "there are dotenv, export, json, fish, systemd and compose",
                   name);
}

static dibs_status print_pod(const struct printing *p, const char *typed, dibs_err *err)
{
    const struct workload_group *group = p->cli->manifest;
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    AUTO(free_auto) struct workload_value *values = NULL;
    struct workload_pod pod = { 0 };
    dibs_status s = workload_pod_parse(group, typed, &pod, err);

    if (s == DIBS_OK)
        s = workload_needs_of(group, &pod, &needs, err);
    if (s == DIBS_OK)
        s = workload_obtain(p->cli->handle, group, &needs, &ports, err);
    if (s == DIBS_OK)
        s = workload_values(group, &pod, &needs, ports, &values, err);
    if (s != DIBS_OK)
        return s;
    begin(p);
    for (size_t i = 0; i < pod.component->n_ports + pod.component->n_references; i++)
        print(p, values[i].env, values[i].text);
    end(p);
    return DIBS_OK;
}

typedef char env_name[DIBS_NAME_MAX + 8];

/* Write "web/0/http" as WEB_0_HTTP_PORT, or as WEB_HTTP_PORT when the role has one instance. */
static void whole_name(const struct workload_need *need, env_name out)
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
    workload_port_env(typed, out, sizeof(env_name));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Check that no two ports have the same name, before anything is claimed. */
static dibs_status check_once(const struct workload_needs *needs, dibs_err *err)
{
    AUTO(free_auto) env_name *sorted = calloc(needs->n + 1, sizeof *sorted);
    size_t n = 0;

    if (!sorted)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < needs->n; i++)
        if (needs->all[i].number == 0)
            whole_name(&needs->all[i], sorted[n++]);
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return err_set(err, DIBS_INVALID,
                           "env: two ports would both be $%s; ask for one role: dibs env ROLE", sorted[i]);
    return DIBS_OK;
}

static dibs_status print_group(const struct printing *p, dibs_err *err)
{
    const struct workload_group *group = p->cli->manifest;
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    dibs_status s = workload_needs_all(group, &needs, err);

    if (s == DIBS_OK)
        s = check_once(&needs, err);
    if (s == DIBS_OK)
        s = workload_obtain(p->cli->handle, group, &needs, &ports, err);
    if (s != DIBS_OK)
        return s;
    begin(p);
    for (size_t i = 0; i < needs.n; i++)
        if (needs.all[i].number == 0) {
            char value[8 * WORKLOAD_COUNT_MAX];
            env_name name;

            whole_name(&needs.all[i], name);
            workload_value_text(needs.all[i].port, &ports[i], value, sizeof value);
            print(p, name, value);
        }
    end(p);
    return DIBS_OK;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct printing p = { .cli = cli };
    const char *format = cli_value(cli, "format");
    bool is_compose = format && strcmp(format, "compose") == 0;
    dibs_status s = DIBS_OK;

    if (is_compose && cli->argc)
        s = err_set(err, DIBS_INVALID, "env: a compose file is for the whole project; leave out '%.60s'",
                    cli->argv[0]);
    else if (!is_compose)
        s = format_from(cli, &p.format, err);
    if (s == DIBS_OK)
        s = cli_open_manifest(cli, err);
    if (s == DIBS_OK && is_compose)
        return cli_print_compose(cli, err);
    if (s != DIBS_OK)
        return s;
    return cli->argc ? print_pod(&p, cli->argv[0], err) : print_group(&p, err);
}

static const struct cli_opt opts[] = {
    { .name = "format",
      .arg = "FORMAT",
      .help = "dotenv (the default), export, json, fish, systemd or compose",
      .words = "dotenv export json fish systemd compose" },
    { 0 },
};

const struct cli_cmd cmd_env = {
    .name = "env",
    .group = CLI_RUN,
    .args = "[ROLE[/INSTANCE[/COMPONENT[/POD]]]]",
    .summary = "Print the environment of a role of the manifest",
    .details = "The variables that 'dibs run ROLE' would set: the role's own ports, and those\n"
               "of other roles that it refers to. Ports that are not claimed yet are claimed\n"
               "and kept. Without ROLE, every port of the manifest, each under a name made of\n"
               "its role, instance (if there are several) and port: WEB_0_HTTP_PORT.\n\n"
               "The format 'compose' is the project's compose file with the ports of its roles\n"
               "in place of the host ports that it publishes; a port of the manifest says with\n"
               "'container' which one it is.",
    .examples = "dibs env\n"
                "dibs env web/0 --format export\n"
                "dibs env api --format json\n",
    .opts = opts,
    .max_args = 1,
    .flags = CLI_MANIFEST,
    .run = run,
};
