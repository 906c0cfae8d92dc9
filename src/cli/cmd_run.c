/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/child.h"
#include "cli/request.h"
#include "workload/workload.h"

#include "base/banned.h"

#define VARIABLE_MAX (DIBS_NAME_MAX + 8) /* '_', the name, "_PORT" */

struct want {
    char typed[DIBS_NAME_MAX + 2]; /* without a leading slash; empty: the one without a name */
    char name[DIBS_NAME_MAX + 1];  /* absolute */
    char variable[VARIABLE_MAX];   /* WEB_PORT */
};

struct job {
    struct cli *cli;
    size_t n;
    struct want *wants;
    dibs_request *requests;
    dibs_claim *claims;
    uint16_t *ports;
    dibs_ranges ranges;
    dibs_project project;
};

/* ---- what is wanted ---- */

/* NAME or NAME=PORT */
static dibs_status want_from(struct job *job, size_t i, const char *text, dibs_err *err)
{
    struct want *want = &job->wants[i];
    dibs_request *request = &job->requests[i];
    const char *equals = strrchr(text, '=');
    size_t len = equals ? (size_t) (equals - text) : strlen(text);
    char shown[64];

    if (!len || len >= sizeof want->typed)
        return err_set(err, DIBS_INVALID, "run: '%s' is not NAME or NAME=PORT: its name is %s",
                       cli_safe(text, shown, sizeof shown), len ? "too long" : "empty");
    memcpy(want->typed, text, len);
    dibs_status s = cli_name(job->cli, want->typed, want->name, &job->project, &request->project, err);
    if (!s && equals) {
        request->mode = DIBS_REQUIRED;
        s = dibs_port_parse(equals + 1, &request->port, err);
    }
    if (s)
        return s;
    request->name = want->name;
    if (want->typed[0] == '/')
        memmove(want->typed, want->typed + 1, len);
    workload_port_env(want->typed, want->variable, sizeof want->variable);
    for (size_t k = 0; k < i; k++) {
        if (!strcmp(job->wants[k].variable, want->variable))
            return err_set(err, DIBS_INVALID, "run: '%s' and '%s' would both be $%s", job->wants[k].typed,
                           want->typed, want->variable);
        if (equals && job->requests[k].mode == DIBS_REQUIRED && job->requests[k].port == request->port)
            return err_set(err, DIBS_INVALID, "run: '%s' and '%s' cannot both have port %u",
                           job->wants[k].typed, want->typed, request->port);
    }
    return DIBS_OK;
}

static dibs_status plan(struct job *job, dibs_err *err)
{
    dibs_request like = { .holder = DIBS_HELD_BY_PROCESS, .keep = cli_has(job->cli, "keep") };
    dibs_status s = cli_request_from(job->cli, &like, &job->ranges, err);

    if (s)
        return s;
    for (size_t i = 0; i < job->n; i++)
        job->requests[i] = like;
    for (size_t i = 0; !s && cli_value_at(job->cli, "port", i); i++)
        s = want_from(job, i, cli_value_at(job->cli, "port", i), err);
    return s;
}

/* ---- in the child: becoming the command ---- */

/* The port that "{...}" stands for, or 0. */
static uint16_t port_called(const struct job *job, const uint16_t *ports, const char *text, size_t len)
{
    for (size_t i = 0; i < job->n; i++) {
        if (len && strlen(job->wants[i].typed) == len && !memcmp(job->wants[i].typed, text, len))
            return ports[i];
    }
    return len == 4 && !memcmp(text, "PORT", 4) ? ports[0] : 0;
}

/* The argument with ports in it; NULL when there is no memory. */
static char *filled(const struct job *job, const uint16_t *ports, const char *arg)
{
    char *out = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&out, &size);

    if (!to)
        return NULL;
    for (const char *p = arg; *p;) {
        size_t len = *p == '{' ? strcspn(p + 1, "{}") : 0;
        uint16_t port = *p == '{' && p[1 + len] == '}' ? port_called(job, ports, p + 1, len) : 0;
        if (port)
            (void) fprintf(to, "%u", port);
        else
            (void) fputc(*p, to);
        p += port ? len + 2 : 1;
    }
    if (fclose(to)) {
        free(out);
        return NULL;
    }
    return out;
}

/* False when there is no memory. */
static bool set_port(const char *variable, uint16_t port)
{
    char text[8];

    (void) snprintf(text, sizeof text, "%u", port);
    return !setenv(variable, text, 1);
}

/* DIBS_PORTS: "web=20001 api=20002"; what has no name is the number alone. */
static bool set_list(const struct job *job, const uint16_t *ports)
{
    char *list = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&list, &size);

    if (!to)
        return false;
    for (size_t i = 0; i < job->n; i++)
        (void) fprintf(to, "%s%s%s%u", i ? " " : "", job->wants[i].typed, job->wants[i].typed[0] ? "=" : "",
                       ports[i]);
    bool is_set = !fclose(to) && !setenv("DIBS_PORTS", list, 1);
    free(list);
    return is_set;
}

static int become(void *ctx, const uint16_t *ports)
{
    struct job *job = ctx;
    char **argv = job->cli->argv;
    bool is_set = set_port("PORT", ports[0]) && set_list(job, ports);

    for (size_t i = 0; i < job->n; i++) {
        char variable[32];
        (void) snprintf(variable, sizeof variable, "PORT%zu", i);
        is_set = is_set && set_port(variable, ports[i]);
        if (job->wants[i].variable[0])
            is_set = is_set && set_port(job->wants[i].variable, ports[i]);
    }
    if (!is_set)
        return ENOMEM;
    for (int i = 0; i < job->cli->argc; i++) {
        char *arg = strchr(argv[i], '{') ? filled(job, ports, argv[i]) : argv[i];
        if (!arg)
            return ENOMEM;
        argv[i] = arg;
    }
    (void) execvp(argv[0], argv);
    return errno;
}

