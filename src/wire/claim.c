/* SPDX-License-Identifier: MIT */
/* Claims and events. A claim is the same text for `dibs ls --json`, in a full snapshot and in the answers of
 * a daemon. */
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "wire/fields.h"
#include "wire/words.h"

#include "base/banned.h"

/* No host is up for ten years, and no lease longer than that. */
#define UNTIL_MAX_MS (2 * DIBS_TTL_MAX_MS)

/* ---- writing ---- */

static void holder(struct json_writer *w, const dibs_claim *claim)
{
    bool is_process = claim->holder == DIBS_HELD_BY_PROCESS;

    json_key(w, "holder");
    if (claim->holder == DIBS_HELD_BY_NOBODY) {
        json_null(w);
        return;
    }
    json_object(w);
    json_key_string(w, "kind", words_at(words_holder, WORDS_HOLDER, claim->holder));
    if (is_process) {
        json_key_int(w, "pid", claim->process.pid);
        field_count(w, "start_ticks", claim->process.start_ticks);
        field_count(w, "pid_namespace", claim->process.pidns);
    }
    /* A lease may run on beneath a process. */
    if (!is_process || claim->lease_ttl_ms != 0) {
        json_key_int(w, "ttl_ms", claim->lease_ttl_ms);
        json_key_int(w, "until_boot_ms", claim->lease_until_ms);
    }
    json_key_string(w, "boot_id", claim->process.boot_id);
    json_end_object(w);
}

static void bindings(struct json_writer *w, const dibs_claim *claim)
{
    json_key(w, "bindings");
    json_array(w);
    for (size_t i = 0; i < claim->n_bindings && i < DIBS_BINDINGS_MAX; i++) {
        json_object(w);
        field_binding(w, claim->bindings[i].proto, &claim->bindings[i].address);
        json_key_uint(w, "port", claim->port);
        json_end_object(w);
    }
    json_end_array(w);
}

void wire_claim_members(struct json_writer *w, const dibs_claim *claim, bool with_token)
{
    char created[32] = "";

    clock_wall_format(claim->created_ms, created);
    field_count(w, "id", claim->id);
    field_count(w, "generation", claim->generation);
    json_key_uint(w, "port", claim->port);
    json_key_string(w, "kind", words_at(words_kind, WORDS_KIND, claim->kind));
    json_key_bool(w, "exclusive", claim->is_exclusive);
    json_key_bool(w, "kept", claim->is_kept);
    holder(w, claim);
    json_key_string(w, "principal", claim->principal);
    field_text_or_null(w, "node", claim->node);
    json_key_uint(w, "uid", claim->uid);
    field_text_or_null(w, "name", claim->name);
    field_text_or_null(w, "pool", claim->pool); /* a port that was named outside of every pool has none */
    field_raw_or_null(w, "project", claim->project);
    field_raw_or_null(w, "command", claim->command);
    field_count(w, "netns", claim->netns);
    bindings(w, claim);
    json_key_string(w, "created", created);
    json_key_int(w, "created_ms", claim->created_ms);
    json_key_int(w, "changed_ms", claim->changed_ms);
    json_key_string(w, "life", wire_life_text(claim->life));
    json_key_bool(w, "orphan", claim->is_orphan);
    json_key_bool(w, "was_there", claim->was_there);
    json_key_bool(w, "was_kept", claim->was_kept);
    json_key_bool(w, "degraded", claim->is_degraded);
    json_key_bool(w, "narrowed", claim->is_narrowed);
    json_key_bool(w, "damaged", claim->is_damaged);
    if (with_token && claim->token[0])
        json_key_string(w, "token", claim->token);
}

void wire_claim(struct json_writer *w, const dibs_claim *claim, bool with_token)
{
    json_object(w);
    wire_claim_members(w, claim, with_token);
    json_end_object(w);
}

void wire_event(struct json_writer *w, const dibs_event *event)
{
    char time[32] = "";

    clock_wall_format(event->time_ms, time);
    json_object(w);
    field_count(w, "seq", event->seq);
    json_key_string(w, "time", time);
    json_key_int(w, "time_ms", event->time_ms);
    json_key_string(w, "what", dibs_event_kind_text(event->kind));
    field_count(w, "claim", event->claim_id);
    field_count(w, "generation", event->generation);
    json_key_uint(w, "port", event->port);
    json_key(w, "protos");
    json_array(w);
    for (int i = DIBS_TCP; i <= DIBS_SCTP; i++)
        if (event->protos & 1u << i)
            json_string(w, dibs_proto_text((dibs_proto) i));
    json_end_array(w);
    json_key_string(w, "kind", event->is_dynamic ? "dynamic" : "static");
    json_key_string(w, "principal", event->principal);
    field_text_or_null(w, "name", event->name);
    json_key_uint(w, "actor_uid", event->actor_uid);
    json_key_int(w, "actor_pid", event->actor_pid);
    json_end_object(w);
}

