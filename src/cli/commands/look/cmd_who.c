/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/pod_words.h"
#include "cli/listener.h"
#include "cli/terminal.h"
#include "net/proto.h"

#include "base/banned.h"

#define TEXT 2048

static void print_claim(const struct cli *cli, const dibs_claim *claim, int64_t boot_ms)
{
    char bindings[TEXT] = "";
    char safe_name[TEXT] = "";
    char holder[TEXT] = "";
    char safe_holder[TEXT] = "";
    char since[32] = "";
    char project[TEXT] = "";
    char name[CLI_USER_BYTES] = "";
    char user[128] = "";
    char as[32] = "";

    cli_bindings(claim, bindings, sizeof bindings);
    cli_holder(claim, boot_ms, holder, sizeof holder);
    cli_time(cli, claim->created_ms, since);
    bool is_pods = pod_words_owner(claim, holder, sizeof holder);
    if (!is_pods && claim->node[0])
        (void) snprintf(user, sizeof user, ", uid %u of host %s", claim->uid, claim->node);
    else if (!is_pods) /* of a pod's claim it is that of the webhook that wrote it */
        (void) snprintf(user, sizeof user, ", %s", cli_user(claim->uid, name));
    if (claim->as_port)
        (void) snprintf(as, sizeof as, ", used as %u", claim->as_port);
    (void) printf("claim   %s  %s  held by %s, %s%s%s%s%s%s%s%s%s%s%s%s, since %s%s%s\n", bindings,
                  claim->name[0] ? text_safe(claim->name, safe_name, sizeof safe_name) : "(unnamed)",
                  claim->is_damaged ? "a damaged record"
                  : claim->holder == DIBS_HELD_BY_NOBODY && !is_pods
                      ? "nobody"
                      : text_safe(holder, safe_holder, sizeof safe_holder),
                  cli_state(claim), claim->is_kept && claim->holder != DIBS_HELD_BY_NOBODY ? ", kept" : "",
                  claim->is_exclusive ? "" : ", declared", as, is_pods ? "" : ", hold ",
                  is_pods ? "" : wire_hold_text(claim), claim->hold_note[0] ? " (" : "", claim->hold_note,
                  claim->hold_note[0] ? ")" : "", user, claim->pool[0] ? ", pool " : "", claim->pool, since,
                  claim->project[0] ? ", of " : "", text_safe(claim->project, project, sizeof project));
}

/* Print what else is known of the process, on a line of its own. */
static void print_details(const dibs_socket *socket)
{
    char safe[TEXT] = "";
    bool has_place = socket->unit[0] || socket->directory[0];

    if (!has_place && !socket->arguments[0])
        return;
    (void) printf("        %s", text_safe(socket->unit, safe, sizeof safe));
    if (socket->directory[0])
        (void) printf("%sin %s", socket->unit[0] ? ", " : "",
                      text_safe(socket->directory, safe, sizeof safe));
    (void) printf("%s%s\n", has_place && socket->arguments[0] ? ": " : "",
                  text_safe(socket->arguments, safe, sizeof safe));
}

static void print_socket(const dibs_socket *socket, const char *relation)
{
    char address[CLI_ADDRESS_BYTES] = "";
    char owner[TEXT] = "";
    char safe[TEXT] = "";
    char user[CLI_USER_BYTES] = "";

    cli_address(&socket->address, address);
    cli_socket_owner(socket, owner, sizeof owner);
    (void) printf("socket  %s %s:%u  %s, %s: ", dibs_proto_text(socket->proto), address, socket->port,
                  text_safe(owner, safe, sizeof safe), cli_user(socket->uid, user));
    (void) terminal_print_word(stdout, relation);
    (void) fputs(socket->serves ? "\n" : ", does not listen\n", stdout);
    print_details(socket);
}

static void print_nat(const dibs_nat_rule *rule)
{
    char address[CLI_ADDRESS_BYTES] = "";
    char safe[TEXT] = "";

    cli_address(&rule->address, address);
    (void) printf("nat     %s %s:%u  %s\n", dibs_proto_text(rule->proto), address, rule->port,
                  text_safe(rule->text, safe, sizeof safe));
}

static void print_json(struct jsonw *w, const dibs_port_report *report, uint16_t port)
{
    jsonw_object(w);
    jsonw_key_uint(w, "port", port);
    wire_report_claims(w, report);
    cli_write_sockets(w, report, report->claims, report->n_claims);
    wire_report_nat(w, report);
    jsonw_key_bool(w, "cut", report->is_cut);
    jsonw_key_array(w, "used_as"); /* show_user() adds to it */
}

static void print_report(const struct cli *cli, const dibs_port_report *report,
                         const dibs_port_question *question)
{
    for (size_t i = 0; i < report->n_claims; i++)
        print_claim(cli, &report->claims[i], dibs_boot_ms(cli->handle));
    for (size_t i = 0; i < report->n_sockets; i++)
        print_socket(&report->sockets[i],
                     cli_socket_relation(&report->sockets[i], report->claims, report->n_claims));
    for (size_t i = 0; i < report->n_nat; i++)
        print_nat(&report->nat[i]);
    if (report->is_cut)
        cli_note(cli, "there are more claims or sockets of port %u than are shown", question->port);
}

static bool claim_has_proto(const dibs_claim *claim, dibs_proto proto)
{
    for (size_t i = 0; i < claim->n_bindings; i++)
        if (claim->bindings[i].proto == proto)
            return true;
    return false;
}

