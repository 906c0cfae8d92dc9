/* SPDX-License-Identifier: MIT */
/* Claims and events as JSON, for --json, snapshots and the answers of a daemon. */
#include <string.h>

#include "base/err.h"
#include "codec/wire_fields.h"

#include "base/banned.h"

/* No host runs for ten years, and no lease is longer than that. */
#define UNTIL_MAX_MS (2 * DIBS_TTL_MAX_MS)

const struct field binding_fields[] = {
    FIELD(PROTO, dibs_binding, proto, "proto", FIELD_NEEDED),
    FIELD(ADDRESS, dibs_binding, address, "address", FIELD_NEEDED),
    { .key = "port", .type = FIELD_KNOWN },
    { 0 },
};

static void write_holder(struct jsonw *w, const void *object)
{
    const dibs_claim *claim = object;
    bool is_process = claim->holder == DIBS_HELD_BY_PROCESS;

    jsonw_key(w, "holder");
    if (claim->holder == DIBS_HELD_BY_NOBODY) {
        jsonw_null(w);
        return;
    }
    jsonw_object(w);
    jsonw_key_string(w, "kind", words_at(&words_holder, claim->holder));
    if (is_process) {
        jsonw_key_int(w, "pid", claim->process.pid);
        field_count(w, "start_ticks", claim->process.start_ticks);
        field_count(w, "pid_namespace", claim->process.pidns);
    }
    /* A lease may continue below a process. */
    if (!is_process || claim->lease_ttl_ms != 0) {
        jsonw_key_int(w, "ttl_ms", claim->lease_ttl_ms);
        jsonw_key_int(w, "until_boot_ms", claim->lease_until_ms);
    }
    jsonw_key_string(w, "boot_id", claim->process.boot_id);
    jsonw_end_object(w);
}

