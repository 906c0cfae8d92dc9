/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/auto.h"
#include "cli/listener.h"

#include "base/banned.h"

static const char *kind_text(dibs_reason_kind kind)
{
    switch (kind) {
    case DIBS_WHY_CLAIMED: return "claimed";
    case DIBS_WHY_DECLARED: return "declared";
    case DIBS_WHY_FOREIGN: return "foreign";
    case DIBS_WHY_COOLING: return "cooling";
    case DIBS_WHY_EPHEMERAL: return "ephemeral";
    case DIBS_WHY_RESERVED: return "reserved";
    case DIBS_WHY_BROWSER: return "browser";
    case DIBS_WHY_OUTSIDE: return "outside";
    case DIBS_WHY_BAND: return "band";
    case DIBS_WHY_PRIVILEGED: return "privileged";
    }
    return "other";
}

static const char *verdict(const dibs_port_report *report)
{
    if (report->can_claim && report->can_choose)
        return "can be claimed";
    if (report->can_claim)
        return "can be claimed by number, but dynamic choice does not take it";
    return "cannot be claimed";
}

static void print_json(const dibs_port_report *report, uint16_t port)
{
    struct json_writer w;

    json_begin(&w, stdout);
    json_object(&w);
    json_key_uint(&w, "port", port);
    json_key_bool(&w, "can_claim", report->can_claim);
    json_key_bool(&w, "can_choose", report->can_choose);
    json_key_string(&w, "verdict", verdict(report));
    json_key(&w, "reasons");
    json_array(&w);
    for (size_t i = 0; i < report->n_reasons; i++) {
        const dibs_reason *reason = &report->reasons[i];

        json_object(&w);
        json_key_string(&w, "kind", kind_text(reason->kind));
        json_key_bool(&w, "blocks_static", reason->blocks_static);
        json_key_bool(&w, "blocks_dynamic", reason->blocks_dynamic);
        json_key_string(&w, "text", reason->text);
        json_key_string(&w, "advice", reason->advice);
        json_end_object(&w);
    }
    json_end_array(&w);
    cli_json_claims(&w, report);
    json_key(&w, "sockets");
    json_array(&w);
    for (size_t i = 0; i < report->n_sockets; i++) {
        json_object(&w);
        cli_json_socket_members(&w, &report->sockets[i]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_key_bool(&w, "cut", report->is_cut);
    json_end_object(&w);
    json_finish(&w);
}

static void print_text(const dibs_port_report *report, uint16_t port)
{
    char text[DIBS_ERR_MSG_MAX] = "";
    char advice[DIBS_ERR_MSG_MAX] = "";

    (void) printf("port %u %s\n", port, verdict(report));
    for (size_t i = 0; i < report->n_reasons; i++) {
        const dibs_reason *reason = &report->reasons[i];

        (void) printf("  %s: %s", kind_text(reason->kind), cli_safe(reason->text, text, sizeof text));
        if (reason->advice[0])
            (void) printf(" -> %s", cli_safe(reason->advice, advice, sizeof advice));
        (void) printf("\n");
    }
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    dibs_binding bindings[DIBS_BINDINGS_MAX] = { 0 };
    dibs_port_question question = { .pool = cli_value(cli, "pool"), .bindings = bindings };
    AUTO(free_auto) dibs_port_report *report = NULL;
    dibs_status status = cli_bindings_from(cli, bindings, &question.n, err);

    if (status == DIBS_OK)
        status = cli_port_report(cli, &question, &report, err);
    if (status != DIBS_OK)
        return status;
    if (cli->json)
        print_json(report, question.port);
    else
        print_text(report, question.port);
    if (report->is_cut)
        cli_note(cli, "there are more claims or sockets of port %u than were looked at", question.port);
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "proto",
      .arg = "PROTO",
      .help = "protocols it would be claimed for (default tcp)",
      .kind = CLI_WORDS,
      .words = "tcp udp sctp tcp+udp" },
    { .name = "address",
      .arg = "ADDRESS",
      .help = "address it would be claimed on (default *)",
      .is_repeatable = true },
    { .name = "pool", .arg = "POOL", .help = "pool it would be chosen from", .kind = CLI_POOL },
    { 0 },
};

const struct cli_cmd cmd_explain = {
    .name = "explain",
    .args = "PORT",
    .summary = "Tell why a port can or cannot be had, and what to do",
    .details = "The first line is the verdict, then a line for each reason with what to do.\n"
               "Nothing is probed and nothing is claimed. The exit code is 0 whatever the\n"
               "verdict; scripts read --json.",
    .examples = "dibs explain 8080\ndibs explain 53 --proto udp --address 127.0.0.1\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .min_args = 1,
    .max_args = 1,
    .args_kind = CLI_PORT,
    .run = run,
};
