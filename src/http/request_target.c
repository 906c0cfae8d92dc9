/* SPDX-License-Identifier: MIT */
#include "http/request_target.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

#include "base/banned.h"

static bool is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

/* Skip the host of a proxy's form, "http://host/path". */
static char *skip_origin(char *text)
{
    size_t scheme = strncasecmp(text, "http://", 7) == 0 ? 7 : strncasecmp(text, "https://", 8) == 0 ? 8 : 0;
    size_t host = scheme ? strcspn(text + scheme, "/?") : 0;

    if (!scheme)
        return text;
    text += scheme + host;
    if (*text != '/')
        *--text = '/'; /* overwrites the host's last byte, or a slash before it */
    return text;
}

static const char *parse_query(char *text, struct request_target *out)
{
    for (char *next = NULL; text; text = next) {
        next = strchr(text, '&');
        if (next)
            *next++ = '\0';
        if (!*text)
            continue;
        char *value = strchr(text, '=');

        if (value)
            *value++ = '\0';
        else
            value = text + strlen(text);
        if (!text_percent_decode(text, true) || !text_percent_decode(value, true))
            return "broken percent escape in the query";
        if (out->n_query == HTTP_QUERY_MAX)
            return "too many parameters";
        out->query[out->n_query++] = (struct target_parameter){ text, value };
    }
    return NULL;
}

const char *request_target_parse(char *text, struct request_target *out)
{
    out->n_query = 0;
    for (const char *p = text; *p; p++)
        if (is_control((unsigned char) *p) || *p == ' ' || *p == '#')
            return "the target has a character that must be percent-encoded";
    text = skip_origin(text);
    if (*text != '/')
        return "the target must begin with '/'";
    char *query = strchr(text, '?');

    if (query)
        *query++ = '\0';
    if (!text_percent_decode(text, false))
        return "broken percent escape in the path";
    for (const char *p = text; *p; p++)
        if (is_control((unsigned char) *p))
            return "the path has a control character";
    out->path = text;
    return parse_query(query, out);
}
