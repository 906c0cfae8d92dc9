/* SPDX-License-Identifier: MIT */
/* `dibs ls`: list claims page by page, so that neither memory nor a read of the ledger grows with their
 * number, and the audit can call the library between two pages. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/listener.h"
#include "cli/text_table.h"
#include "net/proto.h"

#include "base/banned.h"

#define PAGE 256
#define CELL 2048

struct scratch {
    dibs_claim page[PAGE];
    dibs_port_report report; /* for the audit */
};

struct listing {
    struct cli *cli;
    dibs_filter filter;
    const char *mine;                    /* principal whose claims are shown; NULL: all users' */
    const dibs_project *project;         /* whose claims are shown; NULL: all projects' */
    size_t n_shown, n_users, n_projects; /* shown; hidden: of other users, and of other projects */
    bool is_full;                        /* a full name asks across projects */
    bool is_audit, is_names;
    int64_t boot_ms;
    struct cli_table table;
    struct scratch *scratch;
    size_t n_page;
};

static void listing_auto(struct listing *l)
{
    cli_table_done(&l->table);
    free(l->scratch);
}

static void append(char *out, size_t size, const char *word)
{
    size_t used = strlen(out);

    (void) snprintf(out + used, size - used, "%s%s", used ? "," : "", word);
}

/* Write each protocol and each address once. A claim usually covers every pair of them; `who` and --json
 * show the rare exceptions exactly. */
static void binding_cells(struct cli_table *table, const dibs_claim *claim)
{
    char protos[CELL] = "";
    char addresses[CELL] = "";

    for (size_t i = 0; i < claim->n_bindings; i++) {
        const dibs_binding *b = &claim->bindings[i];
        char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";
        bool is_new_proto = true;
        bool is_new_address = true;

        for (size_t j = 0; j < i; j++) {
            is_new_proto = is_new_proto && claim->bindings[j].proto != b->proto;
            is_new_address = is_new_address && !dibs_address_equal(&claim->bindings[j].address, &b->address);
        }
        dibs_address_format(&b->address, address);
        if (is_new_proto)
            append(protos, sizeof protos, dibs_proto_text(b->proto));
        if (is_new_address)
            append(addresses, sizeof addresses, address);
    }
    cli_table_cell(table, protos);
    cli_table_cell(table, addresses);
}

/* Find the sockets that use the claim. */
static dibs_status find_sockets(struct listing *l, const dibs_claim *claim, dibs_err *err)
{
    dibs_port_report *report = &l->scratch->report;
    /* Without a pool: only the sockets are needed, and the claim's pool may be a range or removed. */
    dibs_status status = dibs_port_explain(
        l->cli->handle, &(dibs_port_question){ claim->port, NULL, claim->bindings, claim->n_bindings },
        report, err);
    size_t n = 0;

    for (size_t i = 0; i < report->n_sockets && status == DIBS_OK; i++)
        if (cli_socket_uses(&report->sockets[i], claim))
            report->sockets[n++] = report->sockets[i];
    report->n_sockets = n;
    return status;
}

static void listener_cell(struct listing *l, const dibs_claim *claim)
{
    char all[CELL] = "";

    for (size_t i = 0; i < l->scratch->report.n_sockets; i++) {
        const dibs_socket *socket = &l->scratch->report.sockets[i];
        char owner[128] = "";
        char word[192] = "";

        cli_socket_owner(socket, owner, sizeof owner);
        (void) snprintf(word, sizeof word, "%s %s", cli_socket_relation(socket, claim, 1), owner);
        if (!strstr(all, word)) /* IPv4 and IPv6 sockets of one server are one entry */
            append(all, sizeof all, word);
    }
    if (l->scratch->report.n_nat > 0)
        append(all, sizeof all, "a NAT rule");
    cli_table_cell(&l->table, all[0] ? all : "nobody");
}

