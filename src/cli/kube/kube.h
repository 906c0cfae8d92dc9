/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_KUBE_KUBE_H
#define DIBS_CLI_KUBE_KUBE_H
/* The verbs of `dibs kube`. */
#include "cli/cli.h"
#include "kube/pool.h"

dibs_status kube_inject(struct cli *cli, dibs_err *err);
dibs_status kube_webhook(struct cli *cli, dibs_err *err);
dibs_status kube_ls(struct cli *cli, dibs_err *err);
dibs_status kube_install(struct cli *cli, dibs_err *err);
/* Read --pool, --start-port, --port-range and --strategy. */
struct kube_pool_flags kube_pool_flags(const struct cli *cli);
#endif
