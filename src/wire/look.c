/* SPDX-License-Identifier: MIT */
/* What is seen: sockets, the report of a port, the findings of repair and doctor. */
#include "base/err.h"
#include "wire/fields.h"
#include "wire/words.h"

#include "base/banned.h"

/* ---- sockets ---- */

void wire_socket_members(struct json_writer *w, const dibs_socket *socket)
{
    field_binding(w, socket->proto, &socket->address);
    json_key_uint(w, "port", socket->port);
    json_key_uint(w, "uid", socket->uid);
    json_key(w, "pid");
    if (socket->pid)
        json_int(w, socket->pid);
    else
        json_null(w);
    field_count(w, "inode", socket->inode);
    field_raw_or_null(w, "command", socket->command);
    json_key_bool(w, "holders", socket->is_holders);
}

void wire_socket(struct json_writer *w, const dibs_socket *socket)
{
    json_object(w);
    wire_socket_members(w, socket);
    json_end_object(w);
}

dibs_status wire_socket_read(const json_value *v, dibs_socket *out, dibs_err *err)
{
    static const char *const needed[] = { "proto", "address", "port", "uid", NULL };
    struct fields f = { 0 };

    *out = (dibs_socket){ 0 };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    for (size_t i = 0; needed[i]; i++)
        fields_need(&f, needed[i]);
    fields_binding(&f, &out->proto, &out->address);
    fields_port(&f, "port", &out->port);
    fields_u32(&f, "uid", &out->uid);
    fields_i32(&f, "pid", &out->pid);
    fields_uint(&f, "inode", INT64_MAX, &out->inode);
    fields_raw(&f, "command", out->command, sizeof out->command);
    fields_bool(&f, "holders", &out->is_holders);
    return f.status;
}

/* ---- the report of a port ---- */

void wire_report_claims(struct json_writer *w, const dibs_port_report *report)
{
    json_key(w, "claims");
    json_array(w);
    for (size_t i = 0; i < report->n_claims; i++)
        wire_claim(w, &report->claims[i], true);
    json_end_array(w);
}

static void write_reasons(struct json_writer *w, const dibs_port_report *report)
{
    json_key(w, "reasons");
    json_array(w);
    for (size_t i = 0; i < report->n_reasons; i++) {
        const dibs_reason *reason = &report->reasons[i];

        json_object(w);
        json_key_string(w, "kind", wire_reason_text(reason->kind));
        json_key_bool(w, "blocks_static", reason->blocks_static);
        json_key_bool(w, "blocks_dynamic", reason->blocks_dynamic);
        json_key_string(w, "text", reason->text);
        json_key_string(w, "advice", reason->advice);
        json_end_object(w);
    }
    json_end_array(w);
}

void wire_report(struct json_writer *w, uint16_t port, const dibs_port_report *report)
{
    json_object(w);
    json_key_uint(w, "port", port);
    json_key_bool(w, "can_claim", report->can_claim);
    json_key_bool(w, "can_choose", report->can_choose);
    json_key_string(w, "verdict", wire_verdict_text(report));
    write_reasons(w, report);
    wire_report_claims(w, report);
    json_key(w, "sockets");
    json_array(w);
    for (size_t i = 0; i < report->n_sockets; i++)
        wire_socket(w, &report->sockets[i]);
    json_end_array(w);
    json_key_bool(w, "cut", report->is_cut);
    json_end_object(w);
}

static dibs_status read_reason(const json_value *v, dibs_reason *out, dibs_err *err)
{
    struct fields f = { 0 };
    unsigned kind = 0;

    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "kind");
    fields_word(&f, "kind", words_reason, WORDS_REASON, &kind);
    out->kind = (dibs_reason_kind) kind;
    fields_bool(&f, "blocks_static", &out->blocks_static);
    fields_bool(&f, "blocks_dynamic", &out->blocks_dynamic);
    fields_message(&f, "text", out->text, sizeof out->text);
    fields_message(&f, "advice", out->advice, sizeof out->advice);
    return f.status;
}

