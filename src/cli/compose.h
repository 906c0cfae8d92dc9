/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_COMPOSE_H
#define DIBS_CLI_COMPOSE_H
/* The compose file of a project. */
#include "cli/cli.h"
#include "workload/compose.h"

/* Read the directory's compose file; `name` gets its path. NOT_FOUND: there is none. */
dibs_status cli_compose_read(const char *directory, char *name, size_t size, struct compose *out,
                             dibs_err *err);
/* Print the manifest's compose file with claimed host ports in place of those that it publishes. A port
 * belongs to the role with the service's name, and there to the port with the same `container`, or to the
 * only one. Services without a role stay as they are, with a warning. */
dibs_status cli_print_compose(struct cli *cli, dibs_err *err);
#endif
