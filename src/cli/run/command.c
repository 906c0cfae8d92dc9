/* SPDX-License-Identifier: MIT */
/* `dibs run [-p NAME]... COMMAND`: run a command with ports without a manifest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/text.h"
#include "cli/claim_options.h"
#include "cli/manifest.h"
#include "cli/run/launch.h"
#include "cli/target.h"
#include "net/bindings.h"
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
    struct want base;       /* with --count: what all ports together are called */
    struct run_as_port *as; /* parallel; zero for a port of -p */
    dibs_ranges ranges;
};

/* Read the name, the first `len` bytes of the option's value. */
static dibs_status name_from(struct command *command, size_t i, const char *text, size_t len, dibs_err *err)
{
    struct want *want = &command->wants[i];
    dibs_request *request = &command->claims.requests[i];
    const char *rest = NULL; /* the name without its group */

    if (!len || len >= sizeof want->typed)
        return err_set(err, DIBS_INVALID, "run: '%.64s' is not NAME[:VARIABLE][=PORT]: its name is %s", text,
                       len ? "too long" : "empty");
    memcpy(want->typed, text, len);
    dibs_status s = cli_claim_name(command->claims.cli, want->typed, want->name, &request->project, err);
    if (!s)
        s = cli_after_group(command->claims.cli, want->typed, &rest, err);
    if (s)
        return s;
    request->name = want->name;
    if (want->typed[0] == '/')
        rest = want->typed + 1;
    if (rest)
        memmove(want->typed, rest, strlen(rest) + 1);
    if (!want->variable[0])
        workload_port_env(want->typed, want->variable, sizeof want->variable);
    for (size_t k = 0; k < i; k++) {
        if (!strcmp(command->wants[k].variable, want->variable))
            return err_set(err, DIBS_INVALID, "run: '%s' and '%s' would both be $%s", command->wants[k].typed,
                           want->typed, want->variable);
    }
    return DIBS_OK;
}

/* Cut ":VARIABLE" off NAME:VARIABLE, whose length is *len. */
static dibs_status variable_from(const char *text, size_t *len, char variable[VARIABLE_MAX], dibs_err *err)
{
    const char *colon = memrchr(text, ':', *len);
    size_t n = colon ? *len - (size_t) (colon + 1 - text) : 0;

    if (!colon)
        return DIBS_OK;
    if (n >= VARIABLE_MAX)
        return err_set(err, DIBS_INVALID, "run: '%.64s': the variable's name is too long", text);
    memcpy(variable, colon + 1, n);
    variable[n] = '\0';
    if (!workload_is_env_name(variable))
        return err_set(err, DIBS_INVALID, "run: '%.64s': '%.64s' is no name of a variable", text, variable);
    if (workload_env_danger(variable))
        return err_set(err, DIBS_INVALID, "run: $%.64s cannot be a port: %s reads that variable", variable,
                       workload_env_danger(variable));
    *len = (size_t) (colon - text);
    return DIBS_OK;
}

/* Read NAME[:VARIABLE][=PORT] of -p. */
static dibs_status want_from(struct command *command, size_t i, const char *text, dibs_err *err)
{
    dibs_request *request = &command->claims.requests[i];
    const char *equals = strrchr(text, '=');
    size_t len = equals ? (size_t) (equals - text) : strlen(text);
    dibs_status s = variable_from(text, &len, command->wants[i].variable, err);

    if (!s)
        s = name_from(command, i, text, len, err);
    if (s || !equals)
        return s;
    request->mode = DIBS_REQUIRED;
    s = dibs_port_parse(equals + 1, &request->port, err);
    for (size_t k = 0; k < i && !s; k++)
        if (command->claims.requests[k].mode == DIBS_REQUIRED &&
            command->claims.requests[k].port == request->port)
            s = err_set(err, DIBS_INVALID, "run: '%s' and '%s' cannot both have port %u",
                        command->wants[k].typed, command->wants[i].typed, request->port);
    return s;
}

/* Read [NAME=]PORT[/PROTOCOL] of --as. The claim has the protocols that are given here. */
static dibs_status as_from(struct command *command, size_t i, const char *text, dibs_err *err)
{
    struct cli *cli = command->claims.cli;
    dibs_request *request = &command->claims.requests[i];
    struct run_as_port *as = &command->as[i];
    dibs_proto protos[2];
    size_t n = 0;
    size_t name = 0;
    dibs_status s = run_as_parse(text, &name, as, err);

    if (!s && (name || strchr(text, '=')))
        s = name_from(command, i, text, name, err);
    for (size_t k = 0; k < i && !s; k++)
        if (command->as[k].inside == as->inside)
            s = err_set(err, DIBS_INVALID, "run: --as %u is given twice; for both protocols write %u/tcp+udp",
                        as->inside, as->inside);
    if (s)
        return s;
    request->as_port = as->inside;
    if (as->has_tcp)
        protos[n++] = DIBS_TCP;
    if (as->has_udp)
        protos[n++] = DIBS_UDP;
    const char *address = cli_value(cli, "address");
    request->n_bindings = 0;
    for (size_t k = 1; !s && (k == 1 || address); address = cli_value_at(cli, "address", k++))
        s = bindings_add(address ? address : "*", protos, n, request->bindings, &request->n_bindings, err);
    return s;
}

