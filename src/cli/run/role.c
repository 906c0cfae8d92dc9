/* SPDX-License-Identifier: MIT */
/* Pods of the manifest, and `dibs run ROLE`, which runs one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/run/pod.h"

#include "base/banned.h"

void pod_free(struct pod *pod)
{
    workload_needs_free(&pod->needs);
    free(pod->which);
    free(pod->env);
    free(pod->argv);
}

/* Does the pod use a port, but has none of its own? */
static bool declares(const struct pod *pod)
{
    return pod->needs.n > 0 && pod->holds == pod->needs.n;
}

dibs_status pod_init(struct pod *pod, const struct workload_group *group, const struct workload_pod *which,
                     const char *const *command, dibs_err *err)
{
    size_t n = 0;

    *pod = (struct pod){ .group = group, .pod = *which };
    dibs_status s = workload_needs_of(group, which, &pod->needs, err);
    if (s)
        return s;
    while (pod->holds < pod->needs.n && !pod->needs.all[pod->holds].is_own)
        pod->holds++;
    if (declares(pod)) { /* records its use of a port that another pod may hold */
        struct workload_port port = *pod->needs.all[0].port;

        port.scope = WORKLOAD_POD_SCOPED;
        workload_claim_name(group, which, &port, 0, pod->declared);
    }
    while (command[n])
        n++;
    pod->which = calloc(pod->needs.n + 1, sizeof *pod->which);
    pod->argv = calloc(n + 1, sizeof *pod->argv);
    if (!pod->which || !pod->argv)
        return err_set(err, DIBS_FAILURE, "out of memory");
    memcpy(pod->argv, command, n * sizeof *pod->argv);
    return DIBS_OK;
}

void pod_ports(const struct pod *pod, const struct launch_claims *claims, uint16_t *out)
{
    for (size_t i = 0; i < pod->needs.n; i++)
        out[i] = claims->claims[pod->which[i]].port;
}

/* Return the request for its i-th need. */
static dibs_request request_for(const struct pod *pod, size_t i)
{
    const struct workload_need *need = &pod->needs.all[i];
    dibs_request request = workload_request(pod->group, need);

    if (need->is_own) { /* its process holds it; the claim ends with the process unless `up` keeps it */
        request.holder = DIBS_HELD_BY_PROCESS;
        request.keep = request.is_lookup = request.is_adopted = false;
    }
    return request;
}

/* Complete the request of `holds` with the pod's variables and the declared number. */
static dibs_status record_pod(struct pod *pod, const struct launch_claims *claims, dibs_err *err)
{
    AUTO(free_auto) struct workload_value *values = NULL;
    AUTO(free_auto) uint16_t *ports = calloc(pod->needs.n + 1, sizeof *ports);
    dibs_request *request = &claims->requests[pod->which[pod->holds]];

    if (!ports)
        return err_set(err, DIBS_FAILURE, "out of memory");
    pod_ports(pod, claims, ports);
    dibs_status s = workload_values(pod->group, &pod->pod, &pod->needs, ports, &values, err);
    if (s)
        return s;
    free(pod->env);
    pod->env = workload_env_text(&pod->pod, values);
    if (!pod->env)
        return err_set(err, DIBS_FAILURE, "out of memory");
    request->env = strlen(pod->env) <= DIBS_ENV_MAX ? pod->env : NULL;
    if (declares(pod))
        request->port = ports[0];
    return DIBS_OK;
}

static dibs_status record(const struct launch_claims *claims, void *ctx, dibs_err *err)
{
    struct pods *pods = ctx;
    dibs_status s = DIBS_OK;

    for (size_t p = 0; p < pods->n && !s; p++)
        if (pods->all[p].needs.n > 0)
            s = record_pod(&pods->all[p], claims, err);
    return s;
}

/* Request the claims by which pods declare the use of a port; record_pod() sets the numbers. */
static void plan_declared(struct pods *pods, struct launch_claims *out)
{
    for (size_t p = 0; p < pods->n; p++) {
        struct pod *pod = &pods->all[p];
        dibs_request *request = &out->requests[out->n];

        if (!declares(pod))
            continue;
        pod->which[pod->holds] = out->n++;
        out->n_declared++;
        *request = workload_request(pod->group, &pod->needs.all[0]);
        request->name = pod->declared;
        request->mode = DIBS_DECLARED;
        request->run = 0;
        request->holder = DIBS_HELD_BY_PROCESS;
        request->keep = request->is_lookup = request->is_adopted = false;
        request->pid = (int32_t) p;
    }
}