/* ---- reading ---- */

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
    fields_i32(f, "pid", &claim->process.pid);
    if (is_asked && claim->holder == DIBS_HELD_BY_PROCESS && claim->process.pid <= 0)
        fields_bad(f, "pid", "above 0");
    fields_uint(f, "start_ticks", INT64_MAX, &claim->process.start_ticks);
    fields_uint(f, "pid_namespace", INT64_MAX, &claim->process.pidns);
    fields_int(f, "ttl_ms", is_asked ? 0 : INT64_MIN, is_asked ? DIBS_TTL_MAX_MS : INT64_MAX,
               &claim->lease_ttl_ms);
    fields_int(f, "until_boot_ms", is_asked ? 0 : INT64_MIN, is_asked ? UNTIL_MAX_MS : INT64_MAX,
               &claim->lease_until_ms);
}

static dibs_status read_holder(const json_value *v, enum wire_source from, dibs_claim *claim, dibs_err *err)
{
    static const char *const known[] = { "kind",    "pid",    "start_ticks",   "pid_namespace",
                                         "boot_id", "ttl_ms", "until_boot_ms", NULL };
    struct fields f = { 0 };
    unsigned kind = DIBS_HELD_BY_NOBODY;

    if (json_is_null(v))
        return DIBS_OK;
    fields_begin(&f, v, known, from, err);
    fields_need(&f, "kind");
    fields_word(&f, "kind", words_holder, WORDS_HOLDER, &kind);
    claim->holder = (dibs_holder) kind;
    read_holder_members(&f, claim);
    return f.status == DIBS_OK ? DIBS_OK : err_wrap(err, f.status, "\"holder\"");
}

static dibs_status read_binding(const json_value *v, enum wire_source from, uint16_t port, dibs_binding *out,
                                dibs_err *err)
{
    static const char *const known[] = { "proto", "address", "port", NULL };
    struct fields f = { 0 };
    dibs_address claimable[2] = { 0 };
    const char *address = "";
    uint16_t same = port;
    size_t n = 0;

    fields_begin(&f, v, known, from, err);
    fields_need(&f, "proto");
    fields_need(&f, "address");
    fields_binding(&f, &out->proto, &out->address);
    fields_port(&f, "port", &same);
    if (same != port)
        fields_bad(&f, "port", "the same in a binding and its claim");
    fields_borrow(&f, "address", &address);
    if (f.status == DIBS_OK && from == WIRE_ASKED)
        f.status = dibs_address_parse(address, claimable, &n, err);
    if (f.status == DIBS_OK && from == WIRE_ASKED)
        out->address = claimable[0];
    return f.status;
}

static dibs_status read_bindings(const json_value *list, enum wire_source from, dibs_claim *claim,
                                 dibs_err *err)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list) || (n < 1 && from == WIRE_ASKED) || n > DIBS_BINDINGS_MAX)
        return err_set(err, DIBS_INVALID, "\"bindings\" must be a list of 1 to %d", DIBS_BINDINGS_MAX);
    for (size_t i = 0; i < n; i++) {
        dibs_status status =
            read_binding(json_array_at(list, i), from, claim->port, &claim->bindings[i], err);

        if (status != DIBS_OK)
            return err_wrap(err, status, "bindings[%zu]", i);
    }
    claim->n_bindings = n;
    return DIBS_OK;
}

/* A directory's name may be any bytes. One that JSON could not carry and that has no twin is left out: taken
 * as it stands it would name a directory that is not there, and `reap --stale` would end the claim. */
static void read_project(struct fields *f, dibs_claim *claim)
{
    fields_raw(f, "project", claim->project, sizeof claim->project);
    if (strstr(claim->project, "\xef\xbf\xbd") && !fields_has(f, "project_base64"))
        claim->project[0] = '\0';
}

static void read_identity(struct fields *f, dibs_claim *claim)
{
    fields_need(f, "principal");
    fields_need(f, "uid");
    fields_need(f, "netns");
    fields_text(f, "name", claim->name, sizeof claim->name);
    if (f->status == DIBS_OK && f->from == WIRE_ASKED && claim->name[0])
        f->status = dibs_name_check(claim->name, f->err);
    fields_text(f, "principal", claim->principal, sizeof claim->principal);
    fields_text(f, "node", claim->node, sizeof claim->node);
    fields_text(f, "pool", claim->pool, sizeof claim->pool);
    read_project(f, claim);
    fields_raw(f, "command", claim->command, sizeof claim->command);
    fields_u32(f, "uid", &claim->uid);
    fields_uint(f, "netns", INT64_MAX, &claim->netns);
}