/* Name the ports of -n 3 -p rank: rank/0, rank/1, rank/2. The base has the number of the first. */
static dibs_status several_from(struct command *command, const char *text, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 16];
    size_t len = strlen(text);
    dibs_status s = strrchr(text, '=') ? err_set(err, DIBS_INVALID, "run: '%.64s' names one port, not %zu",
                                                 text, command->claims.n)
                                       : variable_from(text, &len, command->base.variable, err);

    if (!s && (!len || len >= sizeof command->base.typed))
        s = err_set(err, DIBS_INVALID, "run: '%.64s' is no name", text);
    if (s)
        return s;
    memcpy(command->base.typed, text, len);
    for (size_t i = 0; i < command->claims.n && !s; i++) {
        (void) snprintf(name, sizeof name, "%s/%zu", command->base.typed, i);
        s = name_from(command, i, name, strlen(name), err);
    }
    if (command->base.typed[0] == '/')
        memmove(command->base.typed, command->base.typed + 1, len);
    if (!command->base.variable[0])
        workload_port_env(command->base.typed, command->base.variable, sizeof command->base.variable);
    return s;
}

/* Count the values of a repeatable option. */
static size_t count_values(const struct cli *cli, const char *option)
{
    size_t n = 0;

    while (cli_value_at(cli, option, n))
        n++;
    return n;
}

/* Count the `--as any`: with one the command may bind any number. */
static size_t count_any(const struct cli *cli)
{
    size_t n = 0;

    for (size_t i = 0; cli_value_at(cli, "as", i); i++)
        n += strcmp(cli_value_at(cli, "as", i), "any") == 0;
    return n;
}

static dibs_status plan_ports(struct command *command, dibs_err *err)
{
    dibs_request like = { .holder = DIBS_HELD_BY_PROCESS, .keep = cli_has(command->claims.cli, "keep") };
    dibs_status s = cli_request_from(command->claims.cli, &like, &command->ranges, err);

    if (s)
        return s;
    for (size_t i = 0; i < command->claims.n; i++)
        command->claims.requests[i] = like;
    size_t n = 0;
    if (cli_has(command->claims.cli, "count")) {
        const char *name = cli_value(command->claims.cli, "port");

        return name ? several_from(command, name, err) : DIBS_OK;
    }
    for (size_t i = 0; !s && cli_value_at(command->claims.cli, "port", i); i++, n++)
        s = want_from(command, n, cli_value_at(command->claims.cli, "port", i), err);
    for (size_t i = 0; !s && cli_value_at(command->claims.cli, "listen", i); i++, n++) {
        command->claims.requests[n].hold = DIBS_HOLD_FD;
        s = want_from(command, n, cli_value_at(command->claims.cli, "listen", i), err);
    }
    for (size_t i = 0; !s && cli_value_at(command->claims.cli, "as", i); i++)
        if (strcmp(cli_value_at(command->claims.cli, "as", i), "any") != 0)
            s = as_from(command, n++, cli_value_at(command->claims.cli, "as", i), err);
    return s;
}

/* ---- in the child ---- */

/* Set the variables to the numbers that the command knows. DIBS_PORTS is "web=20001 api=20002"; a port
 * without a name is only the number. */
static void set_words(struct launch *launch, const uint16_t *ports)
{
    const struct command *command = launch->ctx;
    AUTO(bytes_done) struct bytes list = { 0 };

    if (command->claims.n > 0)
        launch_set_port(launch, "PORT", NULL, launch_inside(launch, 0, ports[0])); /* unless -p NAME:PORT */
    for (size_t i = 0; i < command->claims.n; i++) {
        const struct want *want = &command->wants[i];
        char variable[32];
        char word[sizeof want->typed + 16];
        uint16_t port = launch_inside(launch, i, ports[i]);

        (void) snprintf(variable, sizeof variable, "PORT%zu", i);
        launch_set_port(launch, variable, NULL, port);
        if (want->variable[0])
            launch_set_port(launch, want->variable, want->typed, port);
        (void) snprintf(word, sizeof word, "%s%s%s%u", i ? " " : "", want->typed, want->typed[0] ? "=" : "",
                        port);
        bytes_add_text(&list, word);
    }
    if (command->base.variable[0])
        launch_set_port(launch, command->base.variable, command->base.typed, ports[0]);
    if (command->claims.n > 0)
        launch_set_port(launch, NULL, "PORT", launch_inside(launch, 0, ports[0]));
    bytes_add(&list, "", 1);
    if (list.is_lost)
        launch->failed = ENOMEM;
    else
        launch_set(launch, "DIBS_PORTS", NULL, list.at);
}

/* ---- in dibs ---- */

static const char *name_of(const void *ctx, size_t i)
{
    return ((const struct command *) ctx)->wants[i].typed;
}

