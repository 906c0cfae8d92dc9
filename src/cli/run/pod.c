/* SPDX-License-Identifier: MIT */
/* Pods of the manifest. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/claim_options.h"
#include "cli/run/pod.h"

#include "base/banned.h"

void pod_free(struct pod *pod)
{
    workload_needs_free(&pod->needs);
    free(pod->which);
    free(pod->env);
    free(pod->directory);
    free(pod->argv);
    free(pod->as);
}

/* Does the pod use a port, but has none of its own? */
static bool declares(const struct pod *pod)
{
    return pod->needs.n > 0 && pod->holds == pod->needs.n;
}

static void write_title(const struct workload_pod *pod, char *out, size_t size)
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

dibs_status pod_init(struct pod *pod, const struct workload_group *group, const struct workload_pod *which,
                     const char *const *command, dibs_err *err)
{
    size_t n = 0;

    *pod = (struct pod){ .group = group, .pod = *which };
    write_title(which, pod->title, sizeof pod->title);
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
    return pod_find_as(pod, err);
}

void pod_ports(const struct pod *pod, const struct launch_claims *claims, uint16_t *out)
{
    for (size_t i = 0; i < pod->needs.n; i++)
        out[i] = claims->claims[pod->which[i]].port;
}

/* Does the pod share the port with its role? It binds these and its own; it connects to those of
 * references. */
static bool is_shared_need(const struct pod *pod, size_t i)
{
    const struct workload_need *need = &pod->needs.all[i];

    return need->port->scope == WORKLOAD_ROLE_SCOPED && need->pod.component == pod->pod.component;
}