/* ---- in dibs ---- */

static dibs_status claim_for(struct job *job, pid_t pid, dibs_err *err)
{
    dibs_batch batch = { .requests = job->requests, .n = job->n };
    dibs_status s = cli_open(job->cli, err);

    for (size_t i = 0; i < job->n; i++)
        job->requests[i].pid = pid;
    return s ? s : dibs_claim_ports(job->cli->handle, &batch, job->claims, err);
}

/* The command is over and its claims with it; kept and leased ones stay. Of one that never ran, also those
 * that only --keep would keep (D19). What cannot be released now is found by the next reaping (INV-11). */
static void let_go(const struct job *job, bool has_run)
{
    for (size_t i = 0; i < job->n; i++) {
        dibs_which which = { .token = job->claims[i].token };
        unsigned flags = has_run || job->claims[i].was_kept ? DIBS_RELEASE_UNHOLD : DIBS_RELEASE_UNKEEP;
        dibs_err err = { 0 };

        if (job->claims[i].is_degraded || !which.token[0])
            continue;
        if (dibs_claim_release(job->cli->handle, &which, flags, NULL, &err))
            cli_note(job->cli, "port %u is released later: %s", job->claims[i].port, err.msg);
    }
}

static dibs_status not_run(struct job *job, int failed, dibs_err *err)
{
    char shown[64];

    let_go(job, false);
    job->cli->exit_code = failed == ENOENT ? CLI_EXIT_NO_COMMAND : CLI_EXIT_NOT_RUNNABLE;
    return err_os(err, DIBS_FAILURE, failed, "run: cannot run '%s'",
                  cli_safe(job->cli->argv[0], shown, sizeof shown));
}

/* Every claim is in; the child is told and waited for. */
static dibs_status go(struct job *job, struct child *child, dibs_err *err)
{
    int failed = 0;

    for (size_t i = 0; i < job->n; i++)
        job->ports[i] = job->claims[i].port;
    cli_tell(job->cli, job->claims, job->n);
    child_go(child, job->ports, job->n);
    int code = child_wait(child, &failed);
    if (failed)
        return not_run(job, failed, err);
    let_go(job, true);
    job->cli->exit_code = code;
    return DIBS_OK;
}

static dibs_status run_job(struct job *job, dibs_err *err)
{
    struct child child = { .pid = 0, .go = -1, .outcome = -1 };

    if (!job->wants || !job->requests || !job->claims || !job->ports)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = plan(job, err);
    if (s)
        return s;
    const char *command = job->cli->argv[0];
    const char *slash = strrchr(command, '/');
    struct child_plan child_plan = {
        .name = slash ? slash + 1 : command, .n_ports = job->n, .become = become, .ctx = job
    };
    /* Forked before the ledger is open: a connection does not survive a fork. */
    s = child_start(&child_plan, &child, err);
    if (s)
        return s;
    s = claim_for(job, child.pid, err);
    if (s) {
        child_cancel(&child);
        return s;
    }
    return go(job, &child, err);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    size_t n = 0;

    while (cli_value_at(cli, "port", n))
        n++;
    n = n ? n : 1; /* without -p: one that has no name */
    struct job job = {
        .cli = cli,
        .n = n,
        .wants = calloc(n, sizeof *job.wants),
        .requests = calloc(n, sizeof *job.requests),
        .claims = calloc(n, sizeof *job.claims),
        .ports = calloc(n, sizeof *job.ports),
    };
    dibs_status s = run_job(&job, err);
    free(job.wants);
    free(job.requests);
    free(job.claims);
    free(job.ports);
    return s;
}

static const struct cli_opt opts[] = {
    { .name = "port",
      .letter = 'p',
      .arg = "NAME[=PORT]",
      .help = "a port with this name, or this very port; may be repeated",
      .kind = CLI_NAME,
      .is_repeatable = true },
    CLI_REQUEST_OPTS,
    { .name = "keep", .help = "the claims stay when the command has ended" },
    { 0 },
};

const struct cli_cmd cmd_run = {
    .name = "run",
    .args = "[--] COMMAND [ARGUMENT]...",
    .summary = "Run a command with ports that are its own",
    .details = "Claims a port for each -p, or one without a name, and runs COMMAND with them\n"
               "in its environment: PORT is the first, PORT0, PORT1, ... are all of them,\n"
               "WEB_PORT is that of the name 'web', DIBS_PORTS lists names and ports. {web} in\n"
               "an argument becomes the port of 'web', {PORT} the first.\n"
               "\n"
               "COMMAND holds the claims: they end with it, and ending dibs frees nothing.\n"
               "Signals are handed on. The exit code is that of COMMAND, 128 and the number of\n"
               "the signal that ended it, 126 or 127 if it could not be run. dibs itself fails\n"
               "only before COMMAND starts.",
    .examples = "dibs run printenv PORT\n"
                "dibs run -p web -p api -- echo {web} {api}\n",
    .opts = opts,
    .flags = CLI_STOP | CLI_NO_JSON,
    .min_args = 1,
    .max_args = -1,
    .args_kind = CLI_TEXT,
    .run = run,
};
