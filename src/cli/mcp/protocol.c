/* SPDX-License-Identifier: MIT */
/* The messages of MCP: JSON-RPC 2.0, in three versions of the protocol. Every byte is a foreigner's. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/mcp/mcp.h"
#include "cli/target.h"

#include "base/banned.h"

/* JSON-RPC's codes. */
enum {
    NOT_JSON = -32700,
    NOT_A_REQUEST = -32600,
    NO_METHOD = -32601,
    BAD_PARAMS = -32602,
    INTERNAL = -32603,
};

static const char *const versions[] = {
    [MCP_2024_11_05] = "2024-11-05",
    [MCP_2025_03_26] = "2025-03-26",
    [MCP_2025_06_18] = "2025-06-18",
};

/* What an agent reads first. */
static const char instructions[] =
    "Never choose a port number. get_port gives the port of a name, up those of dibs.yaml; each worktree has "
    "its own and keeps them. Start servers with `dibs run -p NAME -- COMMAND --port {NAME}`, end them with "
    "`dibs stop NAME`. `project` is another directory than the session's.";

struct request {
    struct mcp *m;
    struct mcp_batch *batch; /* NULL: it came alone */
    struct mcp_id id;
    const jsonr_value *params;
};

/* ---- answers ---- */

struct reply {
    struct request *to;
    struct bytes text;
    struct jsonw w;
};

static void reply_begin(struct reply *reply, struct request *to)
{
    *reply = (struct reply){ .to = to };
    jsonw_begin_bytes(&reply->w, &reply->text);
    jsonw_object(&reply->w);
    jsonw_key_string(&reply->w, "jsonrpc", "2.0");
    jsonw_key(&reply->w, "id");
    if (to->id.is_null)
        jsonw_null(&reply->w);
    else if (to->id.text)
        jsonw_string(&reply->w, to->id.text);
    else
        jsonw_int(&reply->w, to->id.number);
}

static void reply_end(struct reply *reply)
{
    struct mcp_batch *batch = reply->to->batch;
    struct bytes *out = batch ? &batch->answers : &reply->to->m->out;

    jsonw_end_object(&reply->w);
    if (batch && out->n > 0)
        bytes_add_text(out, ",");
    if (reply->text.is_lost)
        out->is_lost = true;
    else
        bytes_add(out, reply->text.at, reply->text.n);
    if (!batch)
        bytes_add_text(out, "\n");
    bytes_done(&reply->text);
}

static void refuse(struct request *to, int code, const char *fmt, ...) DIBS_PRINTF(3, 4);
static void refuse(struct request *to, int code, const char *fmt, ...)
{
    char text[DIBS_ERR_MSG_MAX];
    struct reply reply;
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    reply_begin(&reply, to);
    jsonw_key_object(&reply.w, "error");
    jsonw_key_int(&reply.w, "code", code);
    jsonw_key_string(&reply.w, "message", text);
    jsonw_end_object(&reply.w);
    reply_end(&reply);
}

/* Note that a call of the batch, or the reading of its array, is over; write the answers after the last. */
static void batch_leave(struct mcp *m, struct mcp_batch *batch)
{
    if (!batch || --batch->n_waiting > 0)
        return;
    if (batch->answers.is_lost) {
        m->out.is_lost = true;
    } else if (batch->answers.n > 0) { /* notifications have none */
        bytes_add_text(&m->out, "[");
        bytes_add(&m->out, batch->answers.at, batch->answers.n);
        bytes_add_text(&m->out, "]\n");
    }
    bytes_done(&batch->answers);
    free(batch);
}

/* ---- methods ---- */

static enum mcp_version version_of(const char *text)
{
    for (int v = MCP_2025_06_18; v > MCP_UNKNOWN; v--)
        if (strcmp(versions[v], text) == 0)
            return (enum mcp_version) v;
    return MCP_2025_06_18; /* the client ends the session if it does not know this one */
}

