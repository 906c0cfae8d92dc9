/* SPDX-License-Identifier: MIT */
#include "cli/observed.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/json.h"

#include "base/banned.h"

#define FIELDS_MAX 4
#define FIELD_MAX_BYTES (DIBS_NAME_MAX + 1) /* a name with its leading slash */

DEFINE_AUTO(json_doc, json_free)

struct list {
    dibs_observed *item;
    size_t n, room;
};

static void list_auto(struct list *list)
{
    free(list->item);
}

/* The words of one entry, before they are understood; empty or NULL ones take the default. */
struct words {
    const char *proto, *address, *name;
    uint16_t port;
};

static dibs_status append(struct list *list, const dibs_observed *entry, dibs_err *err)
{
    if (list->n == OBSERVED_MAX)
        return err_set(err, DIBS_INVALID, "more than %d entries", OBSERVED_MAX);
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        dibs_observed *item = reallocarray(list->item, room, sizeof *item);

        if (!item)
            return err_set(err, DIBS_FAILURE, "out of memory");
        list->item = item;
        list->room = room;
    }
    list->item[list->n++] = *entry;
    return DIBS_OK;
}

static dibs_status understand(struct list *list, const struct words *words, dibs_err *err)
{
    dibs_observed entry = { .port = words->port };
    dibs_address addresses[2] = { 0 };
    size_t n = 0;
    dibs_status status = dibs_proto_parse(words->proto, &entry.binding.proto, err);

    if (status == DIBS_OK)
        status = dibs_address_parse(words->address, addresses, &n, err);
    if (status == DIBS_OK && words->name) {
        const char *name = words->name + (words->name[0] == '/');

        status = dibs_name_check(name, err);
        if (status == DIBS_OK)
            (void) snprintf(entry.name, sizeof entry.name, "%s", name);
    }
    for (size_t i = 0; i < n && status == DIBS_OK; i++) {
        entry.binding.address = addresses[i];
        status = append(list, &entry, err);
    }
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts a line into fields of bounded size; a comment ends it. */
static dibs_status split(const char *line, size_t len, char fields[FIELDS_MAX][FIELD_MAX_BYTES + 1],
                         size_t *n_fields, dibs_err *err)
{
    size_t n = 0;
    size_t i = 0;

    for (;;) {
        while (i < len && is_blank(line[i]))
            i++;
        if (i == len || line[i] == '#')
            break;
        size_t start = i;

        while (i < len && !is_blank(line[i]))
            i++;
        if (n == FIELDS_MAX)
            return err_set(err, DIBS_INVALID, "too many fields");
        if (i - start > FIELD_MAX_BYTES)
            return err_set(err, DIBS_INVALID, "a field has more than %d bytes", FIELD_MAX_BYTES);
        if (memchr(line + start, '\0', i - start))
            return err_set(err, DIBS_INVALID, "a NUL byte");
        memcpy(fields[n], line + start, i - start);
        fields[n++][i - start] = '\0';
    }
    *n_fields = n;
    return DIBS_OK;
}

static dibs_status parse_line(struct list *list, const char *line, size_t len, dibs_err *err)
{
    char fields[FIELDS_MAX][FIELD_MAX_BYTES + 1] = { "" };
    struct words words = { .proto = "tcp", .address = "*" };
    const char *port = fields[0];
    size_t n = 0;
    dibs_status status = split(line, len, fields, &n, err);

    if (status != DIBS_OK || n == 0)
        return status;
    if (fields[0][0] >= '0' && fields[0][0] <= '9') {
        if (n > 2)
            return err_set(err, DIBS_INVALID, "expected 'PORT [NAME]' or 'PROTO ADDRESS PORT [NAME]'");
        words.name = n == 2 ? fields[1] : NULL;
    } else {
        if (n < 3)
            return err_set(err, DIBS_INVALID, "expected 'PORT [NAME]' or 'PROTO ADDRESS PORT [NAME]'");
        words.proto = fields[0];
        words.address = fields[1];
        port = fields[2];
        words.name = n == 4 ? fields[3] : NULL;
    }
    status = dibs_port_parse(port, &words.port, err);
    return status == DIBS_OK ? understand(list, &words, err) : status;
}

static dibs_status parse_lines(struct list *list, const char *text, size_t len, dibs_err *err)
{
    const char *end = text + len;
    size_t number = 1;

    for (const char *line = text; line < end; number++) {
        const char *stop = memchr(line, '\n', (size_t) (end - line));
        const char *line_end = stop ? stop : end;
        dibs_status status = parse_line(list, line, (size_t) (line_end - line), err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "line %zu", number);
        line = stop ? stop + 1 : end;
    }
    return DIBS_OK;
}

static dibs_status optional_text(const json_value *object, const char *key, const char **out, dibs_err *err)
{
    const json_value *value = json_get(object, key);

    if (value && !json_is_null(value) && !json_get_string(object, key, out))
        return err_set(err, DIBS_INVALID, "\"%s\" is not a text", key);
    return DIBS_OK;
}

static dibs_status parse_object(struct list *list, const json_value *object, dibs_err *err)
{
    static const char *const known[] = { "proto", "address", "port", "name", NULL };
    struct words words = { .proto = "tcp", .address = "*" };
    int64_t port = 0;

    if (!json_is_object(object))
        return err_set(err, DIBS_INVALID, "not an object");
    const char *unknown = json_unknown_key(object, known);

    if (unknown)
        return err_set(err, DIBS_INVALID, "unknown key \"%.64s\"", unknown);
    if (!json_get_int(object, "port", &port) || port < 1 || port > DIBS_PORT_MAX)
        return err_set(err, DIBS_INVALID, "\"port\" is not a number from 1 to %d", DIBS_PORT_MAX);
    words.port = (uint16_t) port;
    dibs_status status = optional_text(object, "proto", &words.proto, err);

    if (status == DIBS_OK)
        status = optional_text(object, "address", &words.address, err);
    if (status == DIBS_OK)
        status = optional_text(object, "name", &words.name, err);
    if (status == DIBS_OK && words.name && !words.name[0])
        words.name = NULL;
    return status == DIBS_OK ? understand(list, &words, err) : status;
}

static dibs_status parse_json(struct list *list, const char *text, size_t len, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    dibs_status status = json_parse(text, len, &doc, err);

    if (status != DIBS_OK)
        return status;
    const json_value *root = json_root(doc);

    for (size_t i = 0; i < json_array_size(root); i++) {
        status = parse_object(list, json_array_at(root, i), err);
        if (status != DIBS_OK)
            return err_wrap(err, status, "item %zu", i + 1);
    }
    return DIBS_OK;
}

dibs_status cli_observed_parse(const char *text, size_t len, dibs_observed **out, size_t *n, dibs_err *err)
{
    AUTO(list_auto) struct list list = { 0 };
    size_t i = 0;

    while (i < len && (is_blank(text[i]) || text[i] == '\n'))
        i++;
    /* No line of the text form starts with a bracket: addresses are never first. */
    dibs_status status =
        i < len && text[i] == '[' ? parse_json(&list, text, len, err) : parse_lines(&list, text, len, err);

    if (status != DIBS_OK)
        return err_wrap(err, status, "observed list");
    *out = TAKE(list.item);
    *n = list.n;
    return DIBS_OK;
}
