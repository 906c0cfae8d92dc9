/* SPDX-License-Identifier: MIT */
#include "cli/observed.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "codec/wire.h"

#include "base/banned.h"

#define FIELDS_MAX 4
#define BLANKS " \t\r"

static void list_auto(struct wire_observed *list)
{
    free(list->item);
}

/* Parse `PROTO ADDRESS PORT [NAME]` or `PORT [NAME]`; a comment ends the line. */
static dibs_status parse_line(struct wire_observed *list, const char *line, size_t len, dibs_err *err)
{
    AUTO(free_auto) char *copy = calloc(len + 1, 1);
    char *rest = copy;
    const char *fields[FIELDS_MAX] = { NULL };
    uint16_t port = 0;
    size_t n = 0;

    if (!copy)
        return err_set(err, DIBS_FAILURE, "out of memory");
    memcpy(copy, line, len);
    if (strlen(copy) != len)
        return err_set(err, DIBS_INVALID, "a NUL byte");
    for (char *field = NULL; (field = strsep(&rest, BLANKS)) && *field != '#';) {
        if (*field && n == FIELDS_MAX)
            return err_set(err, DIBS_INVALID, "too many fields");
        if (*field)
            fields[n++] = field;
    }
    if (n == 0)
        return DIBS_OK;
    size_t at = fields[0][0] >= '0' && fields[0][0] <= '9' ? 0 : 2; /* index of the port's field */
    if (n <= at || n > at + 2)
        return err_set(err, DIBS_INVALID, "expected 'PORT [NAME]' or 'PROTO ADDRESS PORT [NAME]'");
    if (strcmp(fields[at], "0") == 0) /* a service without a port */
        return DIBS_OK;
    dibs_status status = dibs_port_parse(fields[at], &port, err);
    if (status != DIBS_OK)
        return status;
    return wire_observed_add(list, at ? fields[0] : "tcp", at ? fields[1] : "*", port, fields[at + 1], err);
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

dibs_status cli_observed_parse(const char *text, size_t len, dibs_observed **out, size_t *n, dibs_err *err)
{
    AUTO(list_auto) struct wire_observed list = { 0 };
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    size_t i = 0;

    while (i < len && text[i] && strchr(BLANKS "\n", text[i]))
        i++;
    /* No line of the text form starts with a bracket, because an address is never first. */
    bool is_json = i < len && text[i] == '[';
    dibs_status status = is_json ? jsonr_parse(text, len, &doc, err) : parse_lines(&list, text, len, err);
    if (status == DIBS_OK && is_json)
        status = wire_observed_read(jsonr_root(doc), &list.item, &list.n, err);
    if (status != DIBS_OK)
        return err_wrap(err, status, "observed list");
    *out = TAKE(list.item);
    *n = list.n;
    return DIBS_OK;
}
