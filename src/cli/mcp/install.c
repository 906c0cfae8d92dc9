/* SPDX-License-Identifier: MIT */
/* Print what makes an agent start `dibs mcp`. Nothing is written: these files are the user's. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/suggest.h"
#include "cli/mcp/mcp.h"

#include "base/banned.h"

enum form { JSON, TOML, MARKDOWN };

/* What --project gets: nothing where an agent starts its servers in the project, what the agent replaces by
 * it, or the directory of this call. */
enum project { NONE, WORKSPACE, HERE };

static const struct agent {
    const char *name, *title, *file;
    enum form form;
    const char *key;  /* in JSON, above the servers */
    const char *type; /* in JSON, a line of its own; NULL: none */
    enum project project;
} agents[] = {
    { "claude-code", "Claude Code", ".mcp.json", JSON, "mcpServers", NULL, NONE },
    { "claude-desktop", "Claude Desktop", "~/.config/Claude/claude_desktop_config.json", JSON, "mcpServers",
      NULL, HERE },
    { "cursor", "Cursor", ".cursor/mcp.json", JSON, "mcpServers", NULL, WORKSPACE },
    { "vscode", "VS Code", ".vscode/mcp.json", JSON, "servers", "\"type\": \"stdio\"", WORKSPACE },
    { "codex", "Codex", "~/.codex/config.toml", TOML, NULL, NULL, NONE },
    { "gemini", "Gemini CLI", ".gemini/settings.json", JSON, "mcpServers", NULL, NONE },
    { "zed", "Zed", "~/.config/zed/settings.json", JSON, "context_servers", "\"source\": \"custom\"", NONE },
    { "agents-md", "every agent", "AGENTS.md", MARKDOWN, NULL, NULL, NONE },
};

/* Where to add the variables, and how. */
struct variables {
    struct bytes *out;
    enum form form;
    size_t n;
};

/* Add a text as JSON writes it, which TOML reads, too. */
static void add_quoted(struct bytes *out, const char *text)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    jsonw_string(&w, text);
}

static void add_variable(struct variables *to, const char *name, const char *value)
{
    bool is_toml = to->form == TOML;

    bytes_add_text(to->out, to->n++ > 0 ? (is_toml ? ", " : ",\n        ")
                            : is_toml   ? "env = { "
                                        : ",\n      \"env\": {\n        ");
    add_quoted(to->out, name);
    bytes_add_text(to->out, is_toml ? " = " : ": ");
    add_quoted(to->out, value);
}

/* Return whether the user's own daemon has its socket in this folder, $XDG_RUNTIME_DIR. */
static bool has_socket(const char *runtime)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/dibs/dibs.sock", runtime);

    return n > 0 && (size_t) n < sizeof path && access(path, F_OK) == 0;
}

/* Add the settings of this call's options and environment, and what decides where the user's ledger, settings
 * file and daemon are. Agents start their servers with few variables; without these a session could use
 * another ledger than the shell. */
static void add_variables(const struct cli *cli, struct bytes *out, const struct agent *agent)
{
    static const char *const places[] = { "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR" };
    struct variables to = { .out = out, .form = agent->form };
    bool is_for_all = agent->file[0] == '~'; /* projects, of which a group in the environment is only one's */

    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        const char *option = dibs_setting_name((dibs_setting) i);
        char name[48];

        dibs_setting_env((dibs_setting) i, name);
        const char *value = cli_has(cli, option)                ? cli_value(cli, option)
                            : is_for_all && i == DIBS_SET_GROUP ? NULL
                                                                : getenv(name);
        if (value && value[0])
            add_variable(&to, name, value);
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i]);

        if (value && value[0] == '/' && (strcmp(places[i], "XDG_RUNTIME_DIR") != 0 || has_socket(value)))
            add_variable(&to, places[i], value);
    }
    if (to.n > 0)
        bytes_add_text(out, agent->form == TOML ? " }\n" : "\n      }");
}