static void claim_row(struct listing *l, const dibs_claim *claim)
{
    char text[CELL] = "";

    cli_table_number(&l->table, claim->port);
    if (claim->as_port)
        cli_table_number(&l->table, claim->as_port);
    else
        cli_table_cell(&l->table, "");
    binding_cells(&l->table, claim);
    cli_table_cell(&l->table, claim->name);
    cli_table_cell(&l->table, !claim->is_exclusive         ? "declared"
                              : claim->kind == DIBS_STATIC ? "static"
                                                           : "dynamic");
    cli_holder(claim, l->boot_ms, text, sizeof text);
    cli_table_cell(&l->table, text);
    cli_table_cell(&l->table, cli_state(claim));
    cli_table_cell(&l->table, wire_hold_text(claim));
    cli_time(l->cli, claim->created_ms, text);
    cli_table_cell(&l->table, text);
    cli_table_cell(&l->table, claim->pool);
    if (l->is_audit)
        listener_cell(l, claim);
}

static void claim_json(struct listing *l, const dibs_claim *claim)
{
    struct jsonw *w = &l->cli->w;

    if (!l->is_audit || cli_has(l->cli, "brief")) {
        cli_claim_json(l->cli, claim);
        return;
    }
    jsonw_object(w);
    wire_claim_members(w, claim, true);
    cli_write_sockets(w, &l->scratch->report, claim, 1);
    wire_report_nat(w, &l->scratch->report);
    jsonw_end_object(w);
}

/* Does the claim belong to another project? One of the caller's without a project belongs to all of them:
 * 'dibs release' ends it from anywhere. */
static bool is_elsewhere(const struct listing *l, const dibs_claim *claim)
{
    const dibs_project *project = l->project;
    size_t n = strlen(project->group);

    if (project->dir[0] && claim->project[0])
        return strcmp(claim->project, project->dir) != 0;
    if (!project->dir[0] && claim->name[0])
        return strncmp(claim->name, project->group, n) != 0 || claim->name[n] != '/';
    return strcmp(claim->principal, dibs_principal_of(l->cli->handle)) != 0;
}

static dibs_status show(struct listing *l, const dibs_claim *claim, dibs_err *err)
{
    bool is_others = l->mine && strcmp(claim->principal, l->mine) != 0;

    if (is_others || (l->project && is_elsewhere(l, claim))) {
        (*(is_others ? &l->n_users : &l->n_projects))++;
        return DIBS_OK;
    }
    l->n_shown++;
    if (l->is_names) {
        char safe[CELL] = "";

        if (claim->name[0] && l->cli->json)
            jsonw_string(&l->cli->w, claim->name);
        else if (claim->name[0])
            (void) printf("%s\n", text_safe(claim->name, safe, sizeof safe));
        return DIBS_OK;
    }
    if (l->is_audit) {
        dibs_status status = find_sockets(l, claim, err);

        if (status != DIBS_OK)
            return status;
    }
    if (l->cli->json)
        claim_json(l, claim);
    else
        claim_row(l, claim);
    return DIBS_OK;
}

static bool collect(void *ctx, const dibs_claim *claim)
{
    struct listing *l = ctx;

    l->scratch->page[l->n_page++] = *claim;
    return l->n_page < PAGE;
}

static dibs_status fetch(struct listing *l, dibs_err *err)
{
    l->n_page = 0;
    l->filter.limit = PAGE;
    return dibs_claim_list(l->cli->handle, &l->filter, collect, l, err);
}

/* Show the fetched page and all pages after it. Terminates because ids rise from page to page. */
static dibs_status show_claims(struct listing *l, dibs_err *err)
{
    dibs_status status = DIBS_OK;

    while (status == DIBS_OK && l->n_page > 0) {
        bool is_last = l->n_page < PAGE;

        for (size_t i = 0; i < l->n_page && status == DIBS_OK; i++)
            status = show(l, &l->scratch->page[i], err);
        if (is_last)
            break;
        l->filter.after_id = l->scratch->page[PAGE - 1].id;
        if (status == DIBS_OK)
            status = fetch(l, err);
    }
    return status;
}

/* List a socket that a repair would find without a claim; a dry run changes nothing. */
static bool unclaimed(void *ctx, const dibs_repair_item *item)
{
    struct listing *l = ctx;
    struct jsonw *w = &l->cli->w;
    char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";

    if (item->kind != DIBS_REPAIR_UNCLAIMED && item->kind != DIBS_REPAIR_RESTORED)
        return true;
    if ((l->filter.port && l->filter.port != item->port) ||
        (l->filter.proto && l->filter.proto != item->binding.proto))
        return true;
    dibs_address_format(&item->binding.address, address);
    if (l->cli->json) {
        jsonw_object(w);
        jsonw_key_string(w, "proto", dibs_proto_text(item->binding.proto));
        jsonw_key_string(w, "address", address);
        jsonw_key_uint(w, "port", item->port);
        jsonw_key_string(w, "text", item->text);
        jsonw_end_object(w);
        return true;
    }
    const char *const cells[] = {
        "", dibs_proto_text(item->binding.proto), address,   "", "", "", "unclaimed", "",
        "", l->filter.pool ? l->filter.pool : "", item->text
    };

    cli_table_number(&l->table, item->port);
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        cli_table_cell(&l->table, cells[i]);
    return true;
}

