/* SPDX-License-Identifier: MIT */
/* `dibs mcp`; its parts are in cli/mcp. */
#include "cli/mcp/mcp.h"

#include "base/banned.h"

static const char *const of_all[] = { "project", NULL };
static const struct cli_verb verbs[] = {
    { "serve", NULL, of_all, mcp_serve },
    { "install", "[AGENT]", of_all, mcp_install },
    { 0 },
};

static const struct cli_opt opts[] = {
    { .name = "project",
      .arg = "DIR",
      .help = "the project of the session, instead of the working directory",
      .words = ":files",
      .is_repeatable = true },
    { 0 },
};

const struct cli_cmd cmd_mcp = {
    .name = "mcp",
    .group = CLI_ASK,
    .args = "[serve | install [AGENT]]",
    .summary = "Serve coding agents over the Model Context Protocol",
    .details = "Answers an agent on standard input and output, until its input ends. The tools\n"
               "get, claim and release ports, list and explain them, say who uses one, print\n"
               "the environment of a role, claim the ports of the manifest, and check that a\n"
               "server is the project's own. Each does what the command of dibs does, in the\n"
               "project of the session: --project, else the working directory if it is a\n"
               "project, else the client's roots. Claims of other projects are never ended.\n"
               "Nothing is kept for the agent but the ports that it asked to keep.\n"
               "\n"
               "'install' prints what an agent's configuration needs, and where it belongs:\n"
               "claude-code, claude-desktop, cursor, vscode, codex, gemini, zed; without AGENT,\n"
               "for all of them. 'install agents-md' prints lines for a project's AGENTS.md.",
    .examples = "dibs mcp install claude-code\n"
                "dibs mcp install agents-md >>AGENTS.md\n",
    .opts = opts,
    .flags = CLI_NO_SETTINGS,
    .max_args = 2,
    .args_words = "serve install",
    .verbs = verbs,
};
