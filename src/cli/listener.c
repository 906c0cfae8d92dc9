/* SPDX-License-Identifier: MIT */
#include "cli/listener.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"

#include "base/banned.h"

dibs_status cli_port_report(const struct cli *cli, dibs_port_question *question, dibs_port_report **out,
                            dibs_err *err)
{
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report); /* too large for the stack */
    dibs_status status = dibs_port_parse(cli->argv[0], &question->port, err);

    if (status == DIBS_OK && !report)
        status = err_set(err, DIBS_FAILURE, "out of memory");
    if (status == DIBS_OK)
        status = dibs_port_explain(cli->handle, question, report, err);
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

enum relation { UNCLAIMED, FOREIGN, SAME_USER, PROJECT, HOLDER };

static enum relation relation_to(const dibs_socket *socket, const dibs_claim *claim)
{
    if (!cli_socket_uses(socket, claim))
        return UNCLAIMED;
    if (socket->uid != claim->uid)
        return FOREIGN;
    if (!socket->is_holders)
        return SAME_USER;
    return claim->holder == DIBS_HELD_BY_NOBODY ? PROJECT : HOLDER;
}

const char *cli_socket_relation(const dibs_socket *socket, const dibs_claim *claims, size_t n)
{
    static const char *const words[] = { [UNCLAIMED] = "unclaimed",
                                         [FOREIGN] = "foreign",
                                         [SAME_USER] = "same-user",
                                         [PROJECT] = "project",
                                         [HOLDER] = "holder" };
    enum relation best = UNCLAIMED;

    for (size_t i = 0; i < n; i++) {
        enum relation now = relation_to(socket, &claims[i]);

        if (now > best)
            best = now;
    }
    return words[best];
}

void cli_write_sockets(struct jsonw *w, const dibs_port_report *report, const dibs_claim *claims, size_t n)
{
    jsonw_key_array(w, "sockets");
    for (size_t i = 0; i < report->n_sockets; i++) {
        jsonw_object(w);
        wire_socket_members(w, &report->sockets[i]);
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
