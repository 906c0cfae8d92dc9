/* SPDX-License-Identifier: MIT */
#ifndef DIBS_PORTSERVER_PID_H
#define DIBS_PORTSERVER_PID_H
/* A request of Google's portserver protocol: the number of a process, and nothing else. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is longer is refused, whatever it says. */
#define PORTSERVER_REQUEST_MAX 20

/* As their server reads it (Python's int() of bytes): white space around it, a sign before it, leading zeros
 * and single underscores between digits are allowed. What is larger than INT64_MAX becomes that. */
bool portserver_pid_parse(const char *text, size_t n, int64_t *out);
#endif
