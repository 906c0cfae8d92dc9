/* SPDX-License-Identifier: MIT */
/* Any lines as a client of `dibs mcp`, and any text as what a command prints: the server says nothing but
 * whole messages of JSON-RPC, one for each message at most, and never has more calls than may wait. A line
 * that begins with '<' and a digit is the end of the first call: its exit code, standard output, and after
 * '\1' standard error. */
#include <string.h>

#include "cli/mcp/mcp.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t check_messages(struct mcp *m)
{
    size_t n = 0;

    CHECK(!m->out.is_lost);
    for (size_t at = 0; at < m->out.n; n++) {
        const char *line = m->out.at + at;
        const char *end = memchr(line, '\n', m->out.n - at);
        jsonr_doc *doc = NULL;
        const char *version = "";
        dibs_err err = { 0 };

        CHECK(end);
        if (jsonr_parse(line, (size_t) (end - line), &doc, &err) == DIBS_OK) {
            const jsonr_value *one = jsonr_root(doc);

            CHECK(!jsonr_is_array(one) || jsonr_array_size(one) > 0);
            one = jsonr_is_array(one) ? jsonr_array_at(one, 0) : one;
            CHECK(jsonr_get_string(one, "jsonrpc", &version) && strcmp(version, "2.0") == 0);
            CHECK(jsonr_get(one, "id") &&
                  (jsonr_get(one, "result") || jsonr_get(one, "error") || jsonr_get(one, "method")));
        } else {
            CHECK(strstr(err.msg, "duplicate")); /* two claims of one name, which no command prints */
        }
        jsonr_free(doc);
        at += (size_t) (end - line) + 1;
    }
    m->out.n = 0;
    return n;
}

static void end_call(struct mcp *m, const char *text, size_t n)
{
    struct mcp_outcome outcome = {
        .code = text[0] - '0', .place = { .project = { .dir = "/p", .group = "p" }, .has_manifest = n % 2 }
    };
    const char *err = memchr(text, '\1', n);
    size_t n_out = err ? (size_t) (err - text) : n;

    bytes_add(&outcome.out, text + 1, n_out - 1);
    if (err)
        bytes_add(&outcome.err, err + 1, n - n_out - 1);
    mcp_finish(m, &outcome);
    bytes_done(&outcome.out);
    bytes_done(&outcome.err);
    CHECK(check_messages(m) <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *) data;
    struct mcp m = { .wants_roots = size % 2 };

    for (size_t at = 0; at < size;) {
        const char *line = text + at;
        const char *end = memchr(line, '\n', size - at);
        size_t n = end ? (size_t) (end - line) : size - at;

        if (n > 1 && line[0] == '<' && line[1] >= '0' && line[1] <= '9' && m.first)
            end_call(&m, line + 1, n - 1);
        else
            mcp_take(&m, line, n);
        CHECK(check_messages(&m) <= 1 && m.n_waiting <= MCP_WAITING_MAX && m.n_roots <= MCP_ROOTS_MAX);
        for (const struct mcp_call *call = m.first; call; call = call->next)
            CHECK(call->n_words > 0 && !call->words[call->n_words] &&
                  (!call->last || strcmp(call->words[call->n_words - 2], "--") == 0));
        at += n + 1;
    }
    mcp_done(&m);
    return 0;
}
