/* SPDX-License-Identifier: MIT */
#include "portserver/pid.h"

#include "base/banned.h"

/* Their ASCII white space; isspace() would ask the locale. */
static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool portserver_pid_parse(const char *text, size_t n, int64_t *out)
{
    const char *end = text + n;
    int64_t value = 0;

    if (n > PORTSERVER_REQUEST_MAX)
        return false;
    while (text < end && is_space(*text))
        text++;
    while (end > text && is_space(end[-1]))
        end--;
    bool is_negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+'))
        text++;
    if (text == end || !is_digit(*text) || !is_digit(end[-1]))
        return false;
    for (; text < end; text++) {
        if (*text == '_' && is_digit(text[-1]))
            continue;
        if (!is_digit(*text))
            return false;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text - '0', &value))
            value = INT64_MAX;
    }
    *out = is_negative ? -value : value;
    return true;
}
