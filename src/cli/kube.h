/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_KUBE_H
#define DIBS_CLI_KUBE_H
/* The verbs of `dibs kube` that have a file of their own. */
#include "cli/cli.h"
#include "operator/pool.h"

dibs_status kube_webhook(struct cli *cli, dibs_err *err);
dibs_status kube_controller(struct cli *cli, dibs_err *err);
dibs_status kube_install(struct cli *cli, dibs_err *err);
/* --pool, --start-port, --port-range and --strategy. */
struct operator_pool_flags kube_pool_flags(const struct cli *cli);
#endif
