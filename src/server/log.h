/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_LOG_H
#define DIBS_SERVER_LOG_H
/* Log lines on standard error, for a service manager: time=2026-01-31T12:00:00.000Z level=info msg="..."
 * key=value. No line contains a token. */
#include "dibs/status.h"

enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR };

/* Write a line. `words`: the message, then key, value, ..., NULL; values are quoted where needed. */
void log_line(enum log_level level, const char *const *words);
/* Write only lines of this level and above from now on. */
void log_from(enum log_level least);
#define LOG(level, ...) log_line((level), (const char *const[]){ __VA_ARGS__, NULL })
#endif
