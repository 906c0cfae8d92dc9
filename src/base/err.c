/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "base/banned.h"

/* Format the message and make it safe for a terminal: it may contain foreign text. */
DIBS_PRINTF(2, 0) static void format(dibs_err *err, const char *fmt, va_list ap)
{
    char text[DIBS_ERR_MSG_MAX + 1]; /* a longer one ends in "..." */

    (void) vsnprintf(text, sizeof text, fmt, ap);
    (void) text_safe(text, err->msg, sizeof err->msg);
}

DIBS_PRINTF(3, 0) static void put(dibs_err *err, dibs_status code, const char *fmt, va_list ap)
{
    memset(err, 0, sizeof *err);
    err->code = code;
    format(err, fmt, ap);
}

dibs_status err_set(dibs_err *err, dibs_status code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;

    if (err) {
        va_start(ap, fmt);
        put(err, code, fmt, ap);
        va_end(ap);
    }
    errno = saved;
    return code;
}

dibs_status err_os(dibs_err *err, dibs_status code, int os_errno, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return code;
    va_start(ap, fmt);
    put(err, code, fmt, ap);
    va_end(ap);
    err->os_errno = os_errno;
    size_t used = strlen(err->msg);
    char text[128];
    (void) snprintf(err->msg + used, sizeof err->msg - used, ": %s", strerror_r(os_errno, text, sizeof text));
    return code;
}

dibs_status err_trouble(dibs_err *err, dibs_trouble why, const char *fmt, ...)
{
    va_list ap;

    if (err) {
        va_start(ap, fmt);
        put(err, DIBS_UNAVAILABLE, fmt, ap);
        va_end(ap);
        err->trouble = why;
    }
    return DIBS_UNAVAILABLE;
}

dibs_status err_wrap(dibs_err *err, dibs_status code, const char *fmt, ...)
{
    char cause[DIBS_ERR_MSG_MAX];
    va_list ap;

    if (!err)
        return code;
    memcpy(cause, err->msg, sizeof cause);
    err->code = code;
    va_start(ap, fmt);
    format(err, fmt, ap);
    va_end(ap);
    size_t used = strlen(err->msg);
    (void) snprintf(err->msg + used, sizeof err->msg - used, ": %.*s", (int) (sizeof cause - 1), cause);
    return code;
}

const char *dibs_status_text(dibs_status code)
{
    switch (code) {
#define X(name, value, text) \
    case DIBS_##name: return text;
        DIBS_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}
