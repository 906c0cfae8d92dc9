/* SPDX-License-Identifier: MIT */
/* The tools. A row is the command of dibs that a tool runs, and what an agent may say and learns. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/mcp/mcp.h"

#include "base/banned.h"

#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
#define FIELDS(...)            \
    (const struct mcp_field[]) \
    {                          \
        __VA_ARGS__,           \
        {                      \
            0                  \
        }                      \
    }
#define NAME_FIELD                                            \
    {                                                         \
        .name = "name", .type = MCP_TEXT, .is_required = true \
    }
#define PORT_OR_NAME_FIELD                                                                          \
    {                                                                                               \
        .name = "port", .type = MCP_TEXT, .is_required = true, .help = "number, or name of a claim" \
    }
#define GIVES(field, kind)                                   \
    {                                                        \
        .name = (field), .type = (kind), .is_required = true \
    }

static const struct mcp_field project_field = { .name = "project", .type = MCP_TEXT };

static const struct mcp_advice get_advice[] = {
    { .code = DIBS_NOT_FOUND,
      .text = "call up, whose answer has the names of dibs.yaml; create: true makes a name that no role uses",
      .needs_manifest = true },
    { .code = DIBS_NOT_FOUND,
      .text = "call list_ports for the names here, or get_port with create: true for a name of your own" },
    { 0 },
};
static const struct mcp_advice release_advice[] = {
    { .code = DIBS_INVALID, .text = "give a name as list_ports has it, or all: true" },
    { .code = DIBS_TAKEN, .text = "leave it: this server ends claims of the session's project alone" },
    { 0 },
};
static const struct mcp_advice manifest_advice[] = {
    { .code = DIBS_NOT_FOUND, .text = "give what dibs.yaml has, or add it there", .needs_manifest = true },
    { .code = DIBS_NOT_FOUND,
      .text = "write a dibs.yaml (`dibs init` makes one), or call get_port with a name" },
    { .code = DIBS_TAKEN,
      .text = "end only this project's own, which who_uses_port says, or change dibs.yaml" },
    { 0 },
};
static const struct mcp_advice assert_advice[] = {
    { .code = DIBS_NOT_FOUND, .text = "call get_port or up first; list_ports has the names here" },
    { .code = DIBS_TAKEN,
      .text = "do not use it: who_uses_port says whose it is; give a name of list_ports, or let up "
              "with move: true choose another port",
      .needs_blocker = true },
    { .code = DIBS_TAKEN,
      .text = "start your server (`dibs run -p NAME -- COMMAND --port {NAME}`), or call who_uses_port" },
    { 0 },
};

const struct mcp_tool mcp_tools[] = {
    { .name = "get_port",
      .title = "Get a port",
      .summary = "Port of a name in this project; chosen once and kept",
      .command = WORDS("get", "--brief", "--confirm"),
      .takes = FIELDS({ .name = "name",
                        .type = MCP_TEXT,
                        .is_required = true,
                        .help = "your choice, or a role of dibs.yaml" },
                      { .name = "prefer", .type = MCP_NUMBER, .option = "--prefer", .help = "taken if free" },
                      { .name = "create",
                        .type = MCP_FLAG,
                        .option = "--create",
                        .help = "also a name that dibs.yaml does not have" }),
      .gives = FIELDS(GIVES("port", MCP_NUMBER)),
      .only_adds = true,
      .is_confirmed = true,
      .advice = get_advice,
      .write = mcp_write_port },
    { .name = "claim_port",
      .title = "Claim ports",
      .summary = "Claim ports for a while: 10 minutes, and as long as you listen there",
      .command = WORDS("claim", "--brief", "--confirm"),
      .takes =
          FIELDS(NAME_FIELD,
                 { .name = "count", .type = MCP_NUMBER, .option = "--count", .help = "NAME/0, NAME/1, ..." },
                 { .name = "port", .type = MCP_NUMBER, .option = "--port", .help = "this one or an error" },
                 { .name = "ttl", .type = MCP_TEXT, .option = "--ttl", .help = "as 30s, 2h" },
                 { .name = "keep", .type = MCP_FLAG, .option = "--keep", .help = "until released" }),
      .gives = FIELDS(GIVES("ports", MCP_OBJECT), GIVES("holder", MCP_TEXT)),
      .only_adds = true,
      .is_confirmed = true,
      .write = mcp_write_claimed },
    { .name = "release_port",
      .title = "Release ports",
      .summary = "End claims of this project",
      .command = WORDS("release", "--yes"),
      .takes = FIELDS({ .name = "name", .type = MCP_TEXT, .help = "as list_ports has it" },
                      { .name = "all", .type = MCP_FLAG, .option = "--all", .help = "instead of a name" }),
      .gives = FIELDS(GIVES("released", MCP_NUMBER)),
      .needs_name = true,
      .advice = release_advice,
      .write = mcp_write_released },
    { .name = "list_ports",
      .title = "List ports",
      .summary = "Claims of this project",
      .command = WORDS("ls", "--brief"),
      .takes = FIELDS({ 0 }),
      .gives = FIELDS(GIVES("ports", MCP_LIST)),
      .is_reader = true,
      .write = mcp_write_listed },
    { .name = "who_uses_port",
      .title = "Who uses a port",
      .summary = "Claims of a port, and the processes that have it",
      .command = WORDS("who"),
      .takes = FIELDS(PORT_OR_NAME_FIELD),
      .gives = FIELDS(GIVES("port", MCP_NUMBER), GIVES("claims", MCP_LIST), GIVES("processes", MCP_LIST)),
      .is_reader = true,
      .is_found_free = true,
      .write = mcp_write_users },
    { .name = "explain_port",
      .title = "Explain a port",
      .summary = "Why a port can or cannot be claimed, and what to do",
      .command = WORDS("explain"),
      .takes = FIELDS(PORT_OR_NAME_FIELD),
      .gives = FIELDS(GIVES("port", MCP_NUMBER), GIVES("verdict", MCP_TEXT), GIVES("reasons", MCP_LIST)),
      .is_reader = true,
      .write = mcp_write_reasons },
    { .name = "role_env",
      .title = "Environment of a role",
      .summary = "Variables of a role of dibs.yaml, or of all",
      .command = WORDS("env"),
      .takes = FIELDS({ .name = "role", .type = MCP_TEXT, .help = "ROLE or ROLE/INSTANCE" }),
      .gives = FIELDS(GIVES("env", MCP_OBJECT)),
      .only_adds = true,
      .advice = manifest_advice,
      .write = mcp_write_env },
    { .name = "up",
      .title = "Claim the ports of dibs.yaml",
      .summary = "Claim all ports of dibs.yaml, release those it dropped; starts nothing",
      .command = WORDS("up"),
      .takes = FIELDS({ .name = "move",
                        .type = MCP_FLAG,
                        .option = "--move",
                        .help = "leave ports that other projects' processes use" }),
      .gives = FIELDS(GIVES("ports", MCP_OBJECT)),
      .advice = manifest_advice,
      .write = mcp_write_changes },
    { .name = "assert_mine",
      .title = "Is it my server?",
      .summary = "Fails unless this project's own server listens on the port of a name",
      .command = WORDS("assert", "--own"),
      .takes = FIELDS(NAME_FIELD),
      .gives = FIELDS(GIVES("port", MCP_NUMBER), { .name = "pid", .type = MCP_NUMBER }),
      .is_reader = true,
      .advice = assert_advice,
      .write = mcp_write_listener },
};
const size_t mcp_n_tools = sizeof mcp_tools / sizeof *mcp_tools;

/* ---- tools/list ---- */

