/* SPDX-License-Identifier: MIT */
/* Errors as RFC 9457 has them, with all that a caller of the library would have got; and the daemon itself.
 */
#include "base/clock.h"
#include "base/text.h"
#include "wire/fields.h"
#include "wire/words.h"

#include "base/banned.h"

int wire_http_status(dibs_status code)
{
    switch (code) {
    case DIBS_OK: return 200;
    case DIBS_FAILURE: return 500;
    case DIBS_INVALID: return 400;
    case DIBS_TAKEN: return 409;
    case DIBS_EXHAUSTED: return 507;
    case DIBS_NOT_FOUND: return 404;
    case DIBS_UNAVAILABLE: return 503;
    case DIBS_DENIED: return 403;
    }
    return 500;
}

void wire_blocker(struct json_writer *w, const dibs_blocker *blocker)
{
    char since[32] = "";

    json_key(w, "blocker");
    json_object(w);
    json_key_string(w, "relation", words_at(words_relation, WORDS_RELATION, blocker->relation));
    json_key_uint(w, "port", blocker->port);
    if (blocker->address.len)
        field_binding(w, blocker->proto, &blocker->address);
    else if (blocker->proto)
        json_key_string(w, "proto", dibs_proto_text(blocker->proto));
    if (blocker->name[0])
        json_key_string(w, "name", blocker->name);
    if (blocker->pid)
        json_key_int(w, "pid", blocker->pid);
    json_key_uint(w, "uid", blocker->uid);
    if (blocker->command[0])
        field_raw_or_null(w, "command", blocker->command);
    if (blocker->since_ms > 0) {
        clock_wall_format(blocker->since_ms, since);
        json_key_string(w, "since", since);
        json_key_int(w, "since_ms", blocker->since_ms);
    }
    if (blocker->differs)
        json_key_bool(w, "differs", true);
    json_end_object(w);
}

void wire_problem(struct json_writer *w, const dibs_err *err, int status)
{
    json_object(w);
    json_key_string(w, "type", "about:blank");
    json_key_string(w, "title", dibs_status_text(err->code));
    json_key_int(w, "status", status);
    json_key_string(w, "detail", err->msg);
    json_key_int(w, "code", err->code);
    if (err->trouble != DIBS_TROUBLE_NONE)
        json_key_string(w, "trouble", words_at(words_trouble, WORDS_TROUBLE, err->trouble));
    if (err->os_errno != 0)
        json_key_int(w, "os_errno", err->os_errno);
    if (err->blocker.relation != DIBS_REL_NONE)
        wire_blocker(w, &err->blocker);
    json_end_object(w);
}

static void read_blocker(const json_value *v, dibs_blocker *out)
{
    struct fields f = { 0 };
    unsigned relation = DIBS_REL_NONE;

    fields_begin(&f, v, NULL, WIRE_ANSWERED, NULL);
    fields_word(&f, "relation", words_relation, WORDS_RELATION, &relation);
    out->relation = (dibs_relation) relation;
    fields_port(&f, "port", &out->port);
    fields_binding(&f, &out->proto, &out->address);
    fields_text(&f, "name", out->name, sizeof out->name);
    fields_i32(&f, "pid", &out->pid);
    fields_u32(&f, "uid", &out->uid);
    fields_raw(&f, "command", out->command, sizeof out->command);
    fields_int(&f, "since_ms", INT64_MIN, INT64_MAX, &out->since_ms);
    fields_bool(&f, "differs", &out->differs);
    if (f.status != DIBS_OK) /* half a blocker would be told as a whole one */
        *out = (dibs_blocker){ 0 };
}

bool wire_problem_read(const json_value *v, dibs_err *out)
{
    struct fields f = { 0 };
    dibs_err found = { 0 };
    int64_t code = 0;
    unsigned trouble = DIBS_TROUBLE_NONE;

    fields_begin(&f, v, NULL, WIRE_ANSWERED, NULL);
    fields_need(&f, "code");
    fields_need(&f, "detail");
    fields_int(&f, "code", DIBS_FAILURE, DIBS_DENIED, &code);
    fields_message(&f, "detail", found.msg, sizeof found.msg);
    fields_i32(&f, "os_errno", &found.os_errno);
    if (f.status != DIBS_OK)
        return false;
    fields_word(&f, "trouble", words_trouble, WORDS_TROUBLE, &trouble); /* of a newer daemon: none of ours */
    found.code = (dibs_status) code;
    found.trouble = (dibs_trouble) trouble;
    if (json_is_object(json_get(v, "blocker")))
        read_blocker(json_get(v, "blocker"), &found.blocker);
    *out = found;
    return true;
}

void wire_daemon(struct json_writer *w, const struct wire_daemon *daemon)
{
    json_object(w);
    json_key_string(w, "version", daemon->version);
    json_key_int(w, "pid", daemon->pid);
    json_key_string(w, "principal", daemon->principal);
    json_key_bool(w, "admin", daemon->is_admin);
    json_key_int(w, "boot_ms", daemon->boot_ms);
    field_text_or_null(w, "degraded", daemon->degraded);
    field_text_or_null(w, "ledger", daemon->ledger);
    json_end_object(w);
}

dibs_status wire_daemon_read(const json_value *v, struct wire_daemon *out, dibs_err *err)
{
    struct fields f = { 0 };

    *out = (struct wire_daemon){ 0 };
    fields_begin(&f, v, NULL, WIRE_ANSWERED, err);
    fields_need(&f, "version");
    fields_need(&f, "principal");
    fields_text(&f, "version", out->version, sizeof out->version);
    fields_i32(&f, "pid", &out->pid);
    fields_text(&f, "principal", out->principal, sizeof out->principal);
    fields_bool(&f, "admin", &out->is_admin);
    fields_int(&f, "boot_ms", INT64_MIN, INT64_MAX, &out->boot_ms);
    fields_message(&f, "degraded", out->degraded, sizeof out->degraded);
    fields_message(&f, "ledger", out->ledger, sizeof out->ledger);
    return f.status;
}
