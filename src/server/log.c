/* SPDX-License-Identifier: MIT */
#include "server/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/text.h"

#include "base/banned.h"

/* Space for a message with a path and an explanation, and a few pairs. */
enum { LINE_MAX_BYTES = 4096, VALUE_MAX_BYTES = 1024 };

static bool needs_no_quotes(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char) *c <= ' ' || *c == '"' || *c == '=' || *c == '\\' || *c == 0x7f)
            return false;
    return text[0] != '\0';
}

static void add_value(struct bytes *line, const char *text)
{
    char safe[VALUE_MAX_BYTES];

    (void) text_safe(text, safe, sizeof safe);
    if (needs_no_quotes(safe)) {
        bytes_add_text(line, safe);
        return;
    }
    bytes_add(line, "\"", 1);
    for (const char *c = safe; *c; c++) {
        if (*c == '"' || *c == '\\')
            bytes_add(line, "\\", 1);
        bytes_add(line, c, 1);
    }
    bytes_add(line, "\"", 1);
}

static enum log_level written = LOG_INFO;

void log_from(enum log_level least)
{
    written = least;
}

void log_line(enum log_level level, const char *const *words)
{
    static const char *const levels[] = { "info", "warning", "error" };
    struct timespec now = { 0 };
    struct tm utc = { 0 };
    char head[64];
    char time[40];
    struct bytes line = { 0 };

    if (level < written)
        return;
    (void) clock_gettime(CLOCK_REALTIME, &now);
    (void) gmtime_r(&now.tv_sec, &utc);
    (void) strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    (void) snprintf(head, sizeof head, "time=%s.%03ldZ level=%s msg=", time, now.tv_nsec / 1000000,
                    levels[level]);
    bytes_add_text(&line, head);
    add_value(&line, words[0]);
    for (size_t i = 1; words[i] && words[i + 1] && line.n < LINE_MAX_BYTES; i += 2) {
        bytes_add(&line, " ", 1);
        bytes_add_text(&line, words[i]);
        bytes_add(&line, "=", 1);
        add_value(&line, words[i + 1]);
    }
    bytes_add(&line, "\n", 1);
    /* One write, so that lines of several writers do not mix. A failure cannot be reported anywhere. */
    if (!line.is_lost && write(STDERR_FILENO, line.at, line.n) < 0)
        line.is_lost = true;
    bytes_done(&line);
}
