/* SPDX-License-Identifier: MIT */
/* The fields of each tool's answer, out of what its command printed. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/manifest.h"
#include "cli/mcp/mcp.h"

#include "base/banned.h"

static int64_t number_at(const jsonr_value *object, const char *key)
{
    int64_t number = 0;

    (void) jsonr_get_int(object, key, &number);
    return number;
}

static void copy_number(struct jsonw *w, const jsonr_value *from, const char *key)
{
    jsonw_key_int(w, key, number_at(from, key));
}

/* Copy a text unless it is absent or null. */
static void copy_text(struct jsonw *w, const jsonr_value *from, const char *key)
{
    const char *text = jsonr_text_at(from, key);

    if (text[0])
        jsonw_key_string(w, key, text);
}

static bool is_here(const struct mcp_place *place, const jsonr_value *claim)
{
    return place->project.dir[0] && strcmp(jsonr_text_at(claim, "project"), place->project.dir) == 0;
}

enum { SHORT_NAME_SIZE = DIBS_NAME_MAX + 2 }; /* with a slash */

/* Write the name of a claim as every tool takes it: without the group if it is this project's, "/NAME" if it
 * is no project's. */
static const char *name_of(const struct mcp_place *place, const jsonr_value *claim, char *out, size_t size)
{
    const char *name = jsonr_text_at(claim, "name");
    const char *slash = strchr(name, '/');

    if (is_here(place, claim) && place->has_manifest)
        return cli_short_name(name, out, size);
    if (name[0] && place->project.dir[0] && !jsonr_text_at(claim, "project")[0]) {
        (void) snprintf(out, size, "/%s", name);
        return out;
    }
    (void) text_copy(out, size, is_here(place, claim) && slash ? slash + 1 : name);
    return out;
}

void mcp_write_port(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    (void) place;
    copy_number(w, answer, "port");
}

/* Write {"NAME": PORT, ...} of the claims for which `is_shown` is true (NULL: all). */
static void write_ports(struct jsonw *w, const struct mcp_place *place, const jsonr_value *claims,
                        bool (*is_shown)(const jsonr_value *claim))
{
    char name[SHORT_NAME_SIZE];

    jsonw_key_object(w, "ports");
    for (size_t i = 0; i < jsonr_array_size(claims); i++) {
        const jsonr_value *claim = jsonr_array_at(claims, i);

        if (!is_shown || is_shown(claim))
            jsonw_key_int(w, name_of(place, claim, name, sizeof name), number_at(claim, "port"));
    }
    jsonw_end_object(w);
}

void mcp_write_claimed(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    const char *holder = jsonr_text_at(jsonr_array_at(answer, 0), "holder");

    write_ports(w, place, answer, NULL);
    jsonw_key_string(w, "holder", holder[0] ? holder : "kept");
}

void mcp_write_released(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    (void) place;
    copy_number(w, answer, "released");
    if (number_at(answer, "released") == 0)
        jsonw_key_string(w, "next", "no such claim here: list_ports has the names");
}

/* End a list of which only the first entries were written. */
static void end_list(struct jsonw *w, size_t n)
{
    jsonw_end_array(w);
    if (n > MCP_LISTED_MAX)
        jsonw_key_uint(w, "more", n - MCP_LISTED_MAX);
}

void mcp_write_listed(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    char name[SHORT_NAME_SIZE];
    size_t n = jsonr_array_size(answer);

    jsonw_key_array(w, "ports");
    for (size_t i = 0; i < n && i < MCP_LISTED_MAX; i++) {
        const jsonr_value *claim = jsonr_array_at(answer, i);

        jsonw_object(w);
        if (name_of(place, claim, name, sizeof name)[0])
            jsonw_key_string(w, "name", name);
        copy_number(w, claim, "port");
        copy_text(w, claim, "state");
        copy_text(w, claim, "holder");
        if (!is_here(place, claim))
            copy_text(w, claim, "project");
        jsonw_end_object(w);
    }
    end_list(w, n);
}

static bool is_twice(const jsonr_value *sockets, size_t i)
{
    const jsonr_value *socket = jsonr_array_at(sockets, i);

    for (size_t k = 0; k < i; k++) {
        const jsonr_value *other = jsonr_array_at(sockets, k);

        if (number_at(other, "pid") == number_at(socket, "pid") && number_at(socket, "pid") > 0 &&
            strcmp(jsonr_text_at(other, "relation"), jsonr_text_at(socket, "relation")) == 0)
            return true;
    }
    return false;
}

