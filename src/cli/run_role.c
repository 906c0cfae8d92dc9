/* SPDX-License-Identifier: MIT */
/* `dibs run ROLE`: one pod of the manifest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/pod.h"
#include "cli/request.h"

#include "base/banned.h"

void pod_free(struct pod *pod)
{
    workload_needs_free(&pod->needs);
    free(pod->argv);
}

dibs_status pod_init(struct pod *pod, const struct workload_group *group, const struct workload_pod *which,
                     dibs_err *err)
{
    *pod = (struct pod){ .group = group, .pod = *which };
    dibs_status s = workload_needs_of(group, which, &pod->needs, err);

    pod->has_sign = pod->needs.n > 0;
    for (size_t i = 0; i < pod->needs.n; i++)
        pod->has_sign = pod->has_sign && !pod->needs.all[i].is_own;
    workload_sign_name(group, which, pod->sign);
    return s;
}

dibs_request pod_request(const struct pod *pod, size_t i)
{
    const struct workload_need *need = &pod->needs.all[i];
    dibs_request request = workload_request(pod->group, need);

    if (need->is_own) { /* its process holds it, and it ends with that unless `up` keeps it */
        request.holder = DIBS_HELD_BY_PROCESS;
        request.keep = request.is_lookup = request.is_adopted = false;
    }
    return request;
}

dibs_request pod_sign_request(const struct pod *pod)
{
    dibs_request request = workload_request(pod->group, &pod->needs.all[0]);

    request.name = pod->sign;
    request.mode = DIBS_DECLARED;
    request.run = 0;
    request.holder = DIBS_HELD_BY_PROCESS;
    request.keep = request.is_lookup = request.is_adopted = false;
    return request;
}

void pod_title(const struct workload_pod *pod, char *out, size_t size)
{
    char instance[16] = "";
    char id[16] = "";
    const char *component = pod->component->name;

    if (pod->role->instances > 1 || component)
        (void) snprintf(instance, sizeof instance, "/%u", pod->instance);
    if (component && pod->component->size > 1)
        (void) snprintf(id, sizeof id, "/%u", pod->id);
    (void) snprintf(out, size, "%s%s%s%s%s", pod->role->name, instance, component ? "/" : "",
                    component ? component : "", id);
}

static void say_number(void *ctx, const char *variable, const char *text)
{
    job_say(ctx, variable, NULL, text);
}

/* In the child: the manifest's variables; $PORT and {PORT} are the first port unless the manifest says what
 * they are; {http} is the port of that name, {API_PORT} what the variable has. */
void pod_say(void *ctx, const uint16_t *ports, struct job_words *out)
{
    const struct pod *pod = ctx;
    struct workload_value *values = NULL;
    size_t n = pod->pod.component->n_ports + pod->pod.component->n_references;
    char number[16];

    if (workload_values(pod->group, &pod->pod, &pod->needs, ports, &values, NULL) != DIBS_OK) {
        out->is_short = true;
        return;
    }
    job_say(out, "DIBS_ROLE", NULL, pod->pod.role->name);
    (void) snprintf(number, sizeof number, "%u", pod->pod.instance);
    job_say(out, "DIBS_INSTANCE", NULL, number);
    if (pod->pod.component->name)
        job_say(out, "DIBS_COMPONENT", NULL, pod->pod.component->name);
    char *told = workload_told_text(pod->group, &pod->pod, values, getpid());
    if (told)
        job_say(out, WORKLOAD_TOLD, NULL, told);
    free(told);
    workload_each_number(&pod->pod, values, say_number, out); /* last: the manifest may have any of these */
    for (size_t i = 0; i < n; i++) {
        job_say(out, NULL, values[i].env, values[i].text);
        if (!values[i].is_reference)
            job_say(out, NULL, values[i].port->name, values[i].text);
    }
    if (n > 0 && !values[0].is_reference)
        job_say_port(out, NULL, "PORT", values[0].first);
    free(values);
}

/* The words after "--", or the manifest's. The strings are borrowed. */
static dibs_status find_command(struct cli *cli, struct pod *pod, dibs_err *err)
{
    bool is_given = cli->argc > 2;
    const char **command = pod->pod.role->command;
    size_t n = 0;

    if (cli->argc == 2)
        return err_set(err, DIBS_INVALID, "run: no command after '--'");
    if (!is_given && !command)
        return err_set(err, DIBS_INVALID, "run: role '%s' has no command in %s; dibs run %s -- COMMAND",
                       pod->pod.role->name, pod->group->source, cli->argv[0]);
    while (is_given ? cli->argv[2 + n] != NULL : command[n] != NULL)
        n++;
    pod->argv = calloc(n + 1, sizeof *pod->argv);
    if (!pod->argv)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n; i++)
        memcpy(&pod->argv[i], is_given ? (const void *) &cli->argv[2 + i] : (const void *) &command[i],
               sizeof pod->argv[i]);
    return DIBS_OK;
}

static dibs_status is_idle(struct cli *cli, void *ctx, dibs_err *err)
{
    const struct pod *pod = ctx;
    const struct workload_pod *which = &pod->pod;
    dibs_status s = cli_open_manifest(cli, err);

    return s ? s : workload_check_idle(cli->handle, pod->group, &which, 1, err);
}

static dibs_status run_pod(struct cli *cli, struct pod *pod, dibs_err *err)
{
    size_t n = pod->needs.n;
    const size_t like = 0;
    AUTO(free_auto) dibs_request *requests = calloc(n + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(n + 1, sizeof *claims);
    struct job job = { .n = n, .say = pod_say, .may_run = is_idle, .ctx = pod };
    struct job_claims all = { .cli = cli, .requests = requests, .claims = claims, .n = n, .like = &like };
    dibs_status s = find_command(cli, pod, err);

    if (s)
        return s;
    if (!requests || !claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n; i++)
        requests[i] = pod_request(pod, i);
    if (pod->has_sign) {
        requests[all.n++] = pod_sign_request(pod);
        all.n_signs = 1;
    }
    job.argv = pod->argv;
    return workload_advise(pod->group, run_job(&job, &all, err), err);
}

dibs_status run_role(struct cli *cli, bool *is_meant, dibs_err *err)
{
    const struct workload_group *group = cli->manifest;
    AUTO(pod_free) struct pod pod = { 0 };
    struct workload_pod which = { 0 };
    char role[DIBS_NAME_MAX + 1];
    bool has_ports = cli_has(cli, "port");      /* then it is a command, unless it is a role before "--" */
    bool is_role = cli->argc > 1 && !has_ports; /* whether there is such a role or not */

    *is_meant = false;
    if (cli->argc > 1 ? strcmp(cli->argv[1], "--") != 0 : has_ports)
        return DIBS_OK;
    if (!group) /* not read: then "ROLE -- COMMAND" may not be taken for a program's name */
        return is_role && cli->no_manifest.code == DIBS_DENIED ? cli_need_manifest(cli, err) : DIBS_OK;
    (void) text_copy(role, sizeof role, cli->argv[0]);
    role[strcspn(role, "/")] = '\0';
    if (!workload_role_typed(group, role))
        return is_role ? workload_pod_parse(group, cli->argv[0], &which, err) : DIBS_OK;
    *is_meant = true;
    dibs_status s = run_by_manifest(cli, err);
    if (!s)
        s = workload_pod_parse(group, cli->argv[0], &which, err);
    if (!s)
        s = pod_init(&pod, group, &which, err);
    return s ? s : run_pod(cli, &pod, err);
}
