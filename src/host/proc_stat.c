/* SPDX-License-Identifier: MIT */
/* The text of /proc/PID/stat and /proc/PID/status. Foreign bytes: a process chooses its own
 * name, and the name may hold blanks, newlines and parentheses. */
#include <string.h>

#include "base/text.h"
#include "host/proc_read.h"
#include "host/process.h"

#include "base/banned.h"

/* Tokens after the last ')', counted from 0. */
enum { TOKEN_STATE = 0, TOKEN_PPID = 1, TOKEN_SESSION = 3, TOKEN_THREADS = 17, TOKEN_START = 19, N_TOKENS };

bool proc_next_word(const char **p, const char *end, const char **word)
{
    static const char blanks[] = " \t\n";

    while (*p < end && memchr(blanks, **p, sizeof blanks - 1))
        ++*p;
    *word = *p;
    while (*p < end && !memchr(blanks, **p, sizeof blanks - 1))
        ++*p;
    return *p > *word;
}

bool proc_number(const char *text, const char *end, int64_t *out)
{
    bool is_negative = text < end && *text == '-';
    uint64_t n = 0;

    if (!text_number(text + is_negative, (size_t) (end - text) - is_negative, INT64_MAX, &n))
        return false;
    *out = is_negative ? -(int64_t) n : (int64_t) n;
    return true;
}

static bool parse_i32(const char *text, const char *end, int32_t *out)
{
    int64_t n = 0;

    if (!proc_number(text, end, &n) || n < INT32_MIN || n > INT32_MAX)
        return false;
    *out = (int32_t) n;
    return true;
}

static bool take_token(int i, const char *text, const char *end, struct proc_stat *stat)
{
    switch (i) {
    case TOKEN_STATE: stat->state = *text; return end - text == 1 && *text > ' ' && *text < 0x7f;
    case TOKEN_PPID: return parse_i32(text, end, &stat->ppid);
    case TOKEN_SESSION: return parse_i32(text, end, &stat->session);
    case TOKEN_THREADS: return proc_number(text, end, &stat->num_threads);
    case TOKEN_START: return text_number(text, (size_t) (end - text), UINT64_MAX, &stat->start_ticks);
    default: return true;
    }
}

bool proc_stat_parse(const char *text, size_t len, struct proc_stat *out)
{
    const char *paren = len ? memrchr(text, ')', len) : NULL;
    const char *p = paren ? paren + 1 : text;
    const char *word = NULL;
    struct proc_stat stat = { 0 };

    if (!paren)
        return false;
    for (int n = 0; n < N_TOKENS; n++)
        if (!proc_next_word(&p, text + len, &word) || !take_token(n, word, p, &stat))
            return false;
    *out = stat;
    return true;
}

bool proc_status_line(const char *status, const char *key, const char **value, const char **end)
{
    size_t key_len = strlen(key);

    /* The kernel escapes newlines in the Name line, so a line start is a real one. */
    for (const char *line = strchr(status, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ':') {
            *value = line + key_len + 1;
            *end = strchrnul(*value, '\n');
            return true;
        }
    }
    return false;
}
