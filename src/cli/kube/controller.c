/* SPDX-License-Identifier: MIT */
#include "cli/kube/kube.h"

#include "kube/controller/controller.h"

#include "base/banned.h"

dibs_status kube_controller(struct cli *cli, dibs_err *err)
{
    return controller_run(&(struct controller_options){ .settings = &cli->settings,
                                                        .kubeconfig = cli_value(cli, "kubeconfig"),
                                                        .ns = cli_value(cli, "lease-namespace"),
                                                        .listen = cli_value(cli, "metrics-listen"),
                                                        .pool = kube_pool_flags(cli) },
                          err);
}
