/* SPDX-License-Identifier: MIT */
/* Paths and queries of requests: claims, events, ports, hosts and pools. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "codec/wire.h"
#include "net/bindings.h"

#include "base/banned.h"

/* An invalid token that stands for every text that cannot be a token. */
#define NO_TOKEN "."

/* ---- writing ---- */

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static void add_escaped(struct bytes *to, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *text; text++) {
        unsigned char c = (unsigned char) *text;
        const char coded[3] = { '%', hex[c >> 4], hex[c & 15] };

        bytes_add(to, is_unreserved(*text) ? text : coded, is_unreserved(*text) ? 1 : 3);
    }
}

/* Return whether the text can be a path segment unescaped, as every token can. */
static bool is_segment(const char *token)
{
    size_t n = 0;

    while (n <= DIBS_TOKEN_MAX && (is_unreserved(token[n]) && token[n] != '-'))
        n++;
    return n > 0 && token[n] == '\0';
}

void wire_param(struct bytes *to, const char *key, const char *value)
{
    if (!value)
        return;
    bytes_add(to, to->n > 0 && memchr(to->at, '?', to->n) ? "&" : "?", 1);
    bytes_add_text(to, key);
    bytes_add(to, "=", 1);
    add_escaped(to, value);
}

static void add_number(struct bytes *to, const char *key, uint64_t value)
{
    char text[24] = "";

    if (value == 0)
        return;
    (void) snprintf(text, sizeof text, "%llu", (unsigned long long) value);
    wire_param(to, key, text);
}

static void add_flag(struct bytes *to, const char *key, bool value)
{
    wire_param(to, key, value ? "true" : NULL);
}

void wire_which_path(struct bytes *to, const dibs_which *which, const char *verb)
{
    bytes_add_text(to, "/v1/claims/");
    bytes_add_text(to, !which->token ? "-" : is_segment(which->token) ? which->token : NO_TOKEN);
    bytes_add_text(to, verb);
    if (which->token)
        return;
    if (which->name) {
        wire_param(to, "name", which->name);
        wire_param(to, "project", which->project);
    } else if (which->port) {
        add_number(to, "port", which->port);
        wire_param(to, "proto", which->proto ? dibs_proto_text(which->proto) : NULL);
    } else {
        add_flag(to, "all", which->all_mine);
    }
}

static const struct {
    const char *key;
    unsigned flag;
} release_flags[] = {
    { "force", DIBS_RELEASE_FORCE },
    { "unhold", DIBS_RELEASE_UNHOLD },
    { "unkeep", DIBS_RELEASE_UNKEEP },
    { "dry_run", DIBS_RELEASE_DRY_RUN },
};
#define N_RELEASE_FLAGS (sizeof release_flags / sizeof release_flags[0])

void wire_release_path(struct bytes *to, const dibs_which *which, unsigned flags)
{
    wire_which_path(to, which, "");
    for (size_t i = 0; i < N_RELEASE_FLAGS; i++)
        add_flag(to, release_flags[i].key, flags & release_flags[i].flag);
}

void wire_filter_path(struct bytes *to, const dibs_filter *filter)
{
    bytes_add_text(to, "/v1/claims");
    wire_param(to, "prefix", filter->name_prefix);
    wire_param(to, "pool", filter->pool);
    wire_param(to, "principal", filter->principal);
    wire_param(to, "project", filter->project);
    add_number(to, "port", filter->port);
    wire_param(to, "proto", filter->proto ? dibs_proto_text(filter->proto) : NULL);
    add_flag(to, "judge", filter->judge);
    add_number(to, "after", filter->after_id);
    add_number(to, "limit", filter->limit);
}

void wire_event_path(struct bytes *to, const dibs_event_query *query)
{
    bytes_add_text(to, "/v1/events");
    add_number(to, "since", query->since);
    add_number(to, "limit", query->limit);
    add_flag(to, "newest", query->newest);
}

