/* SPDX-License-Identifier: MIT */
#include "cli/run/note.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "runs/group.h"
#include "runs/stop.h"

#include "base/banned.h"

enum { PRUNE_AT = 32 }; /* records of one project, beyond which those of ended commands are looked for */

dibs_status run_note_directory(struct cli *cli, char out[PATH_MAX], dibs_err *err)
{
    dibs_status s = cli_project(cli, err);
    const char *project = cli->project.dir[0] ? cli->project.dir : cli->project.group;

    return s ? s : run_directory(project, out, PATH_MAX, err);
}

void run_note_prepare(struct launch *launch)
{
    if (run_id(launch->id, NULL) != DIBS_OK)
        launch->id[0] = '\0';
}

bool run_note_set(const struct launch *launch)
{
    const char *outer = getenv(RUN_VARIABLE);
    char words[4 * (RUN_ID_MAX + 1) + 1];

    if (!launch->id[0])
        return true;
    /* A run within a run belongs to both. */
    if (outer && *outer && strlen(outer) + strlen(launch->id) + 2 <= sizeof words)
        (void) snprintf(words, sizeof words, "%s:%s", outer, launch->id);
    else
        (void) text_copy(words, sizeof words, launch->id);
    return setenv(RUN_VARIABLE, words, 1) == 0;
}

void run_note_write(struct cli *cli, const struct launch *launch, const char *title, bool is_group, pid_t pid)
{
    struct run_record record = { .is_group = is_group };
    char directory[PATH_MAX];
    dibs_err err = { 0 };
    dibs_status s = DIBS_OK;

    if (!launch->id[0])
        return;
    (void) text_copy(record.id, sizeof record.id, launch->id);
    (void) text_copy(record.title, sizeof record.title, title);
    if (strchr(record.title, '\n'))
        record.title[0] = '\0';
    s = run_note_directory(cli, directory, &err);
    if (s == DIBS_OK)
        s = run_record_write(directory, &record, pid, &err);
    if (s != DIBS_OK)
        cli_note(cli, "'dibs stop' will not find this command: %s", err.msg);
    else if (launch->id[0] == '0') /* one in sixteen: a cold command must not read the directory */
        runs_prune(directory, PRUNE_AT);
}

void run_note_remove(struct cli *cli, const struct launch *launch)
{
    siginfo_t info = { 0 };
    char directory[PATH_MAX];
    /* Without any child nothing is left; that is cheaper to know than which processes there are. */
    bool is_alone = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;

    if (launch->id[0] && (is_alone || run_count_marked(launch->id) == 0) &&
        run_note_directory(cli, directory, NULL) == DIBS_OK)
        run_record_remove(directory, launch->id);
}

bool run_note_is_stopped(struct cli *cli, const struct launch *launch)
{
    char directory[PATH_MAX];

    return launch->id[0] && run_note_directory(cli, directory, NULL) == DIBS_OK &&
           run_record_is_marked(directory, launch->id);
}
