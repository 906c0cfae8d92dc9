/* SPDX-License-Identifier: MIT */
/* libfyaml's event stream, behind the checks that its version 0.7.12 needs. */
#include "yaml/events.h"

#include <libfyaml.h>
#include <string.h>

#include "base/err.h"
#include "base/late.h"
#include "base/text.h"

#include "base/banned.h"

#define FYAML_MAP(X)              \
    X(fy_diag_create)             \
    X(fy_diag_destroy)            \
    X(fy_diag_set_collect_errors) \
    X(fy_diag_errors_iterate)     \
    X(fy_parser_create)           \
    X(fy_parser_destroy)          \
    X(fy_parser_set_string)       \
    X(fy_parser_parse)            \
    X(fy_parser_event_free)       \
    X(fy_event_get_token)         \
    X(fy_event_get_anchor_token)  \
    X(fy_event_get_node_style)    \
    X(fy_event_start_mark)        \
    X(fy_event_end_mark)          \
    X(fy_token_get_text)

static struct {
#define X(name) __typeof__(&(name)) name;
    FYAML_MAP(X)
#undef X
} fyaml;

static dibs_status need(dibs_err *err)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(fyaml, name)
        FYAML_MAP(X)
#undef X
    };
    static struct late_library library = { .name = "libfyaml.so.0",
                                           .what = "reads YAML",
                                           LATE_SYMBOLS(symbols) };

    return late_need(&library, err);
}

/* Without a place for its complaints libfyaml takes stderr, FYPCF_QUIET or not. */
static void say_nothing(struct fy_diag *diag, void *user, const char *buf, size_t len)
{
    (void) diag;
    (void) user;
    (void) buf;
    (void) len;
}

static dibs_status syntax_error(const char *name, struct fy_diag *diag, dibs_err *err)
{
    void *walk = NULL;
    const struct fy_diag_error *e = fyaml.fy_diag_errors_iterate(diag, &walk);
    char shown[160];

    if (!e)
        return err_set(err, DIBS_INVALID, "%s: not valid YAML", name);
    return err_set(err, DIBS_INVALID, "%s:%d:%d: %s", name, e->line, e->column,
                   text_safe(e->msg ? e->msg : "not valid YAML", shown, sizeof shown));
}

/* Anything but blank lines and comments? Of those libfyaml makes no document, and complains on stderr. */
static bool has_content(const char *text, size_t len)
{
    bool is_comment = false;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            is_comment = false;
        else if (text[i] == '#')
            is_comment = true;
        else if (!is_comment && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return true;
    }
    return false;
}

/* Only plain lines of UTF-8 reach libfyaml: 0.7.12 never comes back from a directive with a broken character,
 * and takes a NUL for the end. Nothing that we read needs directives or control characters. */
static dibs_status check_text(const char *name, const char *text, size_t len, dibs_err *err)
{
    int line = 1;

    if (len > YAML_BYTES_MAX)
        return err_set(err, DIBS_INVALID, "%s: larger than %d bytes", name, YAML_BYTES_MAX);
    for (size_t i = 0, step = 0; i < len; i += step) {
        unsigned char c = (unsigned char) text[i];

        step = text_utf8_length(text + i, len - i);
        if (step == 0 || (c < 0x20 && !strchr("\t\r\n", c)) || c == '\0' || c == 0x7f)
            return err_set(err, DIBS_INVALID, "%s:%d: not plain UTF-8 text", name, line);
        if (c == '%' && (i == 0 || text[i - 1] == '\n' || text[i - 1] == '\r'))
            return err_set(err, DIBS_INVALID, "%s:%d: directives are not read here", name, line);
        line += c == '\n';
    }
    return DIBS_OK;
}

static enum yaml_style style_of(struct fy_event *event)
{
    switch (fyaml.fy_event_get_node_style(event)) {
    case FYNS_FLOW: return YAML_FLOW;
    case FYNS_BLOCK: return YAML_BLOCK;
    case FYNS_SINGLE_QUOTED:
    case FYNS_DOUBLE_QUOTED: return YAML_QUOTED;
    case FYNS_LITERAL:
    case FYNS_FOLDED: return YAML_BLOCK_TEXT;
    default: return YAML_PLAIN;
    }
}