void wire_question_path(struct bytes *to, const dibs_port_question *question)
{
    char text[16 + DIBS_ADDRESS_TEXT_MAX + 1] = "";
    char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";

    (void) snprintf(text, sizeof text, "/v1/ports/%s/%u",
                    question->n > 0 ? dibs_proto_text(question->bindings[0].proto) : "tcp", question->port);
    bytes_add_text(to, text);
    wire_param(to, "pool", question->pool);
    for (size_t i = 0; i < question->n; i++) {
        dibs_address_format(&question->bindings[i].address, address);
        (void) snprintf(text, sizeof text, "%s/%s", dibs_proto_text(question->bindings[i].proto), address);
        wire_param(to, "binding", text);
    }
}

void wire_hosts_path(struct bytes *to, const dibs_which *which, const char *const *hosts, size_t n)
{
    bytes_add_text(to, "/v1/nodes/-/claims");
    for (size_t i = 0; i < n; i++)
        wire_param(to, "host", hosts[i]);
    if (which) {
        wire_param(to, "name", which->name);
        wire_param(to, "project", which->project);
    }
}

void wire_node_path(struct bytes *to, const char *name, unsigned flags)
{
    bytes_add_text(to, "/v1/nodes/");
    add_escaped(to, name);
    add_flag(to, "force", flags & DIBS_NODE_FORCE);
}

void wire_pool_path(struct bytes *to, const char *name, const char *verb)
{
    bytes_add_text(to, "/v1/pools/");
    add_escaped(to, name);
    bytes_add_text(to, verb);
}

void wire_name_path(struct bytes *to, const char *name, const char *project)
{
    bytes_add_text(to, "/v1/names");
    wire_param(to, "name", name);
    wire_param(to, "project", project);
}

/* ---- reading ---- */

static const char *get(const struct wire_params *params, const char *key)
{
    return params->get(params->ctx, key, 0);
}

static dibs_status bad(dibs_err *err, const char *key, const char *value, const char *expected)
{
    return err_set(err, DIBS_INVALID, "%s=%.76s: must be %s", key, value, expected);
}

/* Absent: *out is unchanged. */
static dibs_status read_number(const struct wire_params *params, const char *key, uint64_t most,
                               uint64_t *out, dibs_err *err)
{
    const char *text = get(params, key);

    if (!text || text_number(text, strlen(text), most, out))
        return DIBS_OK;
    return bad(err, key, text, "a whole number within its bounds");
}

dibs_status wire_flag_read(const struct wire_params *params, const char *key, bool *out, dibs_err *err)
{
    const char *text = get(params, key);

    if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return bad(err, key, text, "true or false");
    *out = text && text[0] == 't';
    return DIBS_OK;
}

static dibs_status read_port(const struct wire_params *params, uint16_t *port, dibs_proto *proto,
                             dibs_err *err)
{
    const char *port_text = get(params, "port");
    const char *proto_text = get(params, "proto");
    dibs_status status = port_text ? dibs_port_parse(port_text, port, err) : DIBS_OK;

    return status == DIBS_OK && proto_text ? dibs_proto_parse(proto_text, proto, err) : status;
}

dibs_status wire_which_read(const char *segment, const struct wire_params *params, dibs_which *out,
                            dibs_err *err)
{
    dibs_which which = { .token = strcmp(segment, "-") != 0 ? segment : NULL,
                         .name = get(params, "name"),
                         .project = get(params, "project") };
    dibs_status status = read_port(params, &which.port, &which.proto, err);

    if (status == DIBS_OK)
        status = wire_flag_read(params, "all", &which.all_mine, err);
    int n = (which.token != NULL) + (which.name != NULL) + (which.port != 0) + which.all_mine;
    if (status == DIBS_OK && n == 0)
        status = err_set(err, DIBS_INVALID,
                         "which claim? a token, or '-' with name= or port=, to end claims also all=true");
    if (status == DIBS_OK && n > 1)
        status = err_set(err, DIBS_INVALID, "a token, name=, port= and all=true exclude each other");
    /* An ignored one would let a request end more than it says. */
    if (status == DIBS_OK && ((which.project && !which.name) || (which.proto && !which.port)))
        status = err_set(err, DIBS_INVALID, "project= needs name=, and proto= needs port=");
    if (status == DIBS_OK)
        *out = which;
    return status;
}