dibs_status pods_plan(struct pods *pods, struct launch_claims *out, dibs_err *err)
{
    size_t max = 0;

    for (size_t p = 0; p < pods->n; p++)
        max += pods->all[p].needs.n + declares(&pods->all[p]);
    out->requests = calloc(max + 1, sizeof *out->requests);
    out->claims = calloc(max + 1, sizeof *out->claims);
    out->record = record;
    out->ctx = pods;
    if (!out->requests || !out->claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t p = 0; p < pods->n; p++) {
        struct pod *pod = &pods->all[p];

        for (size_t i = 0; i < pod->needs.n; i++) {
            dibs_request request = request_for(pod, i);
            size_t at = 0;

            while (at < out->n && strcmp(out->requests[at].name, request.name) != 0)
                at++;
            request.pid = (int32_t) p;
            bool is_kept = request.keep || (at < out->n && out->requests[at].keep);
            if (at == out->n || pod->needs.all[i].is_own)
                out->requests[at] = request;
            out->requests[at].keep = is_kept;
            out->n += at == out->n;
            pod->which[i] = at;
        }
    }
    plan_declared(pods, out);
    return DIBS_OK;
}

dibs_status pods_check_idle(struct cli *cli, const struct pods *pods, dibs_err *err)
{
    AUTO(free_auto) const struct workload_pod **all = calloc(pods->n, sizeof(const struct workload_pod *));

    if (!all)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = cli_open_manifest(cli, err);
    if (s)
        return s;
    for (size_t i = 0; i < pods->n; i++)
        all[i] = &pods->all[i].pod;
    return workload_check_idle(cli->handle, pods->all[0].group, all, pods->n, err);
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

static void set_variable(void *ctx, const char *variable, const char *text)
{
    launch_set(ctx, variable, NULL, text);
}

/* In the child: set the manifest's variables. $PORT and {PORT} are the first port unless the manifest
 * defines them; {http} is the port of that name, {API_PORT} the value of that variable. */
void pod_set_words(struct launch *launch, const uint16_t *ports)
{
    const struct pod *pod = launch->ctx;
    struct workload_value *values = NULL;
    size_t n = pod->pod.component->n_ports + pod->pod.component->n_references;
    char number[16];

    if (workload_values(pod->group, &pod->pod, &pod->needs, ports, &values, NULL) != DIBS_OK) {
        launch->failed = ENOMEM;
        return;
    }
    launch_set(launch, "DIBS_ROLE", NULL, pod->pod.role->name);
    (void) snprintf(number, sizeof number, "%u", pod->pod.instance);
    launch_set(launch, "DIBS_INSTANCE", NULL, number);
    if (pod->pod.component->name)
        launch_set(launch, "DIBS_COMPONENT", NULL, pod->pod.component->name);
    workload_each_variable(&pod->pod, values, set_variable,
                           launch); /* last: the manifest may define any of these */
    for (size_t i = 0; i < n; i++) {
        launch_set(launch, NULL, values[i].env, values[i].text);
        if (!values[i].is_reference)
            launch_set(launch, NULL, values[i].port->name, values[i].text);
    }
    if (n > 0 && !values[0].is_reference)
        launch_set_port(launch, NULL, "PORT", values[0].first);
    free(values);
}

/* Find the command: the words after "--", or the manifest's. */
static dibs_status find_command(struct cli *cli, const struct workload_pod *pod, const char *const **out,
                                dibs_err *err)
{
    if (cli->argc == 2)
        return err_set(err, DIBS_INVALID, "run: no command after '--'");
    if (cli->argc < 2 && !pod->role->command)
        return err_set(err, DIBS_INVALID, "run: role '%s' has no command in %s; dibs run %s -- COMMAND",
                       pod->role->name, cli->manifest->source, cli->argv[0]);
    *out = cli->argc > 2 ? (const char *const *) &cli->argv[2] : (const char *const *) pod->role->command;
    return DIBS_OK;
}

static dibs_status is_idle(struct cli *cli, void *ctx, dibs_err *err)
{
    return pods_check_idle(cli, &(struct pods){ ctx, 1 }, err);
}

static dibs_status run_pod(struct cli *cli, struct pod *pod, dibs_err *err)
{
    struct pods pods = { pod, 1 };
    struct launch launch = {
        .argv = pod->argv, .n = pod->needs.n, .set_words = pod_set_words, .may_run = is_idle, .ctx = pod
    };
    struct launch_claims claims = { .cli = cli };
    dibs_status s = pods_plan(&pods, &claims, err);

    if (!s)
        s = workload_advise(pod->group, launch_run(&launch, &claims, err), err);
    free(claims.requests);
    free(claims.claims);
    return s;
}

dibs_status run_role(struct cli *cli, bool *is_meant, dibs_err *err)
{
    const struct workload_group *group = cli->manifest;
    AUTO(pod_free) struct pod pod = { 0 };
    struct workload_pod which = { 0 };
    const char *const *command = NULL;
    char role[DIBS_NAME_MAX + 1];
    bool has_ports = cli_has(cli, "port");      /* with -p it is a command, unless a role precedes "--" */
    bool is_role = cli->argc > 1 && !has_ports; /* even if no such role exists */

    *is_meant = false;
    if (cli->argc > 1 ? strcmp(cli->argv[1], "--") != 0 : has_ports)
        return DIBS_OK;
    if (!group) /* without it "ROLE -- COMMAND" must not be run as a program */
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
        s = find_command(cli, &which, &command, err);
    if (!s)
        s = pod_init(&pod, group, &which, command, err);
    return s ? s : run_pod(cli, &pod, err);
}