/* Write a process for each socket, and one for those of IPv4 and IPv6. */
static void write_processes(struct jsonw *w, const jsonr_value *sockets)
{
    jsonw_key_array(w, "processes");
    for (size_t i = 0; i < jsonr_array_size(sockets); i++) {
        const jsonr_value *socket = jsonr_array_at(sockets, i);

        if (is_twice(sockets, i))
            continue;
        jsonw_object(w);
        if (number_at(socket, "pid") > 0)
            copy_number(w, socket, "pid");
        copy_text(w, socket, "command");
        copy_text(w, socket, "user");
        copy_text(w, socket, "unit");
        copy_text(w, socket, "directory");
        copy_text(w, socket, "relation");
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

void mcp_write_users(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    const jsonr_value *claims = jsonr_get(answer, "claims");
    const jsonr_value *rules = jsonr_get(answer, "nat");

    (void) place;
    copy_number(w, answer, "port");
    jsonw_key_array(w, "claims");
    for (size_t i = 0; i < jsonr_array_size(claims); i++) {
        const jsonr_value *claim = jsonr_array_at(claims, i);
        const char *holder = jsonr_text_at(claim, "holder.kind");

        jsonw_object(w);
        copy_text(w, claim, "name"); /* the full one */
        copy_text(w, claim, "project");
        jsonw_key_string(w, "holder", holder[0] ? holder : "kept");
        if (jsonr_at(claim, "holder.pid"))
            copy_number(w, jsonr_get(claim, "holder"), "pid");
        copy_text(w, claim, "life");
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    write_processes(w, jsonr_get(answer, "sockets"));
    if (jsonr_array_size(rules) > 0)
        jsonw_key_string(w, "nat", jsonr_text_at(jsonr_array_at(rules, 0), "text"));
}

/* Is this reason a claim of the project itself? Then its advice is about others. */
static bool is_own_claim(const struct mcp_place *place, const jsonr_value *answer, const jsonr_value *reason)
{
    const jsonr_value *claims = jsonr_get(answer, "claims");
    char quoted[DIBS_NAME_MAX + 3];
    bool is_own = false;

    for (size_t i = 0; i < jsonr_array_size(claims) && !is_own; i++) {
        const jsonr_value *claim = jsonr_array_at(claims, i);

        (void) snprintf(quoted, sizeof quoted, "'%s'", jsonr_text_at(claim, "name"));
        is_own = is_here(place, claim) && strstr(jsonr_text_at(reason, "text"), quoted);
    }
    return is_own && strcmp(jsonr_text_at(reason, "kind"), "claimed") == 0;
}

void mcp_write_reasons(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    const jsonr_value *reasons = jsonr_get(answer, "reasons");

    copy_number(w, answer, "port");
    copy_text(w, answer, "verdict");
    jsonw_key_array(w, "reasons");
    for (size_t i = 0; i < jsonr_array_size(reasons); i++) {
        const jsonr_value *reason = jsonr_array_at(reasons, i);

        jsonw_object(w);
        jsonw_key_string(w, "why", jsonr_text_at(reason, "text"));
        if (is_own_claim(place, answer, reason))
            jsonw_key_string(w, "next", "it is this project's own: listen there");
        else if (jsonr_text_at(reason, "advice")[0])
            jsonw_key_string(w, "next", jsonr_text_at(reason, "advice"));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void write_variable(void *ctx, const char *key, const jsonr_value *value)
{
    const char *text = "";

    (void) jsonr_as_string(value, &text);
    jsonw_key_string(ctx, key, text);
}

void mcp_write_env(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    (void) place;
    jsonw_key_object(w, "env");
    jsonr_each(answer, write_variable, w);
    jsonw_end_object(w);
}

static bool is_claimed(const jsonr_value *change)
{
    const char *word = jsonr_text_at(change, "change");

    return strcmp(word, "keep") == 0 || strcmp(word, "add") == 0 || strcmp(word, "move") == 0;
}

static size_t count(const jsonr_value *changes, const char *word)
{
    size_t n = 0;

    for (size_t i = 0; i < jsonr_array_size(changes); i++)
        n += strcmp(jsonr_text_at(jsonr_array_at(changes, i), "change"), word) == 0;
    return n;
}

/* Write the names of processes that run with older ports or variables. */
static void write_restarts(struct jsonw *w, const jsonr_value *changes)
{
    size_t n = 0;

    for (size_t i = 0; i < jsonr_array_size(changes); i++) {
        const jsonr_value *change = jsonr_array_at(changes, i);
        bool needs_restart = false;

        if (!jsonr_get_bool(change, "needs_restart", &needs_restart) || !needs_restart)
            continue;
        if (n++ == 0)
            jsonw_key_array(w, "restart");
        jsonw_string(w, jsonr_text_at(change, "pod"));
    }
    if (n > 0)
        jsonw_end_array(w);
}

void mcp_write_changes(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    static const char *const words[][2] = {
        { "add", "added" }, { "move", "moved" }, { "drop", "dropped" }, { "stay", "staying" }
    };

    write_ports(w, place, answer, is_claimed);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (count(answer, words[i][0]) > 0)
            jsonw_key_uint(w, words[i][1], count(answer, words[i][0]));
    write_restarts(w, answer);
}

void mcp_write_listener(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer)
{
    (void) place;
    copy_number(w, answer, "port");
    if (number_at(answer, "pid") > 0)
        copy_number(w, answer, "pid");
    copy_text(w, answer, "command");
}
