/* SPDX-License-Identifier: MIT */
/* `dibs run [-p NAME]... COMMAND`: run a command with ports without a manifest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/run/launch.h"
#include "cli/target.h"
#include "workload/workload.h"

#include "base/banned.h"

#define VARIABLE_MAX (DIBS_NAME_MAX + 8) /* '_', the name, "_PORT" */

struct want {
    char typed[DIBS_NAME_MAX + 2]; /* without a leading slash; empty: the port without a name */
    char name[DIBS_NAME_MAX + 1];  /* absolute */
    char variable[VARIABLE_MAX];   /* WEB_PORT */
};

struct command {
    struct launch_claims claims;
    struct want *wants;
    dibs_ranges ranges;
};

/* Read NAME or NAME=PORT. */
static dibs_status want_from(struct command *command, size_t i, const char *text, dibs_err *err)
{
    struct want *want = &command->wants[i];
    dibs_request *request = &command->claims.requests[i];
    const char *equals = strrchr(text, '=');
    size_t len = equals ? (size_t) (equals - text) : strlen(text);
    const char *rest = NULL; /* the name without its group */

    if (!len || len >= sizeof want->typed)
        return err_set(err, DIBS_INVALID, "run: '%.64s' is not NAME or NAME=PORT: its name is %s", text,
                       len ? "too long" : "empty");
    memcpy(want->typed, text, len);
    dibs_status s = cli_claim_name(command->claims.cli, want->typed, want->name, &request->project, err);
    if (!s && equals) {
        request->mode = DIBS_REQUIRED;
        s = dibs_port_parse(equals + 1, &request->port, err);
    }
    if (!s)
        s = cli_after_group(command->claims.cli, want->typed, &rest, err);
    if (s)
        return s;
    request->name = want->name;
    if (want->typed[0] == '/')
        rest = want->typed + 1;
    if (rest)
        memmove(want->typed, rest, strlen(rest) + 1);
    workload_port_env(want->typed, want->variable, sizeof want->variable);
    for (size_t k = 0; k < i; k++) {
        if (!strcmp(command->wants[k].variable, want->variable))
            return err_set(err, DIBS_INVALID, "run: '%s' and '%s' would both be $%s", command->wants[k].typed,
                           want->typed, want->variable);
        if (equals && command->claims.requests[k].mode == DIBS_REQUIRED &&
            command->claims.requests[k].port == request->port)
            return err_set(err, DIBS_INVALID, "run: '%s' and '%s' cannot both have port %u",
                           command->wants[k].typed, want->typed, request->port);
    }
    return DIBS_OK;
}

static dibs_status plan(struct command *command, dibs_err *err)
{
    dibs_request like = { .holder = DIBS_HELD_BY_PROCESS, .keep = cli_has(command->claims.cli, "keep") };
    dibs_status s = cli_request_from(command->claims.cli, &like, &command->ranges, err);

    if (s)
        return s;
    for (size_t i = 0; i < command->claims.n; i++)
        command->claims.requests[i] = like;
    for (size_t i = 0; !s && cli_value_at(command->claims.cli, "port", i); i++)
        s = want_from(command, i, cli_value_at(command->claims.cli, "port", i), err);
    return s;
}

/* ---- in the child ---- */

/* Set the variables. DIBS_PORTS is "web=20001 api=20002"; a port without a name is only the number. */
static void set_words(struct launch *launch, const uint16_t *ports)
{
    const struct command *command = launch->ctx;
    AUTO(bytes_done) struct bytes list = { 0 };

    for (size_t i = 0; i < command->claims.n; i++) {
        const struct want *want = &command->wants[i];
        char variable[32];
        char word[sizeof want->typed + 16];

        (void) snprintf(variable, sizeof variable, "PORT%zu", i);
        launch_set_port(launch, variable, NULL, ports[i]);
        if (want->variable[0])
            launch_set_port(launch, want->variable, want->typed, ports[i]);
        (void) snprintf(word, sizeof word, "%s%s%s%u", i ? " " : "", want->typed, want->typed[0] ? "=" : "",
                        ports[i]);
        bytes_add_text(&list, word);
    }
    launch_set_port(launch, "PORT", "PORT", ports[0]);
    bytes_add(&list, "", 1);
    if (list.is_lost)
        launch->failed = ENOMEM;
    else
        launch_set(launch, "DIBS_PORTS", NULL, list.at);
}

/* ---- in dibs ---- */

dibs_status run_command(struct cli *cli, dibs_err *err)
{
    size_t n = 0;

    while (cli_value_at(cli, "port", n))
        n++;
    n = n ? n : 1; /* without -p: one port without a name */
    AUTO(free_auto) struct want *wants = calloc(n, sizeof *wants);
    AUTO(free_auto) dibs_request *requests = calloc(n, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(n, sizeof *claims);
    struct command command = {
        .claims = { .cli = cli, .requests = requests, .claims = claims, .n = n },
        .wants = wants,
    };
    struct launch launch = { .argv = cli->argv, .n = n, .set_words = set_words, .ctx = &command };

    if (!wants || !requests || !claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = plan(&command, err);
    dibs_close(cli->handle); /* a full name was looked up: the ledger must not be open in the child */
    cli->handle = NULL;
    return s ? s : launch_run(&launch, &command.claims, err);
}