static void write_field(struct jsonw *w, const struct mcp_field *field)
{
    static const char *const types[] = { [MCP_TEXT] = "string",
                                         [MCP_NUMBER] = "integer",
                                         [MCP_FLAG] = "boolean",
                                         [MCP_OBJECT] = "object",
                                         [MCP_LIST] = "array" };

    jsonw_key_object(w, field->name);
    jsonw_key_string(w, "type", types[field->type]);
    if (field->help)
        jsonw_key_string(w, "description", field->help);
    jsonw_end_object(w);
}

/* Write the JSON Schema of an object; `more` (may be NULL) is one field more. */
static void write_schema(struct jsonw *w, const struct mcp_field *fields, const struct mcp_field *more)
{
    bool is_any_required = false;

    jsonw_object(w);
    jsonw_key_string(w, "type", "object");
    jsonw_key_object(w, "properties");
    for (const struct mcp_field *field = fields; field->name; field++) {
        write_field(w, field);
        is_any_required = is_any_required || field->is_required;
    }
    if (more)
        write_field(w, more);
    jsonw_end_object(w);
    if (is_any_required) {
        jsonw_key_array(w, "required");
        for (const struct mcp_field *field = fields; field->name; field++)
            if (field->is_required)
                jsonw_string(w, field->name);
        jsonw_end_array(w);
    }
    jsonw_end_object(w);
}

/* Write what differs from the protocol's defaults, by which a tool changes and destroys. */
static void write_annotations(struct jsonw *w, const struct mcp_tool *tool, bool has_title)
{
    jsonw_key_object(w, "annotations");
    if (has_title)
        jsonw_key_string(w, "title", tool->title);
    if (tool->is_reader)
        jsonw_key_bool(w, "readOnlyHint", true);
    else {
        if (tool->only_adds)
            jsonw_key_bool(w, "destructiveHint", false);
        jsonw_key_bool(w, "idempotentHint", true);
    }
    jsonw_key_bool(w, "openWorldHint", false);
    jsonw_end_object(w);
}