/* What the library fills in and nobody stores. */
static void read_answer(struct fields *f, dibs_claim *claim)
{
    unsigned life = DIBS_ALIVE;

    fields_word(f, "life", words_life, WORDS_LIFE, &life);
    claim->life = (dibs_life) life;
    fields_bool(f, "orphan", &claim->is_orphan);
    fields_bool(f, "was_there", &claim->was_there);
    fields_bool(f, "was_kept", &claim->was_kept);
    fields_bool(f, "degraded", &claim->is_degraded);
    fields_bool(f, "narrowed", &claim->is_narrowed);
    fields_bool(f, "damaged", &claim->is_damaged);
    if (f->from == WIRE_ANSWERED)
        fields_text(f, "token", claim->token, sizeof claim->token);
}

dibs_status wire_claim_read(const json_value *v, enum wire_source from, dibs_claim *out, dibs_err *err)
{
    static const char *const known[] = {
        "id",       "generation", "port",       "kind",           "exclusive", "kept",           "holder",
        "uid",      "principal",  "name",       "pool",           "project",   "project_base64", "command",
        "netns",    "bindings",   "created",    "command_base64", "life",      "orphan",         "was_there",
        "degraded", "created_ms", "changed_ms", "was_kept",       "narrowed",  "damaged",        "node",
        NULL
    };
    static const char *const needed[] = { "id",   "generation", "port",       "kind",       "exclusive",
                                          "kept", "bindings",   "created_ms", "changed_ms", NULL };
    int64_t oldest = from == WIRE_ASKED ? 0 : INT64_MIN;
    struct fields f = { 0 };
    unsigned kind = DIBS_DYNAMIC;

    *out = (dibs_claim){ 0 };
    fields_begin(&f, v, known, from, err);
    for (size_t i = 0; needed[i]; i++)
        fields_need(&f, needed[i]);
    fields_port(&f, "port", &out->port);
    if (from == WIRE_ASKED && out->port == 0)
        fields_bad(&f, "port", "above 0");
    fields_uint(&f, "id", INT64_MAX, &out->id);
    fields_uint(&f, "generation", INT64_MAX, &out->generation);
    fields_word(&f, "kind", words_kind, WORDS_KIND, &kind);
    out->kind = (dibs_kind) kind;
    fields_bool(&f, "exclusive", &out->is_exclusive);
    fields_bool(&f, "kept", &out->is_kept);
    fields_int(&f, "created_ms", oldest, INT64_MAX, &out->created_ms);
    fields_int(&f, "changed_ms", oldest, INT64_MAX, &out->changed_ms);
    read_identity(&f, out);
    read_answer(&f, out);
    if (f.status == DIBS_OK)
        f.status = read_holder(json_get(v, "holder"), from, out, err);
    return f.status == DIBS_OK ? read_bindings(json_get(v, "bindings"), from, out, err) : f.status;
}

static void read_protos(struct fields *f, dibs_event *out)
{
    const json_value *list = json_get(f->object, "protos");

    for (size_t i = 0; i < json_array_size(list) && f->status == DIBS_OK; i++) {
        const char *text = "";
        dibs_proto proto = DIBS_TCP;

        (void) json_as_string(json_array_at(list, i), &text);
        f->status = dibs_proto_parse(text, &proto, f->err);
        out->protos |= (uint8_t) (1u << proto);
    }
}

dibs_status wire_event_read(const json_value *v, dibs_event *out, dibs_err *err)
{
    static const char *const needed[] = { "seq", "time_ms", "what", "principal", "kind", NULL };
    const char *events[WORDS_EVENT] = { NULL };
    struct fields f = { 0 };
    unsigned what = 0;
    unsigned kind = 0;

    *out = (dibs_event){ 0 };
    words_events(events);
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    for (size_t i = 0; needed[i]; i++)
        fields_need(&f, needed[i]);
    fields_uint(&f, "seq", INT64_MAX, &out->seq);
    fields_int(&f, "time_ms", INT64_MIN, INT64_MAX, &out->time_ms);
    fields_word(&f, "what", events, WORDS_EVENT, &what);
    out->kind = (dibs_event_kind) what;
    fields_uint(&f, "claim", INT64_MAX, &out->claim_id);
    fields_uint(&f, "generation", INT64_MAX, &out->generation);
    fields_port(&f, "port", &out->port);
    fields_word(&f, "kind", words_kind, WORDS_KIND, &kind);
    out->is_dynamic = kind == DIBS_DYNAMIC;
    fields_text(&f, "principal", out->principal, sizeof out->principal);
    fields_text(&f, "name", out->name, sizeof out->name);
    fields_u32(&f, "actor_uid", &out->actor_uid);
    fields_i32(&f, "actor_pid", &out->actor_pid);
    read_protos(&f, out);
    return f.status;
}
