/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_LISTENER_H
#define DIBS_CLI_LISTENER_H
/* Compare sockets with claims. */
#include "cli/cli.h"
#include "codec/wire.h"

/* Report on the port in the command's argument, or that of its name; fills question->port, and without
 * bindings those of the name's claim. The caller frees *out. */
dibs_status cli_port_report(struct cli *cli, dibs_port_question *question, dibs_port_report **out,
                            dibs_err *err);

/* Does the socket use the claim's binding: same protocol and port, conflicting addresses? */
bool cli_socket_uses(const dibs_socket *socket, const dibs_claim *claim);

/* Return the relation of a socket to the claims, the closest if there are several. "holder": the claim's
 * process, or its user when no process holds it. "descendant": a process below the holder. "project": one of
 * the kept claim's project. "same-user": another process of the claim's user. "foreign": another user's
 * process. "unclaimed": no claim covers it. */
const char *cli_socket_relation(const dibs_socket *socket, const dibs_claim *claims, size_t n);

/* Write the sockets of a report with their relation to the claims, as a key and its value. */
void cli_write_sockets(struct jsonw *w, const dibs_port_report *report, const dibs_claim *claims, size_t n);

/* Warn of processes that listen on these claims' ports and are not the claims'. */
void cli_warn_strangers(struct cli *cli, const dibs_claim *claims, size_t n);
/* TAKEN: such a process listens on a port that a command is about to get. */
dibs_status cli_refuse_strangers(struct cli *cli, const dibs_request *requests, size_t n, dibs_err *err);

/* Write "pid 12 (node), alice (uid 1000), on tcp *". */
enum { CLI_SOCKET_BYTES = 512 };
const char *cli_describe_socket(const dibs_socket *socket, char out[CLI_SOCKET_BYTES]);
/* Describe the owner of a socket: "pid 123 (node)", or its user; not yet safe for a terminal. */
void cli_socket_owner(const dibs_socket *socket, char *out, size_t size);
#endif
