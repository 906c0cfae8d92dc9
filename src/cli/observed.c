/* SPDX-License-Identifier: MIT */
#include "cli/observed.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "codec/wire.h"

#include "base/banned.h"

#define FIELDS_MAX 4
#define FIELD_MAX_BYTES (DIBS_NAME_MAX + 1) /* a name with its leading slash */

static void list_auto(struct wire_observed *list)
{
    free(list->item);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Split a line into fields of bounded size; a comment ends it. */
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

static dibs_status parse_line(struct wire_observed *list, const char *line, size_t len, dibs_err *err)
{
    char fields[FIELDS_MAX][FIELD_MAX_BYTES + 1] = { "" };
    const char *proto = "tcp";
    const char *address = "*";
    const char *port_text = fields[0];
    const char *name = NULL;
    uint16_t port = 0;
    size_t n = 0;
    dibs_status status = split(line, len, fields, &n, err);

    if (status != DIBS_OK || n == 0)
        return status;
    if (fields[0][0] >= '0' && fields[0][0] <= '9') {
        if (n > 2)
            return err_set(err, DIBS_INVALID, "expected 'PORT [NAME]' or 'PROTO ADDRESS PORT [NAME]'");
        name = n == 2 ? fields[1] : NULL;
    } else {
        if (n < 3)
            return err_set(err, DIBS_INVALID, "expected 'PORT [NAME]' or 'PROTO ADDRESS PORT [NAME]'");
        proto = fields[0];
        address = fields[1];
        port_text = fields[2];
        name = n == 4 ? fields[3] : NULL;
    }
    status = dibs_port_parse(port_text, &port, err);
    return status == DIBS_OK ? wire_observed_add(list, proto, address, port, name, err) : status;
}

static dibs_status parse_lines(struct wire_observed *list, const char *text, size_t len, dibs_err *err)
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

static dibs_status parse_json(struct wire_observed *list, const char *text, size_t len, dibs_err *err)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_status status = jsonr_parse(text, len, &doc, err);

    return status == DIBS_OK ? wire_observed_read(jsonr_root(doc), &list->item, &list->n, err) : status;
}

dibs_status cli_observed_parse(const char *text, size_t len, dibs_observed **out, size_t *n, dibs_err *err)
{
    AUTO(list_auto) struct wire_observed list = { 0 };
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
