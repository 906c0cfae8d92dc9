/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_MANIFEST_H
#define DIBS_WORKLOAD_MANIFEST_H
/* A project's manifest, `dibs.yaml` or `dibs.json`: its group, and the settings that a project may give.
 * share/dibs.schema.json says the same for editors. */
#include "workload/workload.h"

enum { MANIFEST_BYTES_MAX = 4 << 20 }; /* 4096 claims need a tenth of it */

/* `name` stands for the file in messages, which begin "NAME:LINE:COLUMN: ". On OK *out has passed
 * workload_check() and is the caller's. */
dibs_status workload_manifest_parse(const char *name, const char *text, size_t len,
                                    struct workload_group **out, dibs_err *err);
/* The same for a file. It can name commands to run, so it is DENIED when it belongs to neither the caller nor
 * root, or when every user can write it. NOT_FOUND when it is not there. */
dibs_status workload_manifest_read(const char *path, struct workload_group **out, dibs_err *err);
/* The manifest of a directory (NULL: the working directory), or of the nearest one above that has one.
 * NOT_FOUND, or INVALID when one directory has both kinds. */
dibs_status workload_manifest_find(const char *dir, char *path, size_t size, dibs_err *err);
#endif
