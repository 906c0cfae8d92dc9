/* SPDX-License-Identifier: MIT */
#ifndef DIBS_RUNS_RECORD_H
#define DIBS_RUNS_RECORD_H
/* What `dibs run` has started: a file for each command, so that `dibs stop` finds its processes also when
 * dibs itself was killed. The files of a project are in one directory, STATE/dibs/runs/PROJECT. */
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "dibs/claim.h"

enum {
    RUN_ID_MAX = 32, /* hexadecimal digits of 128 random bits */
    RUN_TITLE_MAX = 511,
    RUN_RECORD_MAX = 2048, /* bytes of a file */
    RUN_RECORDS_MAX = 4096 /* of one project; far more than its processes at a time */
};

/* The words of this variable are the ids of the runs to which a process belongs. */
#define RUN_VARIABLE "DIBS_RUN"

struct run_record {
    char id[RUN_ID_MAX + 1];
    char title[RUN_TITLE_MAX + 1]; /* "web", "web/1"; empty: a command without a name */
    dibs_process process;          /* that of the command */
    dibs_process runner;           /* that of dibs */
    bool is_group;                 /* the command leads a process group of its own, and dibs ends the group */
};

/* Write the directory for the records of a project: `project` is its directory, or else the name of its
 * group. NOT_FOUND: the user has no directory for state. */
dibs_status run_directory(const char *project, char *out, size_t size, dibs_err *err);
/* Make a new id. */
dibs_status run_id(char out[RUN_ID_MAX + 1], dibs_err *err);
/* Identify the process `pid` and dibs itself, and write the record, whole or not at all. */
dibs_status run_record_write(const char *directory, struct run_record *record, pid_t pid, dibs_err *err);
/* Remove the record. The directory stays: a cold command would have to make it again. */
void run_record_remove(const char *directory, const char *id);
/* Mark the record: its command is about to be stopped on request. */
dibs_status run_record_mark(const char *directory, const char *id, dibs_err *err);
bool run_record_is_marked(const char *directory, const char *id);
bool run_record_is_there(const char *directory, const char *id);

/* Parse the text of a record; public for tests. */
bool run_record_parse(const char *text, size_t len, struct run_record *out);
/* List the records of this boot and pid namespace. Those of others that cannot be valid any more are removed.
 * The caller frees *out. */
dibs_status run_records_list(const char *directory, struct run_record **out, size_t *n, dibs_err *err);
#endif