dibs_status wire_release_read(const struct wire_params *params, unsigned *flags, dibs_err *err)
{
    unsigned found = 0;

    for (size_t i = 0; i < N_RELEASE_FLAGS; i++) {
        bool is_set = false;
        dibs_status status = wire_flag_read(params, release_flags[i].key, &is_set, err);

        if (status != DIBS_OK)
            return status;
        found |= is_set ? release_flags[i].flag : 0;
    }
    *flags = found;
    return DIBS_OK;
}

dibs_status wire_filter_read(const struct wire_params *params, dibs_filter *out, dibs_err *err)
{
    dibs_filter filter = { .name_prefix = get(params, "prefix"),
                           .pool = get(params, "pool"),
                           .principal = get(params, "principal"),
                           .project = get(params, "project") };
    uint64_t limit = 0;
    dibs_status status = read_port(params, &filter.port, &filter.proto, err);

    if (status == DIBS_OK)
        status = wire_flag_read(params, "judge", &filter.judge, err);
    if (status == DIBS_OK)
        status = read_number(params, "after", INT64_MAX, &filter.after_id, err);
    if (status == DIBS_OK)
        status = read_number(params, "limit", SIZE_MAX, &limit, err);
    filter.limit = (size_t) limit;
    if (status == DIBS_OK)
        *out = filter;
    return status;
}

dibs_status wire_event_query_read(const struct wire_params *params, dibs_event_query *out, dibs_err *err)
{
    dibs_event_query query = { 0 };
    uint64_t limit = 0;
    dibs_status status = read_number(params, "since", INT64_MAX, &query.since, err);

    if (status == DIBS_OK)
        status = read_number(params, "limit", SIZE_MAX, &limit, err);
    if (status == DIBS_OK)
        status = wire_flag_read(params, "newest", &query.newest, err);
    query.limit = (size_t) limit;
    if (status == DIBS_OK)
        *out = query;
    return status;
}

/* Parse "PROTO/ADDRESS". */
static dibs_status read_binding(const char *text, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n,
                                dibs_err *err)
{
    char proto[8] = "";
    dibs_proto found = DIBS_TCP;
    const char *slash = strchr(text, '/');

    if (!slash || (size_t) (slash - text) >= sizeof proto)
        return bad(err, "binding", text, "PROTO/ADDRESS");
    memcpy(proto, text, (size_t) (slash - text));
    dibs_status status = dibs_proto_parse(proto, &found, err);

    return status == DIBS_OK ? bindings_add(slash + 1, &found, 1, out, n, err) : status;
}

static dibs_status read_products(const char *proto, const struct wire_params *params, dibs_binding *out,
                                 size_t *n, dibs_err *err)
{
    const char *const lists[] = { proto, get(params, "with") };
    const char *address = get(params, "address");
    dibs_status status = DIBS_OK;

    if (!address)
        address = "*";
    for (size_t i = 1; status == DIBS_OK && address; i++) {
        for (size_t k = 0; k < 2 && lists[k] && status == DIBS_OK; k++) {
            dibs_proto protos[PROTO_LIST_MAX] = { 0 };
            size_t n_protos = 0;

            status = proto_list(lists[k], protos, &n_protos, err);
            if (status == DIBS_OK)
                status = bindings_add(address, protos, n_protos, out, n, err);
        }
        address = params->get(params->ctx, "address", i);
    }
    return status;
}

dibs_status wire_question_read(const char *proto, const char *port, const struct wire_params *params,
                               dibs_binding bindings[DIBS_BINDINGS_MAX], dibs_port_question *out,
                               dibs_err *err)
{
    dibs_port_question question = { .pool = get(params, "pool"), .bindings = bindings };
    const char *binding = get(params, "binding");
    dibs_status status = dibs_port_parse(port, &question.port, err);

    if (status == DIBS_OK)
        status = read_products(proto, params, bindings, &question.n, err);
    if (status == DIBS_OK && binding && (get(params, "address") || get(params, "with")))
        status = err_set(err, DIBS_INVALID, "binding= is instead of address= and with=");
    if (binding)
        question.n = 0;
    for (size_t i = 1; status == DIBS_OK && binding; i++) {
        status = read_binding(binding, bindings, &question.n, err);
        binding = params->get(params->ctx, "binding", i);
    }
    if (status == DIBS_OK)
        *out = question;
    return status;
}
