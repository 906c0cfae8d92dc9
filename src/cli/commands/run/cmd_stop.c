/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/claim_options.h"
#include "cli/manifest.h"
#include "cli/run/note.h"
#include "cli/target.h"
#include "runs/stop.h"

#include "base/banned.h"

/* Is the first name the second one, or whole leading parts of it? */
static bool leads(const char *first, const char *name)
{
    size_t len = strlen(first);

    return strncmp(name, first, len) == 0 && (name[len] == '/' || !name[len]);
}

/* Is the run with this title meant by "web", "web/1", or by the name of a port of its role, "web/1/-/http"?
 */
static bool is_meant(const struct cli *cli, const char *title, const char *typed)
{
    char name[DIBS_NAME_MAX + 1];

    return leads(typed, title) || (title[0] && leads(title, typed) && cli_manifest_name(cli, typed, name));
}

static const char *shown(const char *title)
{
    return title[0] ? title : "a command";
}

/* Explain a name that nothing runs as: it is a role, which is as it should be, or a mistake. */
static dibs_status none_runs(struct cli *cli, const char *typed, const struct run_record *records, size_t n,
                             dibs_err *err)
{
    struct suggest best = { .wanted = typed };
    char hint[SUGGEST_HINT_MAX];
    char role[DIBS_NAME_MAX + 1];

    (void) text_copy(role, sizeof role, typed);
    role[strcspn(role, "/")] = '\0';
    if (cli->manifest &&
        (workload_role_typed(cli->manifest, typed) || workload_role_typed(cli->manifest, role))) {
        cli_note(cli, "'%s' does not run", typed);
        return DIBS_OK;
    }
    for (size_t i = 0; i < n; i++)
        suggest_offer(&best, records[i].title);
    for (size_t i = 0; cli->manifest && i < cli->manifest->n_roles; i++)
        suggest_offer(&best, cli->manifest->roles[i].name);
    return err_set(err, DIBS_NOT_FOUND, "'dibs run' has started nothing as '%.80s' in this project%s", typed,
                   suggest_format(&best, hint, sizeof hint));
}

static void print_json(struct cli *cli, const struct run_stop *stop)
{
    jsonw_object(&cli->w);
    jsonw_key_string(&cli->w, "name", stop->record->title);
    jsonw_key_uint(&cli->w, "pid", (uint64_t) stop->record->process.pid);
    jsonw_key_bool(&cli->w, "was_running", stop->was_running);
    jsonw_key_bool(&cli->w, "was_killed", stop->was_killed);
    jsonw_end_object(&cli->w);
}

static dibs_status report(struct cli *cli, const struct run_stop *stops, size_t n, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    cli_begin_list(cli);
    for (size_t i = 0; i < n; i++) {
        const struct run_stop *stop = &stops[i];

        if (cli->json)
            print_json(cli, stop);
        if (stop->left && s == DIBS_OK)
            s = err_set(err, stop->why ? stop->why : DIBS_FAILURE,
                        stop->why ? "stop: process %d of %s may not be signalled: it belongs to another user"
                                  : "stop: process %d of %s does not end, not even by SIGKILL",
                        (int) stop->left, shown(stop->record->title));
        else if (!stop->left && stop->was_running)
            cli_note(cli, "stopped %s (pid %d)%s", shown(stop->record->title),
                     (int) stop->record->process.pid, stop->was_killed ? "; it had to be killed" : "");
    }
    cli_end_list(cli);
    return s;
}

static bool ignore(void *ctx, const dibs_claim *claim)
{
    (void) ctx;
    (void) claim;
    return true;
}

/* End the claims of commands whose dibs was gone: their holders are dead now. A failure does no harm: a dead
 * holder's claim gives way to the next one. */
