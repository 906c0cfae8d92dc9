/* SPDX-License-Identifier: MIT */
/* The results of tools: the answer of a command, or what went wrong and what to do next. */
#include <string.h>

#include "base/auto.h"
#include "base/text.h"
#include "cli/mcp/mcp.h"
#include "cli/target.h"

#include "base/banned.h"

static const struct mcp_advice common_advice[] = {
    { .code = DIBS_INVALID, .text = "correct that and call again" },
    { .code = DIBS_TAKEN, .text = "take another port or name, or call who_uses_port" },
    { .code = DIBS_EXHAUSTED,
      .text = "release_port what is not needed, or ask the user to run `dibs reap` or enlarge the pool" },
    { .code = DIBS_NOT_FOUND, .text = "call list_ports for the names here" },
    { .code = DIBS_UNAVAILABLE, .text = "call again; if it stays so, ask the user to run `dibs doctor`" },
    { .code = DIBS_DENIED, .text = "ask the user: this server has only the rights of its caller" },
    { .code = DIBS_FAILURE, .text = "call again; if it stays so, ask the user to run `dibs doctor`" },
};

static const char *advice_for(const struct mcp_tool *tool, const struct mcp_outcome *outcome,
                              bool has_blocker)
{
    int code = outcome->code;

    for (const struct mcp_advice *a = tool->advice; a && a->code != DIBS_OK; a++)
        if ((int) a->code == code && (has_blocker || !a->needs_blocker) &&
            (outcome->place.has_manifest || !a->needs_manifest))
            return a->text;
    for (size_t i = 0; i < sizeof common_advice / sizeof *common_advice; i++)
        if ((int) common_advice[i].code == code)
            return common_advice[i].text;
    return common_advice[sizeof common_advice / sizeof *common_advice - 1].text;
}

/* Call `take` for each line that the command wrote on standard error. */
static void each_line(const struct bytes *err, void (*take)(void *ctx, const char *line, size_t n), void *ctx)
{
    for (size_t at = 0; at < err->n;) {
        const char *line = err->at + at;
        const char *end = memchr(line, '\n', err->n - at);
        size_t n = end ? (size_t) (end - line) : err->n - at;

        take(ctx, line, n);
        at += n + 1;
    }
}

static void add_warning(void *ctx, const char *line, size_t n)
{
    static const char start[] = "dibs: warning: ";
    struct bytes *all = ctx;

    if (n < sizeof start - 1 || memcmp(line, start, sizeof start - 1) != 0)
        return;
    if (all->n > 0)
        bytes_add_text(all, "; ");
    bytes_add(all, line + sizeof start - 1, n - (sizeof start - 1));
}

/* Write what the command answered, as an object. */
static void write_answer(struct jsonw *w, const struct mcp_call *call, const struct mcp_place *place,
                         const jsonr_value *answer, const char *warnings)
{
    jsonw_object(w);
    call->tool->write(w, place, answer);
    if (warnings[0])
        jsonw_key_string(w, "warning", warnings);
    jsonw_end_object(w);
}

static void write_text(struct jsonw *w, const char *text)
{
    jsonw_key_array(w, "content");
    jsonw_object(w);
    jsonw_key_string(w, "type", "text");
    jsonw_key_string(w, "text", text);
    jsonw_end_object(w);
    jsonw_end_array(w);
}

static void write_failure(struct jsonw *w, const char *text)
{
    write_text(w, text);
    jsonw_key_bool(w, "isError", true);
}

/* Write the answer as text, which is for the model, and where the version has it as a value. */
static void write_success(struct jsonw *w, enum mcp_version version, const struct mcp_call *call,
                          const struct mcp_outcome *outcome, const jsonr_value *answer)
{
    struct bytes warnings = { 0 };
    struct bytes text = { 0 };
    struct jsonw own;

    each_line(&outcome->err, add_warning, &warnings);
    bytes_add(&warnings, "", 1);
    jsonw_begin_bytes(&own, &text);
    write_answer(&own, call, &outcome->place, answer, warnings.is_lost ? "" : warnings.at);
    bytes_add(&text, "", 1);
    if (text.is_lost) {
        write_failure(w, "out of memory. Next: call again");
    } else {
        write_text(w, text.at);
        if (version >= MCP_2025_06_18) {
            jsonw_key(w, "structuredContent");
            write_answer(w, call, &outcome->place, answer, warnings.is_lost ? "" : warnings.at);
        }
    }
    bytes_done(&warnings);
    bytes_done(&text);
}

struct failure {
    char text[DIBS_ERR_MSG_MAX];
    bool has_blocker;
};

/* Take the message of a failed command. One that names another claim or process goes on with advice for
 * people, to end it or to force the command: an agent gets ours. */
static void read_failure(void *ctx, const char *line, size_t n)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct failure *failure = ctx;

    if (n == 0 || line[0] != '{' || jsonr_parse(line, n, &doc, NULL) != DIBS_OK)
        return;
    (void) text_copy(failure->text, sizeof failure->text, jsonr_text_at(jsonr_root(doc), "error.message"));
    char *advice = strstr(failure->text, "; ");
    failure->has_blocker = jsonr_at(jsonr_root(doc), "error.blocker");
    if (advice && failure->has_blocker)
        *advice = '\0';
}

void mcp_answer_write(struct jsonw *w, enum mcp_version version, const struct mcp_call *call,
                      const struct mcp_outcome *outcome)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    char text[2 * DIBS_ERR_MSG_MAX];
    struct failure failure = { .text = "" };
    dibs_err err = { 0 };

    if (outcome->failure) {
        write_failure(w, outcome->failure);
        return;
    }
    if (outcome->code == DIBS_NOT_FOUND && call->tool->is_found_free && cli_port_digits(call->last)) {
        (void) snprintf(text, sizeof text, "{\"port\":%.5s}", cli_port_digits(call->last));
        if (jsonr_parse(text, strlen(text), &doc, NULL) == DIBS_OK) {
            write_success(w, version, call, outcome, jsonr_root(doc));
            return;
        }
    }
    if (outcome->code == 0 &&
        jsonr_parse(outcome->out.n ? outcome->out.at : "", outcome->out.n, &doc, &err) == DIBS_OK) {
        write_success(w, version, call, outcome, jsonr_root(doc));
        return;
    }
    each_line(&outcome->err, read_failure, &failure);
    if (!failure.text[0])
        (void) snprintf(failure.text, sizeof failure.text, "dibs %s ended with code %d%s%.200s",
                        call->tool->command[0], outcome->code, err.msg[0] ? ": " : "", err.msg);
    (void) snprintf(text, sizeof text, "%s. Next: %s", failure.text,
                    advice_for(call->tool, outcome, failure.has_blocker));
    write_failure(w, text);
}
