/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/text.h"
#include "kubeapi/kubeapi.h"

#include "base/banned.h"

enum { KEY_MAX = 64 };

const json_value *kubeapi_at(const json_value *object, const char *path)
{
    char key[KEY_MAX] = "";

    for (;; path++) {
        size_t n = strcspn(path, ".");

        (void) text_copy(key, n + 1 < sizeof key ? n + 1 : sizeof key, path);
        object = object ? json_get(object, key) : NULL;
        path += n;
        if (!object || !*path)
            return object;
    }
}

const char *kubeapi_text(const json_value *object, const char *path)
{
    const json_value *at = kubeapi_at(object, path);
    const char *text = "";

    (void) (at && json_as_string(at, &text));
    return text;
}

static const char *in_map(const json_value *object, const char *path, const char *key)
{
    const json_value *map = kubeapi_at(object, path);
    const char *text = NULL;

    (void) (map && json_get_string(map, key, &text));
    return text;
}

const char *kubeapi_label(const json_value *object, const char *key)
{
    return in_map(object, "metadata.labels", key);
}

const char *kubeapi_annotation(const json_value *object, const char *key)
{
    return in_map(object, "metadata.annotations", key);
}

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

dibs_status kubeapi_refusal(int code, const json_value *status, const char *what, dibs_err *err)
{
    const char *message = status ? kubeapi_text(status, "message") : "";
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
        /* Two bytes, so that an escaped backslash begins nothing. */
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
    time_t seconds = (time_t) (wall_ms / 1000);
    struct tm utc = { 0 };
    char text[24] = "";

    (void) gmtime_r(&seconds, &utc);
    (void) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    (void) snprintf(out, 40, "%s.%03d000Z", text, (int) (wall_ms % 1000));
}
