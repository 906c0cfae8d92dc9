/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_LOG_H
#define DIBS_SERVER_LOG_H
/* Lines for a log: time=2026-01-31T12:00:00.000Z level=info msg="..." key=value. On standard error, where a
 * service manager takes them from. Tokens are never in one. */
#include "dibs/status.h"

enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR };

/* `words`: the message, then key, value, ..., NULL; values are quoted where they need to be. */
void log_line(enum log_level level, const char *const *words);
#define LOG(level, ...) log_line((level), (const char *const[]){ __VA_ARGS__, NULL })
#endif