void mcp_tools_write(struct jsonw *w, enum mcp_version version)
{
    jsonw_array(w);
    for (size_t i = 0; i < mcp_n_tools; i++) {
        const struct mcp_tool *tool = &mcp_tools[i];

        jsonw_object(w);
        jsonw_key_string(w, "name", tool->name);
        if (version >= MCP_2025_06_18)
            jsonw_key_string(w, "title", tool->title);
        jsonw_key_string(w, "description", tool->summary);
        jsonw_key(w, "inputSchema");
        write_schema(w, tool->takes, &project_field);
        if (version >= MCP_2025_06_18) {
            jsonw_key(w, "outputSchema");
            write_schema(w, tool->gives, NULL);
        }
        if (version >= MCP_2025_03_26)
            write_annotations(w, tool, version == MCP_2025_03_26);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

/* ---- tools/call ---- */

static bool add_word(struct mcp_call *call, const char *option, const char *text)
{
    size_t n = strlen(option) + strlen(text) + 2;
    char *word = call->n_words < MCP_WORDS_MAX ? malloc(n) : NULL;

    if (!word)
        return false;
    (void) snprintf(word, n, "%s%s%s", option, option[0] && text[0] ? "=" : "", text);
    call->words[call->n_words++] = word;
    return true;
}

/* Return the value as text, in `digits` for a number; NULL: it has another type. Models write a number where
 * a text is wanted, and the other way round. */
static const char *value_text(const struct mcp_field *field, const jsonr_value *value, char digits[24])
{
    const char *text = NULL;
    int64_t number = 0;

    if (field->type == MCP_FLAG)
        return NULL;
    if (jsonr_as_whole(value, &number)) {
        (void) snprintf(digits, 24, "%" PRId64, number);
        return digits;
    }
    return jsonr_as_string(value, &text) ? text : NULL;
}

/* Read one argument that was given. That without an option comes after all options. */
static dibs_status read_argument(const struct mcp_field *field, const jsonr_value *value,
                                 struct mcp_call *call, dibs_err *err)
{
    static const char *const kinds[] = {
        [MCP_TEXT] = "a text", [MCP_NUMBER] = "a whole number", [MCP_FLAG] = "true or false"
    };
    char digits[24];
    bool is_set = false;
    bool is_good = true;
    const char *text = value_text(field, value, digits);

    if (!text && !(field->type == MCP_FLAG && jsonr_as_bool(value, &is_set)))
        return err_set(err, DIBS_INVALID, "%s: '%s' is %s", call->tool->name, field->name,
                       kinds[field->type]);
    if (text && strlen(text) > MCP_ARGUMENT_MAX)
        return err_set(err, DIBS_INVALID, "%s: '%s' has more than %d bytes", call->tool->name, field->name,
                       MCP_ARGUMENT_MAX);
    if (field == &project_field) {
        call->project = strdup(text);
        is_good = call->project;
    } else if (!field->option) {
        is_good = add_word(call, "--", "") && add_word(call, "", text);
        call->last = is_good ? call->words[call->n_words - 1] : NULL;
    } else if (text || is_set) {
        is_good = add_word(call, field->option, text ? text : "");
    }
    return is_good ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

static dibs_status check_names(const jsonr_value *arguments, const struct mcp_tool *tool, dibs_err *err)
{
    const char *known[MCP_WORDS_MAX];
    char list[200] = "";
    size_t n = 0;

    for (const struct mcp_field *field = tool->takes; field->name; field++) {
        known[n++] = field->name;
        (void) snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ", field->name);
    }
    known[n++] = project_field.name;
    known[n] = NULL;
    const char *unknown = arguments ? jsonr_unknown_key(arguments, known) : NULL;
    return unknown ? err_set(err, DIBS_INVALID, "%s has no argument '%.64s'; it takes %s%s", tool->name,
                             unknown, list, project_field.name)
                   : DIBS_OK;
}

const jsonr_value *mcp_given(const jsonr_value *object, const char *key)
{
    const jsonr_value *value = jsonr_get(object, key);

    return jsonr_is_null(value) ? NULL : value;
}

dibs_status mcp_arguments_read(const jsonr_value *arguments, struct mcp_call *call, dibs_err *err)
{
    const struct mcp_tool *tool = call->tool;
    const jsonr_value *project = mcp_given(arguments, project_field.name);
    const struct mcp_field *last = NULL;
    dibs_status s = check_names(arguments, tool, err);

    for (const char *const *word = tool->command; *word && !s; word++)
        if (!add_word(call, "", *word))
            s = err_set(err, DIBS_FAILURE, "out of memory");
    for (const struct mcp_field *field = tool->takes; field->name && !s; field++) {
        const jsonr_value *value = mcp_given(arguments, field->name);

        if (!value && field->is_required)
            s = err_set(err, DIBS_INVALID, "%s needs '%s'", tool->name, field->name);
        else if (value && !field->option)
            last = field;
        else if (value)
            s = read_argument(field, value, call, err);
    }
    if (!s && last)
        s = read_argument(last, mcp_given(arguments, last->name), call, err);
    return s || !project ? s : read_argument(&project_field, project, call, err);
}
