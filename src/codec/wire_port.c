/* SPDX-License-Identifier: MIT */
/* Observations as JSON: sockets, the report of a port, the findings of repair and doctor. */
#include "codec/wire_fields.h"

#include "base/banned.h"

#define S(type, member, key, flags) FIELD(type, dibs_socket, member, key, flags)
static const struct field socket_fields[] = {
    S(PROTO, proto, "proto", FIELD_NEEDED),
    S(ADDRESS, address, "address", FIELD_NEEDED),
    S(PORT, port, "port", FIELD_NEEDED),
    S(U32, uid, "uid", FIELD_NEEDED),
    S(PID, pid, "pid", 0), /* null when the process is unknown */
    S(COUNT, inode, "inode", 0),
    S(RAW, command, "command", 0),
    S(RAW, arguments, "arguments", 0),
    S(RAW, unit, "unit", 0),
    S(RAW, directory, "directory", 0),
    S(BOOL, is_holders, "holders", 0),
    S(BOOL, is_below, "below", 0),
    S(BOOL, serves, "serves", 0),
    { 0 },
};

void wire_socket_members(struct jsonw *w, const dibs_socket *socket)
{
    fields_write(w, socket_fields, socket);
}

WIRE_VALUE(socket, dibs_socket)

const char *wire_relation_text(enum wire_relation relation)
{
    static const char *const words[] = {
        [WIRE_UNCLAIMED] = "unclaimed", [WIRE_FOREIGN] = "foreign",       [WIRE_SAME_USER] = "same-user",
        [WIRE_PROJECT] = "project",     [WIRE_DESCENDANT] = "descendant", [WIRE_HOLDER] = "holder"
    };

    return words[relation];
}

void wire_report_claims(struct jsonw *w, const dibs_port_report *report)
{
    jsonw_key_array(w, "claims");
    for (size_t i = 0; i < report->n_claims; i++)
        wire_claim(w, &report->claims[i], true);
    jsonw_end_array(w);
}

static const struct field reason_fields[] = {
    FIELD_WORDS(dibs_reason, kind, "kind", FIELD_NEEDED, words_reason),
    FIELD(BOOL, dibs_reason, blocks_static, "blocks_static", 0),
    FIELD(BOOL, dibs_reason, blocks_dynamic, "blocks_dynamic", 0),
    FIELD(STRING, dibs_reason, text, "text", 0),
    FIELD(STRING, dibs_reason, advice, "advice", 0),
    { 0 },
};

static const struct field nat_fields[] = {
    FIELD(PROTO, dibs_nat_rule, proto, "proto", FIELD_NEEDED),
    FIELD(ADDRESS, dibs_nat_rule, address, "address", FIELD_NEEDED),
    FIELD(PORT, dibs_nat_rule, port, "port", FIELD_NEEDED),
    FIELD(STRING, dibs_nat_rule, text, "text", 0),
    { 0 },
};

void wire_report_nat(struct jsonw *w, const dibs_port_report *report)
{
    field_list(w, "nat", nat_fields, report->nat, sizeof report->nat[0], report->n_nat);
}

void wire_report(struct jsonw *w, uint16_t port, const dibs_port_report *report)
{
    jsonw_object(w);
    jsonw_key_uint(w, "port", port);
    jsonw_key_bool(w, "can_claim", report->can_claim);
    jsonw_key_bool(w, "can_choose", report->can_choose);
    jsonw_key_string(w, "verdict", wire_verdict_text(report));
    field_list(w, "reasons", reason_fields, report->reasons, sizeof report->reasons[0], report->n_reasons);
    wire_report_claims(w, report);
    field_list(w, "sockets", socket_fields, report->sockets, sizeof report->sockets[0], report->n_sockets);
    wire_report_nat(w, report);
    jsonw_key_bool(w, "cut", report->is_cut);
    jsonw_end_object(w);
}

dibs_status wire_report_read(const jsonr_value *v, dibs_port_report *out, dibs_err *err)
{
    static const char *const needed[] = { "can_claim", "claims", "sockets", "reasons", "nat" };
    struct fields f = { 0 };

    *out = (dibs_port_report){ 0 };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        fields_need(&f, needed[i]);
    fields_bool(&f, "can_claim", &out->can_claim);
    fields_bool(&f, "can_choose", &out->can_choose);
    fields_bool(&f, "cut", &out->is_cut);
    const jsonr_value *claims = fields_list(&f, "claims", DIBS_REPORT_CLAIMS_MAX, &out->n_claims);
    (void) fields_list(&f, "sockets", DIBS_REPORT_SOCKETS_MAX, &out->n_sockets);
    (void) fields_list(&f, "reasons", DIBS_REPORT_REASONS_MAX, &out->n_reasons);
    (void) fields_list(&f, "nat", DIBS_REPORT_NAT_MAX, &out->n_nat);
    for (size_t i = 0; i < out->n_claims && f.status == DIBS_OK; i++)
        f.status = wire_claim_read(jsonr_array_at(claims, i), WIRE_ANSWERED, &out->claims[i], err);
    fields_items(&f, "sockets", socket_fields, out->sockets, sizeof out->sockets[0]);
    fields_items(&f, "reasons", reason_fields, out->reasons, sizeof out->reasons[0]);
    fields_items(&f, "nat", nat_fields, out->nat, sizeof out->nat[0]);
    return f.status;
}

static const struct field repair_item_fields[] = {
    FIELD(PROTO, dibs_repair_item, binding.proto, "proto", 0),
    FIELD(ADDRESS, dibs_repair_item, binding.address, "address", 0),
    FIELD_WORDS(dibs_repair_item, kind, "kind", FIELD_NEEDED, words_repair),
    FIELD(PORT, dibs_repair_item, port, "port", FIELD_NEEDED),
    FIELD(TEXT, dibs_repair_item, name, "name", 0),
    FIELD(U32, dibs_repair_item, sightings, "sightings", 0),
    FIELD(STRING, dibs_repair_item, text, "text", 0),
    { 0 },
};
WIRE_VALUE(repair_item, dibs_repair_item)

static const struct field finding_fields[] = {
    FIELD_WORDS(dibs_finding, severity, "severity", FIELD_NEEDED, words_severity),
    FIELD(STRING, dibs_finding, topic, "topic", 0),
    FIELD(STRING, dibs_finding, text, "text", FIELD_NEEDED),
    FIELD(STRING, dibs_finding, advice, "advice", 0),
    { 0 },
};
WIRE_VALUE(finding, dibs_finding)
