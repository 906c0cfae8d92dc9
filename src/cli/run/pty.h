/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_PTY_H
#define DIBS_CLI_RUN_PTY_H
/* Terminals for the commands of `dibs run --all`: on one, programs write colours. */
#include <stdbool.h>

/* Open a terminal of the size of `like`, without the first `n_prefix` columns. ends[0]: what is written to
 * ends[1], byte by byte; not blocking. It is no process's controlling terminal. False: errno says why. */
bool pty_open(int like, int n_prefix, int ends[2]);
/* Set its size again. */
void pty_resize(int master, int like, int n_prefix);
#endif
