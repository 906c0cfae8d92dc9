/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "cli/compose.h"
#include "cli/environment.h"
#include "cli/manifest.h"
#include "cli/run/procfile.h"
#include "cli/target.h"

#include "base/banned.h"

static dibs_status print_pod(struct cli *cli, const struct environment_format *format, int32_t pid,
                             dibs_err *err)
{
    const struct workload_group *group = cli->manifest;
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    AUTO(free_auto) uint16_t *ports = NULL;
    AUTO(free_auto) struct workload_value *values = NULL;
    struct workload_pod pod = { 0 };
    bool is_whole = true;
    dibs_status s = workload_pod_parse(group, cli_in_project(cli, cli->argv[0]), &pod, err);

    if (s == DIBS_OK)
        s = workload_needs_of(group, &pod, &needs, err);
    if (s == DIBS_OK)
        s = workload_obtain(cli->handle, group, &needs, pid, &ports, err);
    if (s == DIBS_OK)
        s = workload_values(group, &pod, &needs, ports, &values, err);
    if (s != DIBS_OK)
        return s;
    environment_begin(cli, format);
    for (size_t i = 0; i < workload_n_values(pod.component); i++)
        is_whole = environment_print(cli, format, values[i].env, values[i].text) && is_whole;
    is_whole = environment_print_outside(cli, format, &needs, ports) && is_whole;
    environment_end(cli, format);
    return is_whole ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

/* Files for other tools, of the whole project. */
static const struct file_format {
    const char *name;
    dibs_status (*print)(struct cli *cli, dibs_err *err);
} files[] = { { "compose", cli_print_compose }, { "procfile", cli_print_procfile } };

static const struct file_format *file_format(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    const char *given = cli_value(cli, "format");
    const char *name = given ? given : cli->json ? "json" : "dotenv";
    const struct file_format *file = file_format(name);
    const struct environment_format *format = environment_format(name);
    int64_t pid = 0;

    if (!file && !format)
        return err_set(err, DIBS_INVALID,
                       "env: there is no format '%.40s'; "
                       "there are dotenv, export, json, fish, systemd, compose and procfile",
                       name);
    if (file && cli->argc)
        return err_set(err, DIBS_INVALID, "env: a %s file is for the whole project; leave out '%.60s'", name,
                       cli->argv[0]);
    if (file && cli_has(cli, "pid"))
        return err_set(err, DIBS_INVALID, "env: the ports of a %s file are kept; leave out '--pid'", name);
    dibs_status s = cli_number_from(cli, "pid", 1, INT32_MAX, &pid, err);
    if (s == DIBS_OK)
        s = cli_open_manifest(cli, err);
    if (s != DIBS_OK)
        return s;
    if (file)
        return file->print(cli, err);
    return cli->argc ? print_pod(cli, format, (int32_t) pid, err)
                     : environment_print_group(cli, format, (int32_t) pid, err);
}

static const struct cli_opt opts[] = {
    { .name = "format",
      .arg = "FORMAT",
      .help = "dotenv (default), export, json, fish, systemd, compose or procfile",
      .words = "dotenv export json fish systemd compose procfile" },
    { .name = "pid", .arg = "PID", .help = "this process holds the ports until it ends; they are not kept" },
    { 0 },
};

const struct cli_cmd cmd_env = {
    .name = "env",
    .group = CLI_RUN,
    .args = "[ROLE[/INSTANCE[/COMPONENT[/POD]]]]",
    .summary = "Print the environment of a role of the manifest",
    .details = "The variables that 'dibs run ROLE' would set: the role's own ports, those of\n"
               "other roles that it refers to, and its texts. Ports that are not claimed yet\n"
               "are claimed and kept. Without ROLE, the variables of all roles. A port whose\n"
               "variable means something else in another role or instance then has a name\n"
               "made of role, instance (if there are several) and port: WEB_0_HTTP_PORT; other\n"
               "variables with several meanings are left out.\n\n"
               "With --pid a process holds the ports, for example that of a test, and they are\n"
               "free when it has ended. Exit code 3 when another process holds one of them;\n"
               "with --group each process has ports of its own.\n\n"
               "The format 'compose' is the project's compose file with the ports of its roles\n"
               "in place of the host ports that it publishes; a port of the manifest says with\n"
               "'container' which one it is. 'procfile' is a Procfile for foreman and others:\n"
               "a line for each pod of the roles with a command.",
    .examples = "dibs env\n"
                "dibs env web/0 --format export\n"
                "dibs env api --format json\n"
                "dibs env api --pid $$ --group test-$$\n",
    .opts = opts,
    .max_args = 1,
    .args_words = ":roles",
    .flags = CLI_MANIFEST,
    .run = run,
};