static void initialize(struct request *r)
{
    struct mcp *m = r->m;
    struct reply reply;
    const char *asked = NULL;

    if (r->batch || m->version) {
        refuse(r, NOT_A_REQUEST, r->batch ? "initialize cannot be in a batch" : "initialized already");
        return;
    }
    if (!jsonr_get_string(r->params, "protocolVersion", &asked)) {
        refuse(r, BAD_PARAMS, "initialize needs protocolVersion, as \"%s\"", versions[MCP_2025_06_18]);
        return;
    }
    m->version = version_of(asked);
    m->has_roots = jsonr_is_object(jsonr_at(r->params, "capabilities.roots"));
    reply_begin(&reply, r);
    jsonw_key_object(&reply.w, "result");
    jsonw_key_string(&reply.w, "protocolVersion", versions[m->version]);
    jsonw_key_object(&reply.w, "capabilities");
    jsonw_key_object(&reply.w, "tools");
    jsonw_end_object(&reply.w);
    jsonw_end_object(&reply.w);
    jsonw_key_object(&reply.w, "serverInfo");
    jsonw_key_string(&reply.w, "name", "dibs");
    jsonw_key_string(&reply.w, "version", dibs_version());
    jsonw_end_object(&reply.w);
    jsonw_key_string(&reply.w, "instructions", instructions);
    jsonw_end_object(&reply.w);
    reply_end(&reply);
}

static void ping(struct request *r)
{
    struct reply reply;

    reply_begin(&reply, r);
    jsonw_key_object(&reply.w, "result");
    jsonw_end_object(&reply.w);
    reply_end(&reply);
}

static void list_tools(struct request *r)
{
    struct reply reply;

    if (mcp_given(r->params, "cursor")) {
        refuse(r, BAD_PARAMS, "tools/list has one page: leave out cursor");
        return;
    }
    reply_begin(&reply, r);
    jsonw_key_object(&reply.w, "result");
    jsonw_key(&reply.w, "tools");
    mcp_tools_write(&reply.w, r->m->version);
    jsonw_end_object(&reply.w);
    reply_end(&reply);
}

static const struct mcp_tool *find_tool(const char *name, struct suggest *best)
{
    for (size_t i = 0; i < mcp_n_tools; i++) {
        if (strcmp(mcp_tools[i].name, name) == 0)
            return &mcp_tools[i];
        suggest_offer(best, mcp_tools[i].name);
    }
    return NULL;
}

static void answer(struct request *r, const struct mcp_call *call, const struct mcp_outcome *outcome)
{
    struct reply reply;

    reply_begin(&reply, r);
    jsonw_key_object(&reply.w, "result");
    mcp_answer_write(&reply.w, r->m->version, call, outcome);
    jsonw_end_object(&reply.w);
    reply_end(&reply);
}

/* Put a call, which is complete, at the end of the queue. */
static void queue(struct request *r, struct mcp_call *call)
{
    struct mcp_call **last = &r->m->first;

    call->batch = r->batch;
    if (call->batch)
        call->batch->n_waiting++;
    while (*last)
        last = &(*last)->next;
    *last = call;
    r->m->n_waiting++;
}

/* Return a call without arguments, or NULL. */
static struct mcp_call *new_call(const struct mcp_id *id, const struct mcp_tool *tool)
{
    struct mcp_call *call = calloc(1, sizeof *call);
    char *text = id->text ? strdup(id->text) : NULL;

    if (!call || (id->text && !text)) {
        free(call);
        free(text);
        return NULL;
    }
    call->tool = tool;
    call->id = *id;
    call->id.text = call->id_text = text;
    return call;
}

