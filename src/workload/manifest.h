/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_MANIFEST_H
#define DIBS_WORKLOAD_MANIFEST_H
/* A project's manifest, `dibs.yaml` or `dibs.json`: its group, and the project's settings.
 * share/dibs.schema.json describes the same format for editors. */
#include "workload/workload.h"

enum { MANIFEST_BYTES_MAX = 4 << 20 }; /* ten times the size of 4096 claims */

/* Parse and check a manifest. Messages begin with "NAME:LINE:COLUMN: ". The caller owns *out. */
dibs_status workload_manifest_parse(const char *name, const char *text, size_t len,
                                    struct workload_group **out, dibs_err *err);
/* Read and parse a file. It can name commands to run, so it is DENIED when it belongs to neither the caller
 * nor root, or when every user can write it. NOT_FOUND: no such file. */
dibs_status workload_manifest_read(const char *path, struct workload_group **out, dibs_err *err);
/* Find the manifest of a directory (NULL: the working directory) or of its nearest parent with one.
 * NOT_FOUND, or INVALID when one directory has both kinds. */
dibs_status workload_manifest_find(const char *dir, char *path, size_t size, dibs_err *err);
#endif