/* False for an event that says nothing about the tree. */
static bool translate(struct fy_event *event, struct yaml_event *out)
{
    struct fy_token *anchor = NULL;
    const struct fy_mark *from = fyaml.fy_event_start_mark(event);
    const struct fy_mark *to = fyaml.fy_event_end_mark(event);

    *out = (struct yaml_event){ .text = "", .style = style_of(event) };
    switch (event->type) {
    case FYET_DOCUMENT_START: out->kind = YAML_EVENT_DOCUMENT; break;
    case FYET_SCALAR: out->kind = YAML_EVENT_SCALAR; break;
    case FYET_ALIAS: out->kind = YAML_EVENT_ALIAS; break;
    case FYET_SEQUENCE_START: out->kind = YAML_EVENT_LIST; break;
    case FYET_MAPPING_START: out->kind = YAML_EVENT_MAP; break;
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END: out->kind = YAML_EVENT_END; break;
    default: return false;
    }
    if (from && to) {
        out->has_place = true;
        out->line = (uint32_t) from->line + 1;
        out->column = (uint32_t) from->column + 1;
        out->start = from->input_pos;
        out->end = to->input_pos;
    }
    /* The marks are those of the content: the quotes and the asterisk belong to what is written. */
    if (out->has_place && (out->style == YAML_QUOTED || out->kind == YAML_EVENT_ALIAS) && out->start > 0) {
        out->start--;
        out->column--;
        out->end += out->style == YAML_QUOTED;
    }
    if (out->kind == YAML_EVENT_SCALAR || out->kind == YAML_EVENT_ALIAS) {
        struct fy_token *token = fyaml.fy_event_get_token(event);
        const char *text = token ? fyaml.fy_token_get_text(token, &out->len) : NULL;

        out->text = text ? text : "";
        out->len = text ? out->len : 0;
    }
    if (out->kind != YAML_EVENT_ALIAS && out->kind != YAML_EVENT_END && out->kind != YAML_EVENT_DOCUMENT)
        anchor = fyaml.fy_event_get_anchor_token(event);
    out->anchor = anchor ? fyaml.fy_token_get_text(anchor, &out->anchor_len) : NULL;
    return true;
}

static dibs_status run(const char *name, struct fy_parser *parser, struct fy_diag *diag, yaml_event_fn fn,
                       void *ctx, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    while (s == DIBS_OK) {
        struct fy_event *event = fyaml.fy_parser_parse(parser);
        struct yaml_event told;

        if (!event)
            return syntax_error(name, diag, err); /* the end is an event, too */
        bool is_end = event->type == FYET_STREAM_END;
        if (!is_end && translate(event, &told))
            s = fn(ctx, &told, err);
        fyaml.fy_parser_event_free(parser, event);
        if (is_end)
            break;
    }
    return s;
}

dibs_status yaml_events(const char *name, const char *text, size_t len, yaml_event_fn fn, void *ctx,
                        dibs_err *err)
{
    dibs_status s = check_text(name, text, len, err);

    if (s != DIBS_OK || !has_content(text, len))
        return s;
    s = need(err);
    if (s != DIBS_OK)
        return err_wrap(err, s, "%s", name);
    const struct fy_diag_cfg quiet = { .output_fn = say_nothing, .level = FYET_ERROR, .module_mask = ~0u };
    struct fy_diag *diag = fyaml.fy_diag_create(&quiet);
    if (!diag)
        return err_set(err, DIBS_FAILURE, "%s: out of memory", name);
    fyaml.fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg config = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_SLOPPY_FLOW_INDENTATION,
                                   .diag = diag };
    struct fy_parser *parser = fyaml.fy_parser_create(&config);

    if (parser && fyaml.fy_parser_set_string(parser, text, len) == 0)
        s = run(name, parser, diag, fn, ctx, err);
    else
        s = err_set(err, DIBS_FAILURE, "%s: out of memory", name);
    if (parser)
        fyaml.fy_parser_destroy(parser);
    fyaml.fy_diag_destroy(diag);
    return s;
}