static void write_bindings(struct jsonw *w, const void *object)
{
    const dibs_claim *claim = object;

    jsonw_key_array(w, "bindings");
    for (size_t i = 0; i < claim->n_bindings && i < DIBS_BINDINGS_MAX; i++) {
        jsonw_object(w);
        fields_write(w, binding_fields, &claim->bindings[i]);
        jsonw_key_uint(w, "port", claim->port);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void read_holder_members(struct fields *f, dibs_claim *claim)
{
    bool is_asked = f->from == WIRE_ASKED;

    fields_need(f, "boot_id");
    fields_text(f, "boot_id", claim->process.boot_id, sizeof claim->process.boot_id);
    if (claim->holder == DIBS_HELD_BY_PROCESS) {
        fields_need(f, "pid");
        fields_need(f, "start_ticks");
        fields_need(f, "pid_namespace");
    } else {
        fields_need(f, "ttl_ms");
        fields_need(f, "until_boot_ms");
    }
    FIELDS_NUMBER(f, "pid", INT32_MIN, INT32_MAX, &claim->process.pid);
    if (is_asked && claim->holder == DIBS_HELD_BY_PROCESS && claim->process.pid <= 0)
        fields_bad(f, "pid", "above 0");
    FIELDS_NUMBER(f, "start_ticks", 0, INT64_MAX, &claim->process.start_ticks);
    FIELDS_NUMBER(f, "pid_namespace", 0, INT64_MAX, &claim->process.pidns);
    fields_int(f, "ttl_ms", is_asked ? 0 : INT64_MIN, is_asked ? DIBS_TTL_MAX_MS : INT64_MAX,
               &claim->lease_ttl_ms);
    fields_int(f, "until_boot_ms", is_asked ? 0 : INT64_MIN, is_asked ? UNTIL_MAX_MS : INT64_MAX,
               &claim->lease_until_ms);
}

static void read_holder(struct fields *f, void *object)
{
    static const char *const known[] = { "kind",    "pid",    "start_ticks",   "pid_namespace",
                                         "boot_id", "ttl_ms", "until_boot_ms", NULL };
    struct fields holder = { 0 };
    dibs_claim *claim = object;
    unsigned kind = DIBS_HELD_BY_NOBODY;
    const jsonr_value *v = jsonr_get(f->object, "holder");

    if (jsonr_is_null(v))
        return;
    fields_begin(&holder, v, known, f->from, f->err);
    fields_need(&holder, "kind");
    fields_word(&holder, "kind", &words_holder, &kind);
    claim->holder = (dibs_holder) kind;
    read_holder_members(&holder, claim);
    if (holder.status != DIBS_OK)
        f->status = err_wrap(f->err, holder.status, "\"holder\"");
}

static dibs_status read_binding(const jsonr_value *v, enum wire_source from, uint16_t port, dibs_binding *out,
                                dibs_err *err)
{
    struct fields f = { .from = from, .err = err };
    dibs_address claimable[2] = { 0 };
    const char *address = "";
    uint16_t same = port;
    size_t n = 0;

    fields_read(&f, v, binding_fields, out);
    FIELDS_NUMBER(&f, "port", 0, DIBS_PORT_MAX, &same);
    if (same != port)
        fields_bad(&f, "port", "the same in a binding and its claim");
    fields_borrow(&f, "address", &address);
    /* Only a repair claims what this refuses: the address of a multicast socket, as it was read. */
    if (f.status == DIBS_OK && from == WIRE_ASKED &&
        dibs_address_parse(address, claimable, &n, NULL) == DIBS_OK)
        out->address = claimable[0];
    return f.status;
}

static void read_bindings(struct fields *f, void *object)
{
    dibs_claim *claim = object;
    size_t n = 0;
    const jsonr_value *list = fields_list(f, "bindings", DIBS_BINDINGS_MAX, &n);

    if (n < 1 && f->from == WIRE_ASKED)
        fields_bad(f, "bindings", "a list that is not empty");
    for (size_t i = 0; i < n && f->status == DIBS_OK; i++) {
        dibs_status status =
            read_binding(jsonr_array_at(list, i), f->from, claim->port, &claim->bindings[i], f->err);

        if (status != DIBS_OK)
            f->status = err_wrap(f->err, status, "bindings[%zu]", i);
    }
    claim->n_bindings = n;
}

/* Read the project, a directory whose name may have any bytes. Omit one that is not UTF-8 and has no twin: it
 * would name a directory that does not exist, and `reap --stale` would end the claim. */
static void read_project(struct fields *f, void *object)
{
    dibs_claim *claim = object;

    fields_raw(f, "project", claim->project, sizeof claim->project);
    if (strstr(claim->project, "\xef\xbf\xbd") && !fields_has(f, "project_base64"))
        claim->project[0] = '\0';
}

static void write_project(struct jsonw *w, const void *object)
{
    field_raw_or_null(w, "project", ((const dibs_claim *) object)->project);
}

static void write_hold(struct jsonw *w, const void *object)
{
    jsonw_key_string(w, "hold", wire_hold_text(object));
}

static void read_hold(struct fields *f, void *object)
{
    unsigned hold = DIBS_HOLD_AUTO;

    fields_word(f, "hold", &words_hold, &hold);
    ((dibs_claim *) object)->hold = (dibs_hold) hold;
}

#define C(type, member, key, flags) FIELD(type, dibs_claim, member, key, flags)
static const struct field claim_fields[] = {
    C(COUNT, id, "id", FIELD_NEEDED),
    C(COUNT, generation, "generation", FIELD_NEEDED),
    C(PORT, port, "port", FIELD_NEEDED),
    FIELD_WORDS(dibs_claim, kind, "kind", FIELD_NEEDED, words_kind),
    C(BOOL, is_exclusive, "exclusive", FIELD_NEEDED),
    C(BOOL, is_kept, "kept", FIELD_NEEDED),
    FIELD_OWNED("holder", 0, holder),
    C(STRING, principal, "principal", FIELD_NEEDED),
    C(TEXT, node, "node", 0),
    C(U32, uid, "uid", FIELD_NEEDED),
    C(TEXT, name, "name", 0),
    C(TEXT, pool, "pool", 0), /* a named port outside every pool has none */
    FIELD_OWNED("project", 0, project),
    { .key = "project_base64", .type = FIELD_KNOWN },
    C(RAW, command, "command", 0),
    { .key = "command_base64", .type = FIELD_KNOWN },
    C(TEXT, keeper, "keeper", FIELD_BRIEF),
    C(PORT, run, "run", FIELD_BRIEF),
    FIELD_OWNED("hold", 0, hold),
    C(TEXT, hold_note, "hold_note", FIELD_BRIEF),
    C(PORT, as_port, "as", FIELD_BRIEF),
    C(TEXT, env, "env", FIELD_BRIEF),
    C(COUNT, netns, "netns", FIELD_NEEDED),
    FIELD_OWNED("bindings", FIELD_NEEDED, bindings),
    C(WALL, created_ms, "created", 0),
    C(MS, created_ms, "created_ms", FIELD_NEEDED),
    C(MS, changed_ms, "changed_ms", FIELD_NEEDED),
    FIELD_WORDS(dibs_claim, life, "life", 0, words_life),
    C(BOOL, is_orphan, "orphan", 0),
    C(BOOL, was_there, "was_there", 0),
    C(BOOL, was_kept, "was_kept", 0),
    C(BOOL, is_degraded, "degraded", 0),
    C(BOOL, is_narrowed, "narrowed", 0),
    C(BOOL, is_damaged, "damaged", 0),
    { 0 },
};

void wire_claim_members(struct jsonw *w, const dibs_claim *claim, bool with_token)
{
    fields_write(w, claim_fields, claim);
    if (with_token && claim->token[0])
        jsonw_key_string(w, "token", claim->token);
}

void wire_claim(struct jsonw *w, const dibs_claim *claim, bool with_token)
{
    jsonw_object(w);
    wire_claim_members(w, claim, with_token);
    jsonw_end_object(w);
}

dibs_status wire_claim_read(const jsonr_value *v, enum wire_source from, dibs_claim *out, dibs_err *err)
{
    struct fields f = { .from = from, .err = err };

    *out = (dibs_claim){ 0 };
    fields_read(&f, v, claim_fields, out);
    if (from == WIRE_ANSWERED) {
        fields_text(&f, "token", out->token, sizeof out->token);
        return f.status;
    }
    if (out->port == 0)
        fields_bad(&f, "port", "above 0");
    if (f.status == DIBS_OK && out->name[0])
        f.status = dibs_name_check(out->name, err);
    return f.status;
}

static void write_protos(struct jsonw *w, const void *object)
{
    const dibs_event *event = object;

    jsonw_key_array(w, "protos");
    for (int i = DIBS_TCP; i <= DIBS_PROTO_MAX; i++)
        if (event->protos & 1u << i)
            jsonw_string(w, dibs_proto_text((dibs_proto) i));
    jsonw_end_array(w);
}

static void read_protos(struct fields *f, void *object)
{
    dibs_event *out = object;
    const jsonr_value *list = jsonr_get(f->object, "protos");

    for (size_t i = 0; i < jsonr_array_size(list) && f->status == DIBS_OK; i++) {
        const char *text = "";
        dibs_proto proto = DIBS_TCP;

        (void) jsonr_as_string(jsonr_array_at(list, i), &text);
        f->status = dibs_proto_parse(text, &proto, f->err);
        out->protos |= (uint8_t) (1u << proto);
    }
}

static void write_kind(struct jsonw *w, const void *object)
{
    bool is_dynamic = ((const dibs_event *) object)->is_dynamic;

    jsonw_key_string(w, "kind", words_at(&words_kind, is_dynamic ? DIBS_DYNAMIC : DIBS_STATIC));
}

static void read_kind(struct fields *f, void *object)
{
    unsigned kind = DIBS_DYNAMIC;

    fields_word(f, "kind", &words_kind, &kind);
    ((dibs_event *) object)->is_dynamic = kind == DIBS_DYNAMIC;
}

#define E(type, member, key, flags) FIELD(type, dibs_event, member, key, flags)
static const struct field event_fields[] = {
    E(COUNT, seq, "seq", FIELD_NEEDED),
    E(WALL, time_ms, "time", 0),
    E(MS, time_ms, "time_ms", FIELD_NEEDED),
    FIELD_WORDS(dibs_event, kind, "what", FIELD_NEEDED, words_event),
    E(COUNT, claim_id, "claim", 0),
    E(COUNT, generation, "generation", 0),
    E(PORT, port, "port", 0),
    FIELD_OWNED("protos", 0, protos),
    FIELD_OWNED("kind", FIELD_NEEDED, kind),
    E(STRING, principal, "principal", FIELD_NEEDED),
    E(TEXT, name, "name", 0),
    E(U32, actor_uid, "actor_uid", 0),
    E(I32, actor_pid, "actor_pid", 0),
    { 0 },
};
WIRE_VALUE(event, dibs_event)
