/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/client/kubeapi.h"

#include "base/banned.h"

static dibs_status status_of(int code)
{
    switch (code) {
    case HTTP_NOT_FOUND: return DIBS_NOT_FOUND;
    case HTTP_UNAUTHORIZED:
    case HTTP_FORBIDDEN: return DIBS_DENIED;
    case HTTP_CONFLICT: return DIBS_TAKEN;
    case HTTP_TOO_MANY: return DIBS_UNAVAILABLE;
    default: return code >= 400 && code < 500 ? DIBS_INVALID : DIBS_UNAVAILABLE;
    }
}

dibs_status kubeapi_refusal(int code, const jsonr_value *status, const char *what, dibs_err *err)
{
    const char *message = jsonr_text_at(status, "message");
    char shown[400] = "";

    (void) text_safe(message, shown, sizeof shown);
    return err_set(err, status_of(code), "%s: the API server answers %d%s%s", what, code, *shown ? ": " : "",
                   shown);
}

void kubeapi_defuse(char *text, size_t n)
{
    for (char *at = memchr(text, '\\', n); at && (size_t) (at - text) + 1 < n;) {
        size_t left = n - (size_t) (at - text);

        if (left >= 6 && memcmp(at, "\\u0000", 6) == 0)
            memcpy(at, "\\ufffd", 6);
        /* Skip both bytes, so that an escaped backslash does not start an escape. */
        at = left > 2 ? memchr(at + 2, '\\', left - 2) : NULL;
    }
}

bool kubeapi_escape(const char *text, char *out, size_t size)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t n = 0;

    for (; *text; text++) {
        bool is_plain = strchr(plain, *text) != NULL;

        if (n + (is_plain ? 1 : 3) >= size)
            return false;
        if (is_plain)
            out[n++] = *text;
        else
            n += (size_t) snprintf(out + n, 4, "%%%02X", (unsigned) (unsigned char) *text);
    }
    out[n] = '\0';
    return true;
}

void kubeapi_time(int64_t wall_ms, char out[40])
{
    char text[32] = "";

    clock_wall_format(wall_ms, text);
    (void) snprintf(out, 40, "%.19s.%03d000Z", text, (int) (wall_ms % 1000));
}