/* Keep only the sockets and claims of one protocol. */
static void keep_proto(dibs_port_report *report, dibs_proto proto)
{
    size_t n = 0;

    for (size_t i = 0; i < report->n_claims; i++)
        if (claim_has_proto(&report->claims[i], proto))
            report->claims[n++] = report->claims[i];
    report->n_claims = n;
    n = 0;
    for (size_t i = 0; i < report->n_sockets; i++)
        if (report->sockets[i].proto == proto)
            report->sockets[n++] = report->sockets[i];
    report->n_sockets = n;
    n = 0;
    for (size_t i = 0; i < report->n_nat; i++)
        if (report->nat[i].proto == proto)
            report->nat[n++] = report->nat[i];
    report->n_nat = n;
}

/* Claims whose processes use the number as theirs. */
struct users {
    struct cli *cli;
    uint16_t port;
    dibs_proto proto; /* 0: any */
    size_t n;
};

static bool is_user(const struct users *users, const dibs_claim *claim)
{
    return claim->as_port == users->port && (!users->proto || claim_has_proto(claim, users->proto));
}

static bool count_user(void *ctx, const dibs_claim *claim)
{
    struct users *users = ctx;

    users->n += is_user(users, claim);
    return true;
}

static bool show_user(void *ctx, const dibs_claim *claim)
{
    const struct users *users = ctx;
    char bindings[TEXT] = "";
    char holder[TEXT] = "";
    char safe_holder[TEXT] = "";
    char safe_name[TEXT] = "";
    char project[TEXT] = "";

    if (!is_user(users, claim))
        return true;
    if (users->cli->json) {
        wire_claim(&users->cli->w, claim, true);
        return true;
    }
    cli_bindings(claim, bindings, sizeof bindings);
    cli_holder(claim, dibs_boot_ms(users->cli->handle), holder, sizeof holder);
    (void) printf("inside  %u is used as %u by %s  %s, %s%s%s\n", claim->port, claim->as_port,
                  claim->name[0] ? text_safe(claim->name, safe_name, sizeof safe_name) : "(unnamed)",
                  claim->holder == DIBS_HELD_BY_NOBODY ? "held by nobody"
                                                       : text_safe(holder, safe_holder, sizeof safe_holder),
                  cli_state(claim), claim->project[0] ? ", of " : "",
                  text_safe(claim->project, project, sizeof project));
    return true;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    dibs_binding bindings[2] = { { .proto = DIBS_TCP, .address = { .len = 16 } },
                                 { .proto = DIBS_UDP, .address = { .len = 16 } } };
    const char *proto_text = cli_value(cli, "proto");
    dibs_port_question question = { .bindings = bindings, .n = proto_text ? 1 : 2 };
    AUTO(free_auto) dibs_port_report *report = NULL;
    dibs_proto proto = DIBS_TCP;
    struct users users = { .cli = cli };
    dibs_status status = proto_text ? dibs_proto_parse(proto_text, &proto, err) : DIBS_OK;

    bindings[0].proto = proto;
    if (status == DIBS_OK)
        status = cli_port_report(cli, &question, &report, err);
    if (status != DIBS_OK)
        return status;
    if (proto_text) {
        keep_proto(report, proto);
        users.proto = proto;
    }
    users.port = question.port;
    if (report->n_claims == 0 && report->n_sockets == 0 &&
        report->n_nat == 0) { /* without an answer stdout stays empty */
        status = dibs_claim_list(cli->handle, &(dibs_filter){ 0 }, count_user, &users, err);
        if (status == DIBS_OK && users.n == 0)
            status = err_set(err, DIBS_NOT_FOUND, "port %u%s%s: no claim and no socket", question.port,
                             proto_text ? "/" : "", proto_text ? dibs_proto_text(proto) : "");
        if (status != DIBS_OK)
            return status;
    }
    if (!cli->json)
        print_report(cli, report, &question);
    else
        print_json(&cli->w, report, question.port);
    status = dibs_claim_list(cli->handle, &(dibs_filter){ 0 }, show_user, &users, err);
    if (cli->json) {
        jsonw_end_array(&cli->w);
        jsonw_end_object(&cli->w);
    }
    return status;
}

static const struct cli_opt opts[] = {
    { .name = "proto", .arg = "PROTO", .help = "only this protocol", .words = PROTO_WORDS },
    { 0 },
};

const struct cli_cmd cmd_who = {
    .name = "who",
    .group = CLI_LOOK,
    .args = "PORT|NAME",
    .summary = "Show who claims a port and who really uses it",
    .details = "A line for each claim, with the directory of its project, then a line for each\n"
               "socket that listens (tcp, sctp) or is bound (udp), with what it is to the\n"
               "claim: its holder, a descendant of it, a process of the kept claim's project,\n"
               "another one of the same user, foreign, or unclaimed; and with its unit or\n"
               "container. Directory and command line are shown to the process's user and to\n"
               "root. Then a line for each NAT rule that sends\n"
               "packets to the port elsewhere, as far as the rules can be read.\n"
               "The last lines are claims that their processes use as PORT ('dibs run --as').\n"
               "NAME is that of a claim. Exit code 5 when there is neither.",
    .examples = "dibs who web\ndibs who :8080 || echo 'nobody'\ndibs who 5353 --proto udp || echo 'nobody'\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .min_args = 1,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
