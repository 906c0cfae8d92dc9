/* SPDX-License-Identifier: MIT */
#include "server/router.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "codec/wire.h"

#include "base/banned.h"

#define JSON_TYPE "application/json"

/* Compare a path with a pattern and keep the values of its "{name}" parts. */
static bool is_match(const char *pattern, const char *path, struct route_match *match)
{
    size_t n = 0;

    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t len = strcspn(path, "/");
        if (len == 0 || len >= ROUTE_PART_BYTES || n == ROUTE_PARTS_MAX)
            return false;
        memcpy(match->part[n], path, len);
        match->part[n++][len] = '\0';
        pattern += strcspn(pattern, "}") + 1;
        path += len;
    }
    return *path == '\0';
}

bool router_find(const struct router *router, const struct http_request *r, struct route_match *match)
{
    bool is_head = strcmp(http_method(r), "HEAD") == 0;
    const char *method = is_head ? "GET" : http_method(r);
    const char *path = http_path(r);

    for (size_t i = 0; i < router->n; i++) {
        const struct route *route = (const void *) ((const char *) router->rows + i * router->row_bytes);
        size_t used = strlen(match->allow);

        if (!is_match(route->path, path, match))
            continue;
        if (strcmp(route->method, method) == 0 && !(is_head && (route->flags & ROUTE_CHANGES))) {
            match->route = route;
            return true;
        }
        (void) snprintf(match->allow + used, sizeof match->allow - used, "%s%s", used ? ", " : "",
                        route->method);
    }
    return false;
}

int router_explain(const struct http_request *r, const struct route_match *match, const char *hint,
                   dibs_err *err)
{
    if (match->allow[0]) {
        (void) err_set(err, DIBS_INVALID, "%s is not allowed here; %s", http_method(r), hint);
        return 405;
    }
    (void) err_set(err, DIBS_NOT_FOUND, "there is nothing at this path; %s", hint);
    return 404;
}

/* Return how often a parameter may be given: 0, 1, or SIZE_MAX. */
static size_t times_allowed(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = words; n > 0 && (at = strstr(at, word)) != NULL; at += n)
        if ((at == words || at[-1] == ' ') && strchr(" *", at[n])) /* also at the end */
            return at[n] == '*' ? SIZE_MAX : 1;
    return 0;
}

int router_check(const struct http_request *r, const struct route *route, dibs_err *err)
{
    const char *known = route->params;
    const char *type = http_header(r, "Content-Type");
    const char *key = NULL;
    const char *value = NULL;
    size_t n = 0;

    (void) http_body(r, &n);
    if (n > 0 && type && strncasecmp(type, JSON_TYPE, sizeof JSON_TYPE - 1) != 0) {
        (void) err_set(err, DIBS_INVALID,
                       "bodies are JSON: send 'Content-Type: " JSON_TYPE "' (curl: --json)");
        return 415;
    }
    /* A mistyped filter would list everything, or release something else. */
    for (size_t i = 0; known && http_query_at(r, i, &key, &value); i++) {
        size_t times = times_allowed(known, key);

        if (times == 0)
            (void) err_set(err, DIBS_INVALID, "there is no parameter '%.64s' here; known are: %s", key,
                           known[0] ? known : "none");
        else if (times == 1 && http_query(r, key, 1))
            (void) err_set(err, DIBS_INVALID, "parameter '%s' is given twice", key);
        else
            continue;
        return 400;
    }
    return 0;
}

bool router_host_is_local(const struct http_request *r)
{
    const char *host = http_header(r, "Host");
    char name[DIBS_ADDRESS_TEXT_MAX + 1] = "";
    dibs_address addresses[2];
    size_t n = 0;

    if (!host)
        return true;
    bool is_bracketed = host[0] == '[';
    size_t len = strcspn(host + is_bracketed, is_bracketed ? "]" : ":");
    if (len >= sizeof name)
        return false;
    memcpy(name, host + is_bracketed, len);
    /* Refuse wildcards, too: a browser takes 0.0.0.0 to this host, and does not mark such requests. */
    return strcasecmp(name, "localhost") == 0 || (dibs_address_parse(name, addresses, &n, NULL) == DIBS_OK &&
                                                  !dibs_address_is_wildcard(&addresses[0]));
}

void router_refuse(struct http_request *r, int status, const dibs_err *err, const char *allow)
{
    struct bytes out = { 0 };
    struct jsonw w;

    jsonw_begin_bytes(&w, &out);
    wire_problem(&w, err, status);
    http_answer(r, status, HTTP_PROBLEM_TYPE, &out, &(struct http_field){ "Allow", allow }, allow != NULL);
}