/* How many of a list there are; INVALID when it is none, or longer than a report. */
static dibs_status count_items(const json_value *v, const char *key, size_t most, size_t *n, dibs_err *err)
{
    const json_value *list = json_get(v, key);

    *n = json_array_size(list);
    return json_is_array(list) && *n <= most
               ? DIBS_OK
               : err_set(err, DIBS_INVALID, "\"%s\" must be a list of at most %zu", key, most);
}

dibs_status wire_report_read(const json_value *v, dibs_port_report *out, dibs_err *err)
{
    struct fields f = { 0 };

    *out = (dibs_port_report){ 0 };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "can_claim");
    fields_bool(&f, "can_claim", &out->can_claim);
    fields_bool(&f, "can_choose", &out->can_choose);
    fields_bool(&f, "cut", &out->is_cut);
    dibs_status s = f.status;
    if (s == DIBS_OK)
        s = count_items(v, "claims", DIBS_REPORT_CLAIMS_MAX, &out->n_claims, err);
    if (s == DIBS_OK)
        s = count_items(v, "sockets", DIBS_REPORT_SOCKETS_MAX, &out->n_sockets, err);
    if (s == DIBS_OK)
        s = count_items(v, "reasons", DIBS_REPORT_REASONS_MAX, &out->n_reasons, err);
    for (size_t i = 0; i < out->n_claims && s == DIBS_OK; i++)
        s = wire_claim_read(json_array_at(json_get(v, "claims"), i), WIRE_ANSWERED, &out->claims[i], err);
    for (size_t i = 0; i < out->n_sockets && s == DIBS_OK; i++)
        s = wire_socket_read(json_array_at(json_get(v, "sockets"), i), &out->sockets[i], err);
    for (size_t i = 0; i < out->n_reasons && s == DIBS_OK; i++)
        s = read_reason(json_array_at(json_get(v, "reasons"), i), &out->reasons[i], err);
    return s;
}

/* ---- findings ---- */

void wire_repair_item(struct json_writer *w, const dibs_repair_item *item)
{
    json_object(w);
    json_key_string(w, "kind", dibs_repair_kind_text(item->kind));
    field_binding(w, item->binding.proto, &item->binding.address);
    json_key_uint(w, "port", item->port);
    field_text_or_null(w, "name", item->name);
    json_key_uint(w, "sightings", item->sightings);
    json_key_string(w, "text", item->text);
    json_end_object(w);
}

dibs_status wire_repair_item_read(const json_value *v, dibs_repair_item *out, dibs_err *err)
{
    const char *kinds[WORDS_REPAIR] = { NULL };
    struct fields f = { 0 };
    unsigned kind = 0;

    *out = (dibs_repair_item){ 0 };
    words_repairs(kinds);
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "kind");
    fields_need(&f, "port");
    fields_word(&f, "kind", kinds, WORDS_REPAIR, &kind);
    out->kind = (dibs_repair_kind) kind;
    fields_binding(&f, &out->binding.proto, &out->binding.address);
    fields_port(&f, "port", &out->port);
    fields_text(&f, "name", out->name, sizeof out->name);
    fields_u32(&f, "sightings", &out->sightings);
    fields_message(&f, "text", out->text, sizeof out->text);
    return f.status;
}

void wire_finding(struct json_writer *w, const dibs_finding *finding)
{
    json_object(w);
    json_key_string(w, "severity", words_at(words_severity, WORDS_SEVERITY, finding->severity));
    json_key_string(w, "topic", finding->topic);
    json_key_string(w, "text", finding->text);
    json_key_string(w, "advice", finding->advice);
    json_end_object(w);
}

dibs_status wire_finding_read(const json_value *v, dibs_finding *out, dibs_err *err)
{
    struct fields f = { 0 };
    unsigned severity = DIBS_FINE;

    *out = (dibs_finding){ 0 };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "severity");
    fields_need(&f, "text");
    fields_word(&f, "severity", words_severity, WORDS_SEVERITY, &severity);
    out->severity = (dibs_severity) severity;
    fields_message(&f, "topic", out->topic, sizeof out->topic);
    fields_message(&f, "text", out->text, sizeof out->text);
    fields_message(&f, "advice", out->advice, sizeof out->advice);
    return f.status;
}