static dibs_status show_unclaimed(struct listing *l, dibs_err *err)
{
    dibs_repair_plan plan = { .pool = l->filter.pool, .is_dry_run = true };

    if (l->filter.name_prefix)
        return DIBS_OK; /* sockets without a claim have no name to print */
    return dibs_repair(l->cli->handle, &plan, unclaimed, l, err);
}

static dibs_status print_all(struct listing *l, dibs_err *err)
{
    static const struct cli_column columns[] = {
        { .title = "PORT" },
        { .title = "AS", .rank = 3, .is_rare = true },
        { .title = "PROTO", .rank = 4 },
        { .title = "ADDRESS", .asks = 15, .rank = 5 },
        { .title = "NAME", .asks = 24 },
        { .title = "KIND", .rank = 6 },
        { .title = "HOLDER", .asks = 18, .rank = 2 },
        { .title = "STATE", .rank = 1, .is_state = true },
        { .title = "HOLD", .rank = 8 },
        { .title = "SINCE", .rank = 3 },
        { .title = "POOL", .asks = 12, .rank = 7 },
        { .title = "LISTENER", .asks = 24 },
    };
    struct jsonw *w = &l->cli->w;
    bool is_table = !l->cli->json && !l->is_names;
    bool has_parts = l->cli->json && l->is_audit;
    dibs_status status = fetch(l, err); /* before any output: an unreadable ledger leaves stdout empty */

    if (status != DIBS_OK)
        return status;
    if (is_table)
        cli_table_begin(&l->table, columns, l->is_audit ? 12 : 11);
    if (has_parts) {
        jsonw_object(w);
        jsonw_key(w, "claims");
    }
    cli_begin_list(l->cli);
    status = show_claims(l, err);
    if (status == DIBS_OK && has_parts) {
        jsonw_end_array(w);
        jsonw_key_array(w, "unclaimed");
    }
    if (status == DIBS_OK && l->is_audit)
        status = show_unclaimed(l, err);
    if (status != DIBS_OK)
        return status;
    cli_end_list(l->cli);
    if (has_parts)
        jsonw_end_object(w);
    return is_table ? cli_table_print(&l->table, stdout, err) : DIBS_OK;
}

static dibs_status filter_from(struct cli *cli, dibs_filter *filter, char name[DIBS_NAME_MAX + 1],
                               bool *is_full, dibs_err *err)
{
    const char *proto = cli_value(cli, "proto");
    const char *port = cli_value(cli, "port");
    dibs_which which = { 0 };
    dibs_status status = DIBS_OK;

    filter->pool = cli_value(cli, "pool");
    if (proto)
        status = dibs_proto_parse(proto, &filter->proto, err);
    if (status == DIBS_OK && port)
        status = dibs_port_parse(port, &filter->port, err);
    if (status != DIBS_OK || cli->argc == 0)
        return status;
    status = cli_which(cli, cli->argv[0], &which, name, err);
    if (status != DIBS_OK)
        return status;
    if (which.name) {
        *is_full = cli->argv[0][0] == '/' || (cli->project.dir[0] && !which.project);
        filter->name_prefix = name;
        return dibs_name_locate(cli->handle, name, which.project, name, err);
    }
    if (port && filter->port != which.port)
        return err_set(err, DIBS_INVALID, "two different ports: %u and %u", filter->port, which.port);
    filter->port = which.port;
    return DIBS_OK;
}

