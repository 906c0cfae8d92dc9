/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_LISTENER_H
#define DIBS_CLI_LISTENER_H
/* Sockets beside claims, for `who`, `explain` and `ls --audit`. */
#include "cli/cli.h"
#include "wire/wire.h"

/* What is known of the port that is the command's argument; question->port is filled. The caller frees *out,
 * which is untouched on failure. */
dibs_status cli_port_report(const struct cli *cli, dibs_port_question *question, dibs_port_report **out,
                            dibs_err *err);

/* Does the socket use what the claim is for: same protocol and port, addresses in conflict? */
bool cli_socket_uses(const dibs_socket *socket, const dibs_claim *claim);

/* "holder": the claim's own process, or its user when no process holds it. "same-user": another
 * process of the claim's user, such as a child of the holder. "foreign": somebody else, in spite
 * of the claim. "unclaimed": no claim is for what it uses. The best of several claims counts. */
const char *cli_socket_relation(const dibs_socket *socket, const dibs_claim *claims, size_t n);

/* "pid 123 (node)", or what is known instead; not yet made safe for a terminal. */
void cli_socket_owner(const dibs_socket *socket, char *out, size_t size);
#endif
