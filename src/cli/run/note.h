/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_NOTE_H
#define DIBS_CLI_RUN_NOTE_H
/* The notes of `dibs run` by which `dibs stop` finds the commands of a project. */
#include "cli/cli.h"
#include "cli/run/launch.h"
#include "runs/record.h"

/* Write the directory of the project's notes. */
dibs_status run_note_directory(struct cli *cli, char out[PATH_MAX], dibs_err *err);
/* Before the fork: give the command an id, which its processes have in their environment. */
void run_note_prepare(struct launch *launch);
/* In the child: set the variable. Returns false on failure. */
bool run_note_set(const struct launch *launch);
/* Note the process before it executes the command. `title`: what `dibs stop` calls it. Without a place for
 * the note the command runs all the same. */
void run_note_write(struct cli *cli, const struct launch *launch, const char *title, bool is_group,
                    pid_t pid);
/* Remove the note of a command that has ended, unless it has left processes behind. */
void run_note_remove(struct cli *cli, const struct launch *launch);
/* Has `dibs stop` asked for the end of this command? */
bool run_note_is_stopped(struct cli *cli, const struct launch *launch);
#endif