static void call_tool(struct request *r)
{
    static const struct mcp_outcome by_number = {
        .failure = "a port number may be another project's. Next: call list_ports and give the name"
    };
    const jsonr_value *arguments = mcp_given(r->params, "arguments");
    const char *name = NULL;
    struct suggest best = { .wanted = "" };
    char hint[SUGGEST_HINT_MAX];
    dibs_err err = { 0 };

    if (!jsonr_get_string(r->params, "name", &name) || (arguments && !jsonr_is_object(arguments))) {
        refuse(r, BAD_PARAMS, "tools/call needs a name, and arguments as an object");
        return;
    }
    best.wanted = name;
    const struct mcp_tool *tool = find_tool(name, &best);
    if (!tool) {
        refuse(r, BAD_PARAMS, "no tool is called '%.64s'%s", name, suggest_format(&best, hint, sizeof hint));
        return;
    }
    if (r->m->n_waiting >= MCP_WAITING_MAX) {
        refuse(r, INTERNAL, "%d calls wait already: call again after an answer", MCP_WAITING_MAX);
        return;
    }
    struct mcp_call *call = new_call(&r->id, tool);
    if (!call) {
        refuse(r, INTERNAL, "out of memory");
        return;
    }
    dibs_status s = mcp_arguments_read(arguments, call, &err);
    bool is_number = !s && tool->needs_name && call->last && cli_port_digits(call->last);
    if (s)
        refuse(r, s == DIBS_INVALID ? BAD_PARAMS : INTERNAL, "%s", err.msg);
    else if (is_number)
        answer(r, call, &by_number);
    if (s || is_number)
        mcp_call_free(call);
    else
        queue(r, call);
}

static const struct method {
    const char *name;
    bool is_first; /* before initialize, too */
    void (*run)(struct request *r);
} methods[] = {
    { "initialize", true, initialize },
    { "ping", true, ping },
    { "tools/list", false, list_tools },
    { "tools/call", false, call_tool },
};

static void run_method(struct request *r, const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, name) != 0)
            continue;
        if (!methods[i].is_first && !r->m->version)
            refuse(r, NOT_A_REQUEST, "the first request is initialize");
        else if (r->params && !jsonr_is_object(r->params))
            refuse(r, BAD_PARAMS, "params is no object");
        else
            methods[i].run(r);
        return;
    }
    refuse(r, NO_METHOD, "no method is called '%.64s'", name);
}

/* ---- notifications and roots ---- */

/* Read an id: a text or a whole number. */
static bool read_id(const jsonr_value *value, struct mcp_id *out)
{
    *out = (struct mcp_id){ .is_null = false };
    return jsonr_as_string(value, &out->text) || jsonr_as_int(value, &out->number);
}

static bool is_same_id(const struct mcp_id *a, const struct mcp_id *b)
{
    if (a->text && b->text)
        return strcmp(a->text, b->text) == 0;
    return !a->text && !b->text && a->number == b->number;
}

static void cancel(struct mcp *m, const jsonr_value *params)
{
    struct mcp_id id;

    if (!read_id(jsonr_get(params, "requestId"), &id))
        return;
    for (struct mcp_call *call = m->first; call; call = call->next)
        if (is_same_id(&call->id, &id) && !call->is_done)
            call->is_cancelled = true;
}

static void ask_roots(struct mcp *m)
{
    struct jsonw w;

    if (!m->wants_roots || !m->has_roots)
        return;
    m->awaits_roots = true;
    jsonw_begin_bytes(&w, &m->out);
    jsonw_object(&w);
    jsonw_key_string(&w, "jsonrpc", "2.0");
    jsonw_key_int(&w, "id", ++m->n_asked);
    jsonw_key_string(&w, "method", "roots/list");
    jsonw_end_object(&w);
    jsonw_finish(&w);
}

static void notified(struct mcp *m, const char *name, const jsonr_value *params)
{
    if (strcmp(name, "notifications/cancelled") == 0)
        cancel(m, params);
    else if (strcmp(name, "notifications/initialized") == 0 ||
             strcmp(name, "notifications/roots/list_changed") == 0)
        ask_roots(m);
}

static void drop_roots(struct mcp *m)
{
    while (m->n_roots > 0)
        free(m->roots[--m->n_roots]);
}

/* Add the directory of a URI, "file:///home/anna/shop"; other URIs are no directories of this host. */
static void add_root(struct mcp *m, const char *uri)
{
    static const char *const schemes[] = { "file:///", "file://localhost/" };

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i]);
        char *dir = strncmp(uri, schemes[i], n) == 0 ? strdup(uri + n - 1) : NULL;

        if (dir && m->n_roots < MCP_ROOTS_MAX && text_percent_decode(dir, false))
            m->roots[m->n_roots++] = TAKE(dir);
        free(dir);
    }
}

