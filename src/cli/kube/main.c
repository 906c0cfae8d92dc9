/* SPDX-License-Identifier: MIT */
/* dibs-kube: the Kubernetes commands. `dibs kube` executes it. */
#include "cli/kube/kube.h"
#include "cli/program.h"
#include "kube/controller/controller.h"

#include "base/banned.h"

static dibs_status controller(struct cli *cli, dibs_err *err)
{
    return controller_run(&(struct controller_options){ .settings = &cli->settings,
                                                        .kubeconfig = cli_value(cli, "kubeconfig"),
                                                        .ns = cli_value(cli, "lease-namespace"),
                                                        .installation = cli_value(cli, "installation"),
                                                        .listen = cli_value(cli, "metrics-listen"),
                                                        .pool = kube_pool_flags(cli) },
                          err);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    static const char *const of_inject[] = { "output", "release", NULL };
    static const char *const of_webhook[] = { "listen",
                                              "tls-cert",
                                              "tls-key",
                                              "installation",
                                              "start-port",
                                              "port-range",
                                              "strategy",
                                              "pending",
                                              "template",
                                              "rebuilt",
                                              "no-quota",
                                              "check-config",
                                              "enable-port-allocator",
                                              NULL };
    static const char *const of_controller[] = { "kubeconfig",     "lease-namespace",
                                                 "metrics-listen", "installation",
                                                 "start-port",     "port-range",
                                                 "strategy",       NULL };
    static const char *const of_install[] = { "print",    "namespace",  "image",      "api-server",
                                              "secret",   "kubernetes", "start-port", "port-range",
                                              "strategy", NULL };
    static const char *const of_ls[] = { "namespace",  "all-namespaces",  "kubeconfig",
                                         "controller", "lease-namespace", NULL };
    static const struct cli_verb verbs[] = {
        { "inject", "a FILE, or - for stdin", of_inject, kube_inject },
        { "controller", NULL, of_controller, controller },
        { "install", NULL, of_install, kube_install },
        { "ls", NULL, of_ls, kube_ls },
        { "webhook", NULL, of_webhook, kube_webhook },
        { 0 },
    };

    return cli_run_verb(cli, verbs, err);
}

int main(int argc, char **argv)
{
    static const struct program self = { .name = "dibs-kube", .run = run, .opens_clusters = true };

    return program_main(&self, argc, argv);
}