/* Say what is not shown, to a person, or when nothing is. --names is for completion. */
static void note_hidden(const struct listing *l)
{
    size_t n = l->n_projects + l->n_users;
    char others[64] = "other users";

    if (l->is_names || (l->n_shown > 0 && !isatty(STDERR_FILENO)))
        return;
    if (l->n_projects > 0 && l->n_users > 0)
        (void) snprintf(others, sizeof others, "other projects and %zu of other users", l->n_users);
    else if (l->n_projects > 0)
        (void) text_copy(others, sizeof others, n == 1 ? "another project" : "other projects");
    else if (n == 1)
        (void) text_copy(others, sizeof others, "another user");
    if (n > 0)
        cli_note(l->cli, "%zu claim%s of %s not shown; 'dibs ls --all' shows all",
                 l->n_projects > 0 ? l->n_projects : l->n_users, n == 1 ? "" : "s", others);
    if (l->n_shown == 0 && isatty(STDERR_FILENO))
        cli_note(l->cli, l->cli->manifest
                             ? "no claims here; 'dibs up' claims the ports of the manifest"
                             : "no claims here; 'dibs get NAME' and 'dibs run COMMAND' make one");
}

/* Select the project that the caller is in, unless a port or a full name asks across projects. */
static void select_project(struct listing *l)
{
    struct cli *cli = l->cli;
    bool is_asked = l->filter.port || l->is_full;

    /* A directory that is gone, or whose path is too long, is no project. */
    if (!cli_has(cli, "all") && !is_asked && cli_project(cli, NULL) == DIBS_OK && cli->project.is_marked)
        l->project = &cli->project;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    AUTO(listing_auto)
    struct listing l = { .cli = cli,
                         .is_audit = cli_has(cli, "audit"),
                         .is_names = cli_has(cli, "names"),
                         .boot_ms = dibs_boot_ms(cli->handle) };
    char name[DIBS_NAME_MAX + 1] = "";
    dibs_status status = cli_check_brief(cli, err);

    if (status == DIBS_OK)
        status = filter_from(cli, &l.filter, name, &l.is_full, err);

    if (status != DIBS_OK)
        return status;
    if (l.is_names && l.is_audit)
        return err_set(err, DIBS_INVALID, "--names and --audit exclude each other");
    l.filter.judge = !l.is_names;
    if (!cli_has(cli, "all") && geteuid() != 0)
        l.mine = dibs_principal_of(cli->handle);
    select_project(&l);
    l.scratch = calloc(1, sizeof *l.scratch);
    if (!l.scratch)
        return err_set(err, DIBS_FAILURE, "out of memory");
    status = print_all(&l, err);
    if (status == DIBS_OK)
        note_hidden(&l);
    return status;
}

static const struct cli_opt opts[] = {
    { .name = "audit", .help = "compare with live sockets; also list sockets without a claim" },
    { .name = "all",
      .letter = 'a',
      .help = "also claims of other projects and users (root always sees all users)" },
    { .name = "pool", .arg = "POOL", .help = "only claims of this pool" },
    { .name = "proto", .arg = "PROTO", .help = "only claims with this protocol", .words = PROTO_WORDS },
    { .name = "port", .arg = "PORT", .help = "only claims of this port" },
    { .name = "names", .help = "only the names, one a line" },
    CLI_BRIEF_OPT,
    { 0 },
};

const struct cli_cmd cmd_ls = {
    .name = "ls",
    .group = CLI_LOOK,
    .args = "[NAME_PREFIX|PORT]",
    .summary = "List claims",
    .details = "A row for each claim. In a project, which a manifest or .git makes one, these\n"
               "are its claims and those without a project; elsewhere, all of yours. STATE is\n"
               "alive, dead (the next reap ends it), unknown (the state of its holder is not\n"
               "certain; the claim stays), orphan (the holder is dead, its socket is still\n"
               "bound) or kept (no holder, stays until released). HOLD is what the kernel does\n"
               "to keep the port for its owner: none, guard, fd or enforce. AS is the number\n"
               "by which the processes of its 'dibs run --as' know it. NAME_PREFIX is\n"
               "whole leading parts of a name, relative to the current group; /NAME_PREFIX,\n"
               "one that begins with a group as shown here, or a PORT is looked up in all\n"
               "projects.\n"
               "\n"
               "--audit adds which process listens: the holder, one of the kept claim's\n"
               "project, another one of the same user, or a foreign one. Sockets of the pool\n"
               "without a claim, and ports of it that NAT rules publish, follow.",
    .examples = "dibs ls\ndibs ls --json\ndibs ls --audit --pool default\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
