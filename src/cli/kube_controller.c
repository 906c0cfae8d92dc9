/* SPDX-License-Identifier: MIT */
#include "cli/kube.h"

#include "base/err.h"
#include "operator/controller.h"

#include "base/banned.h"

dibs_status kube_controller(struct cli *cli, dibs_err *err)
{
    if (cli->argc != 1)
        return err_set(err, DIBS_INVALID, "`dibs kube controller` takes no argument");
    return controller_run(&(struct controller_options){ .settings = &cli->settings,
                                                        .kubeconfig = cli_value(cli, "kubeconfig"),
                                                        .ns = cli_value(cli, "lease-namespace"),
                                                        .listen = cli_value(cli, "metrics-listen"),
                                                        .pool = kube_pool_flags(cli) },
                          err);
}
