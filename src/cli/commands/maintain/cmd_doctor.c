/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/listener.h"
#include "cli/terminal.h"
#include "codec/wire.h"
#include "workload/strangers.h"

#include "base/banned.h"

struct visit {
    struct cli *cli;
    size_t n_problems;
    char topic[sizeof((dibs_finding *) 0)->topic];
};

static const char *const marks[] = {
    [DIBS_FINE] = "ok", [DIBS_NOTE] = "note", [DIBS_WARNING] = "warn", [DIBS_PROBLEM] = "FAIL"
};

static bool print_finding(void *ctx, const dibs_finding *finding)
{
    struct visit *v = ctx;
    char text[DIBS_ERR_MSG_MAX] = "";
    char people[DIBS_ERR_MSG_MAX] = "";
    char topic[sizeof v->topic] = "";

    v->n_problems += finding->severity == DIBS_PROBLEM;
    if (v->cli->json) {
        wire_finding(&v->cli->w, finding);
        return true;
    }
    if (strcmp(v->topic, finding->topic) != 0) {
        (void) printf("%s%s\n", v->topic[0] ? "\n" : "", text_safe(finding->topic, topic, sizeof topic));
        (void) snprintf(v->topic, sizeof v->topic, "%s", finding->topic);
    }
    (void) fputs("  ", stdout);
    size_t width = terminal_print_word(stdout, marks[finding->severity]);

    (void) printf("%*s%s\n", (int) (6 - width), "",
                  text_safe(cli_for_people(v->cli, finding->text, people, sizeof people), text, sizeof text));
    if (finding->advice[0])
        (void) printf("        -> %s\n", text_safe(finding->advice, text, sizeof text));
    return true;
}

static void check_manifest(struct visit *v)
{
    const struct cli *cli = v->cli;
    dibs_status code = cli->manifest ? DIBS_OK : cli->no_manifest.code;
    dibs_finding finding = { .severity = code == DIBS_DENIED ? DIBS_WARNING : DIBS_PROBLEM,
                             .topic = "manifest",
                             .advice = "repair or remove it: until then dibs does not claim by it" };

    if (code == DIBS_OK || code == DIBS_NOT_FOUND)
        return;
    (void) snprintf(finding.text, sizeof finding.text, "%s", cli->no_manifest.msg);
    (void) print_finding(v, &finding);
}

enum { STRANGERS_SHOWN = 20 };

struct used {
    struct strangers *strangers;
    dibs_claim claims[STRANGERS_SHOWN];
    size_t n;
};

static bool note_used(void *ctx, const dibs_claim *claim)
{
    struct used *used = ctx;

    if (claim->holder == DIBS_HELD_BY_NOBODY && strangers_is_used(used->strangers, claim))
        used->claims[used->n++] = *claim;
    return used->n < STRANGERS_SHOWN;
}

/* Report kept ports on which another project's process listens. A ledger that cannot be read has been
 * reported. */
static void check_strangers(struct visit *v)
{
    struct cli *cli = v->cli;
    AUTO(strangers_free) struct strangers *strangers = strangers_new();
    AUTO(free_auto) struct used *used = calloc(1, sizeof *used);
    dibs_finding finding = { .severity = DIBS_WARNING,
                             .topic = "claim",
                             .advice =
                                 "stop that process, or give the name another port: 'dibs up --move' or "
                                 "'dibs release' in its project" };
    char who[CLI_SOCKET_BYTES];
    dibs_socket socket;

    if (!strangers || !used || cli_open(cli, NULL) != DIBS_OK)
        return;
    used->strangers = strangers;
    dibs_filter filter = { .principal = geteuid() == 0 ? NULL : dibs_principal_of(cli->handle) };
    if (dibs_claim_list(cli->handle, &filter, note_used, used, NULL) != DIBS_OK)
        return;
    for (size_t i = 0; i < used->n; i++) {
        const dibs_claim *claim = &used->claims[i];

        if (!strangers_find(strangers, cli->handle, cli->manifest, claim, &socket))
            continue;
        (void) snprintf(finding.text, sizeof finding.text,
                        "port %u of '%.300s' is in use by a process that is not of its project: %s",
                        claim->port, claim->name, cli_describe_socket(&socket, who));
        (void) print_finding(v, &finding);
    }
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct visit v = { .cli = cli };

    cli_begin_list(cli);
    check_manifest(&v);
    dibs_status status = dibs_doctor(&cli->settings, cli_has(cli, "fix"), print_finding, &v, err);

    if (status == DIBS_OK)
        check_strangers(&v);

    cli_end_list(cli);
    if (status != DIBS_OK)
        return status;
    if (v.n_problems > 0)
        return err_set(err, DIBS_FAILURE, "%zu problem%s found; advice stands below each", v.n_problems,
                       v.n_problems == 1 ? "" : "s");
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "fix", .help = "set a damaged ledger aside and rebuild what can be read" },
    { 0 },
};

const struct cli_cmd cmd_doctor = {
    .name = "doctor",
    .group = CLI_MAINTAIN,
    .args = "",
    .summary = "Check ledger, host, claims and settings",
    .details = "Findings by topic, marked ok, note, warn or FAIL, each with what to do. Shows\n"
               "every setting with its value and where it comes from. Exit code 1 when a\n"
               "problem remains, or --fix could not save everything.",
    .examples = "dibs doctor\ndibs doctor --json\n",
    .opts = opts,
    .flags = CLI_SLOW | CLI_REPORTS_MANIFEST,
    .run = run,
};