/* Return the request for its i-th need. */
static dibs_request request_for(const struct pod *pod, size_t i, dibs_hold hold)
{
    const struct workload_need *need = &pod->needs.all[i];
    dibs_request request = workload_request(pod->group, need);

    if (need->is_own) { /* its process holds it; the claim ends with the process unless `up` keeps it */
        request.holder = DIBS_HELD_BY_PROCESS;
        request.keep = request.is_lookup = request.is_adopted = false;
        request.hold = hold;
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
    pod->env = workload_env_text(pod->group, &pod->pod, values);
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

/* Return the index of the request with this name; their number: there is none. */
static size_t find_request(const struct launch_claims *claims, const char *name)
{
    size_t at = 0;

    for (; at < claims->n; at++) {
        assert(claims->requests[at].name);
        if (strcmp(claims->requests[at].name, name) == 0)
            break;
    }
    return at;
}

static bool is_shared(const struct launch_claims *claims, size_t request)
{
    const struct pods *pods = claims->ctx;

    for (size_t p = 0; p < pods->n; p++)
        for (size_t i = 0; i < pods->all[p].needs.n; i++)
            if (pods->all[p].which[i] == request && is_shared_need(&pods->all[p], i))
                return true;
    return false;
}

dibs_status pods_plan(struct pods *pods, struct launch_claims *out, dibs_err *err)
{
    dibs_hold hold = DIBS_HOLD_AUTO;
    size_t max = 0;

    for (size_t p = 0; p < pods->n; p++)
        max += pods->all[p].needs.n + declares(&pods->all[p]);
    out->requests = calloc(max + 1, sizeof *out->requests);
    out->claims = calloc(max + 1, sizeof *out->claims);
    out->record = record;
    out->is_shared = is_shared;
    out->ctx = pods;
    if (!out->requests || !out->claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = cli_hold_from(out->cli, &hold, err);
    if (s)
        return s;
    for (size_t p = 0; p < pods->n; p++) {
        struct pod *pod = &pods->all[p];

        for (size_t i = 0; i < pod->needs.n; i++) {
            dibs_request request = request_for(pod, i, hold);
            size_t at = find_request(out, request.name);

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

/* Where pod_each_word() writes to. */
struct words {
    pod_word_fn *fn;
    void *ctx;
};

static void give_variable(void *ctx, const char *variable, const char *text)
{
    const struct words *to = ctx;

    to->fn(to->ctx, variable, NULL, text);
}

/* $PORT and {PORT} are the first port unless the manifest defines them; {http} is the port of that name,
 * {API_PORT} the value of that variable. Texts come last: they may have braces of their own. */
static void each_placeholder(const struct pod *pod, const struct workload_value *values,
                             const struct words *to)
{
    const struct workload_component *component = pod->pod.component;
    char number[16];
    size_t n = workload_n_values(component);

    for (size_t i = 0; i < n; i++) {
        if (i == component->n_ports + component->n_references && component->n_ports > 0) {
            (void) snprintf(number, sizeof number, "%u", values[0].first);
            to->fn(to->ctx, NULL, "PORT", number);
        }
        to->fn(to->ctx, NULL, values[i].env, values[i].text);
        if (values[i].port && !values[i].is_reference)
            to->fn(to->ctx, NULL, values[i].port->name, values[i].text);
    }
}

dibs_status pod_each_word(const struct pod *pod, const uint16_t *ports, pod_word_fn *fn, void *ctx,
                          dibs_err *err)
{
    AUTO(free_auto) struct workload_value *values = NULL;
    struct words to = { fn, ctx };
    char number[16];
    dibs_status s = workload_values(pod->group, &pod->pod, &pod->needs, ports, &values, err);

    if (s)
        return s;
    fn(ctx, "DIBS_ROLE", NULL, pod->pod.role->name);
    (void) snprintf(number, sizeof number, "%u", pod->pod.instance);
    fn(ctx, "DIBS_INSTANCE", NULL, number);
    if (pod->pod.component->name)
        fn(ctx, "DIBS_COMPONENT", NULL, pod->pod.component->name);
    /* Last: the manifest may define any of these. */
    workload_each_variable(pod->group, &pod->pod, values, give_variable, &to);
    each_placeholder(pod, values, &to);
    return DIBS_OK;
}

static void set_word(void *ctx, const char *variable, const char *placeholder, const char *text)
{
    launch_set(ctx, variable, placeholder, text);
}

/* In the child: set the manifest's variables and placeholders. */
void pod_set_words(struct launch *launch, const uint16_t *ports)
{
    AUTO(free_auto) uint16_t *inside = calloc(launch->n + 1, sizeof *inside);

    if (inside) {
        memcpy(inside, ports, launch->n * sizeof *inside);
        pod_use_as(launch->ctx, inside);
    }
    if (!inside || pod_each_word(launch->ctx, inside, set_word, launch, NULL) != DIBS_OK)
        launch->failed = ENOMEM;
}

static bool may_bind(const struct launch *launch, size_t i)
{
    const struct pod *pod = launch->ctx;

    return pod->needs.all[i].is_own || is_shared_need(pod, i);
}

dibs_status pod_launch(struct pod *pod, struct launch *out, dibs_err *err)
{
    char directory[PATH_MAX];

    *out = (struct launch){ .argv = pod->argv,
                            .n = pod->needs.n,
                            .set_words = pod_set_words,
                            .may_bind = may_bind,
                            .ctx = pod,
                            .as = pod->as,
                            .title = pod->title };
    if (!workload_directory(pod->group, pod->pod.role, directory, sizeof directory))
        return DIBS_OK;
    pod->directory = strdup(directory);
    if (!pod->directory)
        return err_set(err, DIBS_FAILURE, "out of memory");
    out->directory = pod->directory;
    if (access(directory, X_OK) == 0)
        return DIBS_OK;
    return workload_error(pod->group, pod->pod.role->place, err, "role '%.80s': cannot enter %.400s: %s",
                          pod->pod.role->name, directory, strerrordesc_np(errno));
}

/* ---- the pods of one call ---- */

void pods_done(struct pods *pods)
{
    for (size_t i = 0; i < pods->n; i++)
        pod_free(&pods->all[i]);
    free(pods->all);
    *pods = (struct pods){ 0 };
}

static dibs_status add_pod(struct pods *pods, const struct workload_group *group,
                           const struct workload_pod *pod, dibs_err *err)
{
    const struct workload_role *role = pod->role;
    if (!role->command)
        return err_set(err, DIBS_INVALID, "run: role '%.80s' has no command in %s", role->name,
                       group->source);
    for (size_t i = 0; i < pods->n; i++)
        if (memcmp(&pods->all[i].pod, pod, sizeof *pod) == 0)
            return err_set(err, DIBS_INVALID, "run: '%s' is named twice", pods->all[i].title);
    if (pods->n == PODS_MAX)
        return err_set(err, DIBS_INVALID, "run: more than %d processes in one call", PODS_MAX);
    return pod_init(&pods->all[pods->n++], group, pod, (const char *const *) role->command, err);
}

static dibs_status add_role(struct pods *pods, const struct workload_group *group,
                            const struct workload_role *role, dibs_err *err)
{
    struct workload_pod pod;
    dibs_status s = DIBS_OK;

    memset(&pod, 0, sizeof pod); /* add_pod() compares all its bytes */
    pod.role = role;
    for (; pod.instance < role->instances; pod.instance++)
        for (size_t c = 0; c < role->n_components; c++) {
            pod.component = &role->components[c];
            for (pod.id = 0; pod.id < pod.component->size && s == DIBS_OK; pod.id++)
                s = add_pod(pods, group, &pod, err);
        }
    return s;
}

dibs_status pods_find(const struct workload_group *group, char *const *typed, size_t n_typed,
                      struct pods *out, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    out->all = calloc(PODS_MAX, sizeof *out->all);
    if (!out->all)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t r = 0; r < group->n_roles && !s && n_typed == 0; r++)
        if (group->roles[r].command)
            s = add_role(out, group, &group->roles[r], err);
    for (size_t i = 0; i < n_typed && !s; i++) {
        const struct workload_role *role = workload_role_typed(group, typed[i]);
        struct workload_pod pod;

        memset(&pod, 0, sizeof pod);
        if (role) {
            s = add_role(out, group, role, err);
            continue;
        }
        s = workload_pod_parse(group, typed[i], &pod, err);
        if (!s)
            s = add_pod(out, group, &pod, err);
    }
    if (!s && out->n == 0)
        return err_set(err, DIBS_INVALID, "no role of %s has a command", group->source);
    return s;
}
