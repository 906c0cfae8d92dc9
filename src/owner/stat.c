/* SPDX-License-Identifier: MIT */
/* The text of /proc/PID/stat and /proc/PID/status. Foreign bytes: a process chooses its own
 * name, and the name may hold blanks, newlines and parentheses. */
#include <string.h>

#include "owner/look.h"
#include "owner/owner.h"

#include "base/banned.h"

/* Tokens after the last ')', counted from 0. */
enum { TOKEN_STATE = 0, TOKEN_PPID = 1, TOKEN_SESSION = 3, TOKEN_THREADS = 17, TOKEN_START = 19, N_TOKENS };

static bool parse_u64(const char *text, const char *end, uint64_t *out)
{
    uint64_t n = 0;

    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(n, (uint64_t) 10, &n) ||
            __builtin_add_overflow(n, (uint64_t) (*text - '0'), &n))
            return false;
    }
    *out = n;
    return true;
}

bool look_number(const char *text, const char *end, int64_t *out)
{
    bool is_negative = text < end && *text == '-';
    uint64_t n = 0;

    if (!parse_u64(text + (is_negative ? 1 : 0), end, &n) || n > INT64_MAX)
        return false;
    *out = is_negative ? -(int64_t) n : (int64_t) n;
    return true;
}

static bool parse_i32(const char *text, const char *end, int32_t *out)
{
    int64_t n = 0;

    if (!look_number(text, end, &n) || n < INT32_MIN || n > INT32_MAX)
        return false;
    *out = (int32_t) n;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n';
}

static bool take_token(int i, const char *text, const char *end, struct owner_stat *stat)
{
    switch (i) {
    case TOKEN_STATE: stat->state = *text; return end - text == 1 && *text > ' ' && *text < 0x7f;
    case TOKEN_PPID: return parse_i32(text, end, &stat->ppid);
    case TOKEN_SESSION: return parse_i32(text, end, &stat->session);
    case TOKEN_THREADS: return look_number(text, end, &stat->num_threads);
    case TOKEN_START: return parse_u64(text, end, &stat->start_ticks);
    default: return true;
    }
}

bool owner_stat_parse(const char *text, size_t len, struct owner_stat *out)
{
    const char *paren = len ? memrchr(text, ')', len) : NULL;
    const char *end = text + len;
    struct owner_stat stat = { 0 };
    int n = 0;

    if (!paren)
        return false;
    for (const char *p = paren + 1; n < N_TOKENS; n++) {
        while (p < end && is_blank(*p))
            p++;
        const char *start = p;
        while (p < end && !is_blank(*p))
            p++;
        if (p == start || !take_token(n, start, p, &stat))
            return false;
    }
    *out = stat;
    return true;
}

bool look_status_line(const char *status, const char *key, const char **value, const char **end)
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