static void reap(struct cli *cli, const struct run_stop *stops, size_t n)
{
    bool is_due = false;
    dibs_err err = { 0 };

    for (size_t i = 0; i < n; i++)
        is_due = is_due || (stops[i].is_orphan && !stops[i].left);
    if (is_due && cli_open(cli, &err) == DIBS_OK &&
        dibs_reap(cli->handle, 0, ignore, NULL, &n, &err) != DIBS_OK)
        cli_note(cli, "the claims end with their next use: %s", err.msg);
}

/* The runs of a project, and those of them that are meant. */
struct meant {
    char directory[PATH_MAX]; /* of the project's records */
    struct run_record *records;
    struct run_stop *stops;
    size_t n_records, n;
};

static void meant_auto(struct meant *meant)
{
    free(meant->records);
    free(meant->stops);
}

/* Find the runs that `typed` (NULL: all) means among those of out->directory. */
static dibs_status find(const struct cli *cli, const char *typed, struct meant *out, dibs_err *err)
{
    dibs_status s = run_records_list(out->directory, &out->records, &out->n_records, err);

    if (s != DIBS_OK)
        return s;
    out->stops = calloc(out->n_records + 1, sizeof *out->stops);
    if (!out->stops)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < out->n_records; i++)
        if (!typed || is_meant(cli, out->records[i].title, typed))
            out->stops[out->n++].record = &out->records[i];
    return DIBS_OK;
}

/* Find the runs of a full name whose group --group had chosen: it is a project of its own. False: none. */
static bool find_in_group(const struct cli *cli, const char *typed, struct meant *out)
{
    AUTO(meant_auto) struct meant found = { .n = 0 };
    char group[DIBS_NAME_MAX + 1];
    const char *slash = strchr(typed, '/');

    if (!slash || slash == typed || !text_copy(group, sizeof group, typed))
        return false;
    group[slash - typed] = '\0';
    if (run_directory(group, found.directory, sizeof found.directory, NULL) != DIBS_OK ||
        find(cli, slash + 1, &found, NULL) != DIBS_OK || found.n == 0)
        return false;
    meant_auto(out);
    *out = found;
    found = (struct meant){ .n = 0 };
    return true;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    AUTO(meant_auto) struct meant meant = { .n = 0 };
    const char *typed = cli->argc ? cli_in_project(cli, cli->argv[0]) : NULL;
    dibs_status s = run_note_directory(cli, meant.directory, err);

    if (s == DIBS_OK)
        s = find(cli, typed, &meant, err);
    if (s != DIBS_OK)
        return s;
    if (meant.n == 0 && typed) {
        s = none_runs(cli, typed, meant.records, meant.n_records, err);
        if (s != DIBS_OK && !find_in_group(cli, typed, &meant))
            return s;
    } else if (meant.n == 0) {
        cli_note(cli, "'dibs run' has started nothing here that runs");
    }
    s = runs_stop(meant.directory, meant.stops, meant.n, err);
    if (s != DIBS_OK)
        return s;
    reap(cli, meant.stops, meant.n);
    return report(cli, meant.stops, meant.n, err);
}

const struct cli_cmd cmd_stop = {
    .name = "stop",
    .group = CLI_RUN,
    .args = "[ROLE[/INSTANCE] | NAME]",
    .summary = "End what 'dibs run' has started in this project",
    .details = "Ends the commands that 'dibs run' has started for this project, with all\n"
               "processes that they have started: by SIGTERM, and by SIGKILL what is left\n"
               "after 10 seconds. It returns when none of them is left. Also works when dibs\n"
               "itself was killed. Processes that others have started, also with a port of\n"
               "this project, are never touched.\n"
               "\n"
               "With ROLE, or the name of the first port of a command without a role (-p),\n"
               "only that; the other roles of its 'dibs run --all' go on. Nothing there to\n"
               "stop is no failure. What was run with --group is stopped with it, too.",
    .examples = "dibs stop\n",
    .flags = CLI_SILENT | CLI_REPORTS_MANIFEST,
    .max_args = 1,
    .args_words = ":roles",
    .run = run,
};
