/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/auto.h"
#include "cli/listener.h"
#include "cli/terminal.h"
#include "net/proto.h"

#include "base/banned.h"

static void print_text(const struct cli *cli, const dibs_port_report *report, uint16_t port)
{
    char text[DIBS_ERR_MSG_MAX] = "";
    char people[DIBS_ERR_MSG_MAX] = "";
    char advice[DIBS_ERR_MSG_MAX] = "";

    (void) printf("port %u ", port);
    (void) terminal_print_word(stdout, wire_verdict_text(report));
    (void) fputc('\n', stdout);
    for (size_t i = 0; i < report->n_reasons; i++) {
        const dibs_reason *reason = &report->reasons[i];

        (void) printf("  %s: %s", words_at(&words_reason, reason->kind),
                      text_safe(cli_for_people(cli, reason->text, people, sizeof people), text, sizeof text));
        if (reason->advice[0])
            (void) printf(" -> %s", text_safe(reason->advice, advice, sizeof advice));
        (void) printf("\n");
    }
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    dibs_binding bindings[DIBS_BINDINGS_MAX] = { 0 };
    dibs_port_question question = { .pool = cli_value(cli, "pool"), .bindings = bindings };
    AUTO(free_auto) dibs_port_report *report = NULL;
    bool is_given = cli_has(cli, "proto") || cli_has(cli, "address");
    dibs_status status = is_given ? cli_bindings_from(cli, bindings, &question.n, err) : DIBS_OK;

    if (status == DIBS_OK)
        status = cli_port_report(cli, &question, &report, err);
    if (status != DIBS_OK)
        return status;
    if (cli->json)
        wire_report(&cli->w, question.port, report);
    else
        print_text(cli, report, question.port);
    if (report->is_cut)
        cli_note(cli, "there are more claims or sockets of port %u than were looked at", question.port);
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "proto",
      .arg = "PROTO",
      .help = "protocols it would be claimed for (default tcp)",
      .words = PROTO_WORDS " tcp+udp" },
    { .name = "address",
      .arg = "ADDRESS",
      .help = "address it would be claimed on (default *)",
      .is_repeatable = true },
    { .name = "pool", .arg = "POOL", .help = "pool it would be chosen from" },
    { 0 },
};

const struct cli_cmd cmd_explain = {
    .name = "explain",
    .group = CLI_LOOK,
    .args = "PORT|NAME",
    .summary = "Explain why a port can or cannot be claimed, and what to do",
    .details = "The first line is the verdict, then a line for each reason with what to do.\n"
               "NAME is that of a claim: its port, protocols and addresses. Nothing is claimed.\n"
               "The exit code is 0 whatever the verdict; scripts read --json.",
    .examples = "dibs explain 8080\ndibs explain web\ndibs explain 53 --proto udp --address 127.0.0.1\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .min_args = 1,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
