/* SPDX-License-Identifier: MIT */
/* `dibs kube ls` */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/kube/kube.h"
#include "cli/text_table.h"
#include "kube/install/install.h"
#include "kube/pod_list.h"
#include "kube/protocol.h"

#include "base/banned.h"

struct printing {
    struct cli *cli;
    struct cli_table table;
    int64_t now_ms;
};

static void write_row(struct jsonw *w, const struct pod_list_row *row)
{
    jsonw_object(w);
    jsonw_key_string(w, "namespace", row->ns);
    jsonw_key_string(w, "pod", row->pod);
    jsonw_key_string(w, "state", row->state);
    jsonw_key_int(w, "created_ms", row->created_ms);
    jsonw_key_array(w, "ports");
    for (size_t i = 0; i < row->n; i++) {
        jsonw_object(w);
        jsonw_key_string(w, "claim", row->claims[i].name);
        jsonw_key_int(w, "port", row->claims[i].port);
        protocols_write(w, row->claims[i].protos);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    jsonw_end_object(w);
}

static void print_row(void *ctx, const struct pod_list_row *row)
{
    struct printing *p = ctx;
    char text[2048] = "";

    if (p->cli->json) {
        write_row(&p->cli->w, row);
        return;
    }
    cli_table_cell(&p->table, row->ns);
    cli_table_cell(&p->table, row->pod);
    if (row->pod[0])
        assigned_describe(row->claims, row->n, text, sizeof text);
    else /* nothing but the claim's name says what it is for */
        (void) snprintf(text, sizeof text, "%s %u", row->claims[0].name, row->claims[0].port);
    cli_table_cell(&p->table, text);
    cli_table_cell(&p->table, row->state);
    text[0] = '\0';
    if (row->created_ms > 0)
        cli_age(p->now_ms > row->created_ms ? p->now_ms - row->created_ms : 0, text, sizeof text);
    cli_table_cell(&p->table, text);
}

/* Write the kubeconfig to use: --kubeconfig; "": $KUBECONFIG or the pod's account; else kubectl's default. */
static void choose_kubeconfig(const struct cli *cli, char out[PATH_MAX])
{
    const char *home = getenv("HOME");
    const char *given = cli_value(cli, "kubeconfig");

    out[0] = '\0';
    if (given)
        (void) snprintf(out, PATH_MAX, "%s", given);
    else if (!getenv("KUBECONFIG") && !getenv("KUBERNETES_SERVICE_HOST") && home)
        (void) snprintf(out, PATH_MAX, "%s/.kube/config", home);
    if (!given && out[0] && access(out, F_OK) != 0)
        out[0] = '\0';
}

dibs_status kube_ls(struct cli *cli, dibs_err *err)
{
    static const struct cli_column columns[] = {
        { .title = "NAMESPACE", .asks = 16 }, { .title = "POD", .asks = 24 },
        { .title = "PORTS", .asks = 24 },     { .title = "STATE", .is_state = true },
        { .title = "AGE", .rank = 1 },
    };
    struct printing p = { .cli = cli, .now_ms = clock_now(0).wall_ms };
    char kubeconfig[PATH_MAX];

    choose_kubeconfig(cli, kubeconfig);
    const struct pod_list_options options = { .kubeconfig = kubeconfig[0] ? kubeconfig : NULL,
                                              .ns = cli_value(cli, "namespace"),
                                              .is_all = cli_has(cli, "all-namespaces"),
                                              .controller = cli_value(cli, "controller"),
                                              .controller_ns = cli_value(cli, "lease-namespace") };
    dibs_err unknown = { 0 };
    dibs_status s = options.ns ? install_check_namespace(options.ns, err) : DIBS_OK;

    if (s == DIBS_OK && options.controller_ns)
        s = install_check_namespace(options.controller_ns, err);
    if (s != DIBS_OK)
        return s;
    cli_table_begin(&p.table, columns, sizeof columns / sizeof *columns);
    cli_begin_list(cli);
    s = pod_list(&options, print_row, &p, &unknown, err);
    cli_end_list(cli);
    if (s == DIBS_OK && !cli->json)
        s = cli_table_print(&p.table, stdout, err);
    if (s == DIBS_OK && unknown.code != DIBS_OK)
        cli_warn("the ledger's claims are not known: %s", unknown.msg);
    cli_table_done(&p.table);
    return s;
}