/* Read an answer of the client. We ask for nothing but its roots. */
static void answered(struct mcp *m, const jsonr_value *message)
{
    const jsonr_value *roots = jsonr_at(message, "result.roots");
    int64_t id = 0;

    if (!m->awaits_roots || !jsonr_get_int(message, "id", &id) || id != m->n_asked)
        return;
    m->awaits_roots = false;
    drop_roots(m);
    for (size_t i = 0; i < jsonr_array_size(roots); i++)
        add_root(m, jsonr_text_at(jsonr_array_at(roots, i), "uri"));
}

/* ---- messages ---- */

static void take_one(struct mcp *m, struct mcp_batch *batch, const jsonr_value *message)
{
    struct request r = { .m = m, .batch = batch, .params = mcp_given(message, "params") };
    const jsonr_value *id = jsonr_get(message, "id");
    const char *method = NULL;
    const char *version = "";

    bool is_request = jsonr_get_string(message, "method", &method);
    bool is_answer = !is_request && (jsonr_get(message, "result") || jsonr_get(message, "error"));
    bool has_id = read_id(id, &r.id);
    (void) jsonr_get_string(message, "jsonrpc", &version);
    r.id.is_null = !has_id;
    if (strcmp(version, "2.0") != 0 || (!is_request && !is_answer) || (id && !has_id))
        refuse(&r, NOT_A_REQUEST, "not a message of JSON-RPC 2.0 with an id that is a text or a number");
    else if (is_answer)
        answered(m, message);
    else if (has_id)
        run_method(&r, method);
    else
        notified(m, method, r.params);
}

/* Batches were part of the protocol until 2025-03-26. */
static void take_batch(struct mcp *m, const jsonr_value *messages)
{
    struct request r = { .m = m, .id = { .is_null = true } };
    size_t n = jsonr_array_size(messages);
    struct mcp_batch *batch = NULL;

    if (m->version == MCP_UNKNOWN || m->version == MCP_2025_06_18 || n == 0) {
        refuse(&r, NOT_A_REQUEST, n == 0 ? "an empty batch" : "no batches: one message a line");
        return;
    }
    batch = calloc(1, sizeof *batch);
    if (!batch) {
        m->out.is_lost = true;
        return;
    }
    batch->n_waiting = 1;
    for (size_t i = 0; i < n; i++)
        take_one(m, batch, jsonr_array_at(messages, i));
    batch_leave(m, batch);
}

void mcp_refuse_long(struct mcp *m)
{
    struct request r = { .m = m, .id = { .is_null = true } };

    refuse(&r, NOT_A_REQUEST, "a message has at most %d bytes", MCP_LINE_MAX);
}

void mcp_take(struct mcp *m, const char *line, size_t n)
{
    struct request r = { .m = m, .id = { .is_null = true } };
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err err = { 0 };

    if (n > MCP_LINE_MAX)
        mcp_refuse_long(m);
    else if (jsonr_parse(line, n, &doc, &err) != DIBS_OK)
        refuse(&r, NOT_JSON, "%s", err.msg);
    else if (jsonr_is_array(jsonr_root(doc)))
        take_batch(m, jsonr_root(doc));
    else
        take_one(m, NULL, jsonr_root(doc));
}

void mcp_call_free(struct mcp_call *call)
{
    if (!call)
        return;
    for (size_t i = 0; i < call->n_words; i++)
        free(call->words[i]);
    free(call->id_text);
    free(call->project);
    free(call);
}

void mcp_finish(struct mcp *m, const struct mcp_outcome *outcome)
{
    struct mcp_call *call = m->first;
    struct request r = { .m = m, .batch = call->batch, .id = call->id };

    m->first = call->next;
    m->n_waiting--;
    if (!call->is_cancelled)
        answer(&r, call, outcome);
    batch_leave(m, call->batch);
    mcp_call_free(call);
}

void mcp_done(struct mcp *m)
{
    static const struct mcp_outcome ended = { .failure = "the session has ended" };

    while (m->first)
        mcp_finish(m, &ended);
    drop_roots(m);
    bytes_done(&m->out);
}