/* Are sockets passed to the command? */
static bool passes(const struct command *command)
{
    bool is_any = false;

    for (size_t i = 0; i < command->claims.n; i++)
        is_any = is_any || command->claims.requests[i].hold == DIBS_HOLD_FD;
    return is_any;
}

/* Split dibs into two processes if --as is given. */
static dibs_status begin_as(struct cli *cli, const struct command *command, bool *is_first, dibs_err *err)
{
    bool has_udp = false;

    *is_first = false;
    if (!cli_has(cli, "as"))
        return DIBS_OK;
    for (size_t i = 0; i < command->claims.n; i++)
        has_udp = has_udp || command->as[i].has_udp;
    dibs_status s = run_as_check(cli->argv[0], err);
    if (!s && count_any(cli) && cli_has(cli, "hold"))
        s = err_set(err, DIBS_INVALID,
                    "run: '--as any' claims a port when it is bound: no '--hold' is of use");
    const struct run_as_options options = { .has_udp = has_udp,
                                            .is_any = count_any(cli) > 0,
                                            .is_passed = passes(command) };
    return s ? s : run_as_begin(cli, &options, is_first, err);
}

/* Return the number of ports: without -p and others one, which has no name; with -n so many of one -p. */
static dibs_status count_ports(struct launch_claims *claims, dibs_err *err)
{
    const struct cli *cli = claims->cli;
    size_t n_ports = count_values(cli, "port");
    size_t n = n_ports + count_values(cli, "as") - count_any(cli) + count_values(cli, "listen");
    int64_t count = (int64_t) (n || count_any(cli) ? n : 1);
    int64_t align = 0;
    dibs_status s = cli_number_from(cli, "count", 1, DIBS_BATCH_MAX, &count, err);

    if (!s)
        s = cli_number_from(cli, "align", 1, DIBS_PORT_MAX, &align, err);
    if (!s && cli_has(cli, "count") && (n_ports > 1 || n > n_ports))
        s = err_set(err, DIBS_INVALID,
                    "run: '--count' goes with one '-p' or none, and not with '--as' or '--listen'");
    if (!s && align && !cli_has(cli, "contiguous"))
        s = err_set(err, DIBS_INVALID, "run: '--align' goes with '--contiguous'");
    claims->n = (size_t) count;
    claims->is_contiguous = cli_has(cli, "contiguous");
    claims->align = (uint32_t) align;
    return s;
}

/* Say how to distinguish two runs of one name in one directory. */
static dibs_status tell_apart(const struct command *command, dibs_status status, dibs_err *err)
{
    char cause[DIBS_ERR_MSG_MAX];
    char name[DIBS_NAME_MAX + 1];

    if (status != DIBS_TAKEN || !err || err->blocker.relation != DIBS_REL_SAME_NAME || err->blocker.differs ||
        !err->blocker.pid)
        return status;
    for (size_t i = 0; i < command->claims.n; i++) {
        const struct want *want = &command->wants[i];
        const struct want *named = command->base.typed[0] ? &command->base : want;
        dibs_blocker blocker = err->blocker;

        if (strcmp(want->name, blocker.name) != 0)
            continue;
        if (cli_manifest_name(command->claims.cli, named->typed, name))
            return status; /* a name like it cannot be made */
        (void) text_copy(cause, sizeof cause, err->msg);
        (void) err_set(err, status,
                       "%.700s; to run both, call this one -p %.60s-2:%.60s, or give --group NAME", cause,
                       named->typed, named->variable);
        err->blocker = blocker;
        return status;
    }
    return status;
}

dibs_status run_command(struct cli *cli, dibs_err *err)
{
    struct launch_claims counted = { .cli = cli };
    bool is_first = false;
    dibs_status s = count_ports(&counted, err);
    size_t n = counted.n;

    if (s)
        return s;
    AUTO(free_auto) struct want *wants = calloc(n + 1, sizeof *wants);
    AUTO(free_auto) dibs_request *requests = calloc(n + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(n + 1, sizeof *claims);
    AUTO(free_auto) struct run_as_port *as = calloc(n + 1, sizeof *as);
    struct command command = {
        .claims = counted,
        .wants = wants,
        .as = as,
    };
    struct launch launch = { .argv = cli->argv,
                             .n = n,
                             .set_words = set_words,
                             .ctx = &command,
                             .as = cli_has(cli, "as") ? as : NULL,
                             .title = wants ? wants[0].typed : "" };

    if (!wants || !requests || !claims || !as)
        return err_set(err, DIBS_FAILURE, "out of memory");
    command.claims.requests = requests;
    command.claims.claims = claims;
    s = plan_ports(&command, err);
    launch.is_confined = launch_may_confine(cli);
    launch.name_of = passes(&command) ? name_of : NULL;
    dibs_close(cli->handle); /* a full name was looked up: the ledger must not be open in the child */
    cli->handle = NULL;
    if (!s)
        s = begin_as(cli, &command, &is_first, err);
    return s || is_first ? s : tell_apart(&command, launch_run(&launch, &command.claims, err), err);
}