static void add_json(const struct cli *cli, struct bytes *out, const struct agent *agent, const char *program,
                     const char *project)
{
    bytes_add_text(out, "{\n  \"");
    bytes_add_text(out, agent->key);
    bytes_add_text(out, "\": {\n    \"dibs\": {\n");
    if (agent->type) {
        bytes_add_text(out, "      ");
        bytes_add_text(out, agent->type);
        bytes_add_text(out, ",\n");
    }
    bytes_add_text(out, "      \"command\": ");
    add_quoted(out, program);
    bytes_add_text(out, ",\n      \"args\": [\"mcp\"");
    if (agent->project != NONE) {
        bytes_add_text(out, ", \"--project\", ");
        add_quoted(out, agent->project == HERE ? project : "${workspaceFolder}");
    }
    bytes_add_text(out, "]");
    add_variables(cli, out, agent);
    bytes_add_text(out, "\n    }\n  }\n}\n");
}

static void add_config(const struct cli *cli, struct bytes *out, const struct agent *agent,
                       const char *program, const char *project)
{
    switch (agent->form) {
    case JSON: add_json(cli, out, agent, program, project); break;
    case TOML:
        bytes_add_text(out, "[mcp_servers.dibs]\ncommand = ");
        add_quoted(out, program);
        bytes_add_text(out, "\nargs = [\"mcp\"]\n");
        add_variables(cli, out, agent);
        break;
    case MARKDOWN: bytes_add(out, mcp_snippet, mcp_snippet_size); break;
    }
    bytes_add(out, "", 1);
}

static dibs_status print_agent(struct cli *cli, const struct agent *agent, const char *program,
                               const char *project, dibs_err *err)
{
    bool is_only = cli->argc > 1;
    struct bytes config = { 0 };

    add_config(cli, &config, agent, program, project);
    if (config.is_lost) {
        bytes_done(&config);
        return err_set(err, DIBS_FAILURE, "out of memory");
    }
    if (cli->json) {
        jsonw_object(&cli->w);
        jsonw_key_string(&cli->w, "agent", agent->name);
        jsonw_key_string(&cli->w, "file", agent->file);
        jsonw_key_string(&cli->w, "config", config.at);
        jsonw_end_object(&cli->w);
    } else {
        if (is_only)
            cli_note(cli, "for %s, in %s", agent->title, agent->file);
        else
            (void) printf("%s# %s, in %s\n", agent == agents ? "" : "\n", agent->title, agent->file);
        (void) fputs(config.at, stdout);
    }
    bytes_done(&config);
    return DIBS_OK;
}

/* Find the path of this program, links resolved. */
static dibs_status find_program(char out[PATH_MAX], dibs_err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

    if (n <= 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot tell the path of dibs");
    out[n] = '\0';
    return DIBS_OK;
}

dibs_status mcp_install(struct cli *cli, dibs_err *err)
{
    const char *only = cli->argc > 1 ? cli->argv[1] : NULL;
    struct suggest best = { .wanted = only ? only : "" };
    const char *dir = cli_value(cli, "project");
    struct mcp_place place = { .has_manifest = false };
    char hint[SUGGEST_HINT_MAX];
    char program[PATH_MAX];
    bool is_found = false;
    dibs_status s = find_program(program, err);

    if (!s)
        s = mcp_place_find(cli, dir ? dir : ".", &place, err);
    cli_begin_list(cli);
    for (size_t i = 0; !s && i < sizeof agents / sizeof *agents; i++) {
        suggest_offer(&best, agents[i].name);
        if (only && strcmp(only, agents[i].name) != 0)
            continue;
        is_found = true;
        s = print_agent(cli, &agents[i], program, place.project.dir, err);
    }
    cli_end_list(cli);
    if (!s && !is_found)
        return err_set(err, DIBS_INVALID, "mcp install: no agent is called '%.64s'%s", only,
                       suggest_format(&best, hint, sizeof hint));
    return s;
}
