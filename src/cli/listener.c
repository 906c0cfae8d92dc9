/* SPDX-License-Identifier: MIT */
#include "cli/listener.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "cli/manifest.h"
#include "cli/target.h"
#include "workload/strangers.h"

#include "base/banned.h"

dibs_status cli_port_report(struct cli *cli, dibs_port_question *question, dibs_port_report **out,
                            dibs_err *err)
{
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report); /* too large for the stack */
    dibs_claim claim;
    dibs_status status = cli_port_of(cli, cli->argv[0], &question->port, &claim, err);

    if (status == DIBS_OK && !report)
        status = err_set(err, DIBS_FAILURE, "out of memory");
    if (status == DIBS_OK && question->n == 0 && claim.port) {
        question->bindings = claim.bindings;
        question->n = claim.n_bindings;
    }
    if (status == DIBS_OK)
        status = dibs_port_explain(cli->handle, question, report, err);
    if (question->bindings == claim.bindings)
        question->n = 0;
    if (status == DIBS_OK)
        *out = TAKE(report);
    return status;
}

bool cli_socket_uses(const dibs_socket *socket, const dibs_claim *claim)
{
    if (socket->port != claim->port)
        return false;
    for (size_t i = 0; i < claim->n_bindings; i++)
        if (claim->bindings[i].proto == socket->proto &&
            dibs_address_conflict(&claim->bindings[i].address, &socket->address))
            return true;
    return false;
}

static enum wire_relation relation_to(const dibs_socket *socket, const dibs_claim *claim)
{
    if (!cli_socket_uses(socket, claim))
        return WIRE_UNCLAIMED;
    bool has_dropped_rights = socket->is_holders && claim->holder == DIBS_HELD_BY_PROCESS;
    if (socket->uid != claim->uid && !has_dropped_rights)
        return WIRE_FOREIGN;
    if (!socket->is_holders)
        return WIRE_SAME_USER;
    if (claim->holder == DIBS_HELD_BY_NOBODY)
        return WIRE_PROJECT;
    return socket->is_below ? WIRE_DESCENDANT : WIRE_HOLDER;
}

const char *cli_socket_relation(const dibs_socket *socket, const dibs_claim *claims, size_t n)
{
    enum wire_relation best = WIRE_UNCLAIMED;

    for (size_t i = 0; i < n; i++) {
        enum wire_relation now = relation_to(socket, &claims[i]);

        if (now > best)
            best = now;
    }
    return wire_relation_text(best);
}

void cli_write_sockets(struct jsonw *w, const dibs_port_report *report, const dibs_claim *claims, size_t n)
{
    jsonw_key_array(w, "sockets");
    for (size_t i = 0; i < report->n_sockets; i++) {
        jsonw_object(w);
        wire_socket_members(w, &report->sockets[i]);
        char user[CLI_USER_BYTES];
        jsonw_key_string(w, "user", cli_user(report->sockets[i].uid, user));
        jsonw_key_string(w, "relation", cli_socket_relation(&report->sockets[i], claims, n));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

void cli_socket_owner(const dibs_socket *socket, char *out, size_t size)
{
    if (socket->pid == 0)
        (void) snprintf(out, size, "a process that is not visible from here");
    else if (socket->command[0])
        (void) snprintf(out, size, "pid %d (%s)", socket->pid, socket->command);
    else
        (void) snprintf(out, size, "pid %d", socket->pid);
}

const char *cli_describe_socket(const dibs_socket *socket, char out[CLI_SOCKET_BYTES])
{
    char owner[DIBS_COMMAND_MAX + 64];
    char user[CLI_USER_BYTES];
    char address[DIBS_ADDRESS_TEXT_MAX + 1];

    cli_socket_owner(socket, owner, sizeof owner);
    dibs_address_format(&socket->address, address);
    (void) snprintf(out, CLI_SOCKET_BYTES, "%s, %s, on %s %s", owner, cli_user(socket->uid, user),
                    dibs_proto_text(socket->proto), address);
    return out;
}

/* Write what is on the claim's port, and what to do. */
static void stranger_text(const struct cli *cli, const dibs_claim *claim, const dibs_socket *socket,
                          char out[DIBS_ERR_MSG_MAX])
{
    char name[DIBS_NAME_MAX + 1];
    char full[DIBS_NAME_MAX + 1];
    char who[CLI_SOCKET_BYTES];

    (void) cli_short_name(claim->name, name, sizeof name);
    bool is_manifests = cli_manifest_name(cli, name, full);
    (void) snprintf(out, DIBS_ERR_MSG_MAX,
                    "port %u of '%.300s' is in use by a process that is not of this project: %s; stop it, or "
                    "let the name have another port: 'dibs %s%.300s'",
                    claim->port, claim->name, cli_describe_socket(socket, who),
                    is_manifests ? "up --move" : "release ", is_manifests ? "" : name);
}

void cli_warn_strangers(struct cli *cli, const dibs_claim *claims, size_t n)
{
    AUTO(strangers_free) struct strangers *strangers = NULL;
    char text[DIBS_ERR_MSG_MAX];
    dibs_socket socket;

    for (size_t i = 0; i < n; i++) {
        if (!claims[i].was_there || (!strangers && !(strangers = strangers_new())) ||
            !strangers_find(strangers, cli->handle, cli->manifest, &claims[i], &socket))
            continue; /* a new claim's port was probed a moment ago */
        stranger_text(cli, &claims[i], &socket, text);
        cli_warn("%s", text);
    }
}

dibs_status cli_refuse_strangers(struct cli *cli, const dibs_request *requests, size_t n, dibs_err *err)
{
    AUTO(strangers_free) struct strangers *strangers = NULL;
    char text[DIBS_ERR_MSG_MAX];
    dibs_claim claim;
    dibs_socket socket;

    for (size_t i = 0; i < n; i++) {
        const dibs_which which = { .name = requests[i].name, .project = requests[i].project };

        if (!which.name || requests[i].mode == DIBS_DECLARED ||
            dibs_claim_find(cli->handle, &which, &claim, NULL) != DIBS_OK ||
            (!strangers && !(strangers = strangers_new())) ||
            !strangers_find(strangers, cli->handle, cli->manifest, &claim, &socket))
            continue;
        stranger_text(cli, &claim, &socket, text);
        (void) err_set(err, DIBS_TAKEN, "%s", text);
        err->blocker = (dibs_blocker){ .relation = DIBS_REL_FOREIGN,
                                       .proto = socket.proto,
                                       .address = socket.address,
                                       .port = socket.port,
                                       .pid = socket.pid,
                                       .uid = socket.uid };
        (void) text_copy(err->blocker.command, sizeof err->blocker.command, socket.command);
        return DIBS_TAKEN;
    }
    return DIBS_OK;
}
