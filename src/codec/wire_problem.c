/* SPDX-License-Identifier: MIT */
/* Errors as RFC 9457 problem documents, with every member of dibs_err; and the state of the daemon. */
#include <errno.h>

#include "codec/wire_fields.h"

#include "base/banned.h"

/* Return whether the request needs a protocol, an address or a level of holding that this host does not have.
 */
static bool is_unprocessable(int os_errno)
{
    return os_errno == EPROTONOSUPPORT || os_errno == EAFNOSUPPORT || os_errno == EADDRNOTAVAIL ||
           os_errno == EOPNOTSUPP;
}

int wire_http_status(const dibs_err *err)
{
    switch (err->code) {
    case DIBS_OK: return 200;
    case DIBS_FAILURE: return is_unprocessable(err->os_errno) ? 422 : 500;
    case DIBS_INVALID: return 400;
    case DIBS_TAKEN: return 409;
    case DIBS_EXHAUSTED: return 507;
    case DIBS_NOT_FOUND: return 404;
    case DIBS_UNAVAILABLE: return 503;
    case DIBS_DENIED: return 403;
    }
    return 500;
}

#define B(type, member, key, flags) FIELD(type, dibs_blocker, member, key, flags)
static const struct field blocker_fields[] = {
    FIELD_WORDS(dibs_blocker, relation, "relation", 0, words_relation),
    B(PORT, port, "port", 0),
    B(PROTO, proto, "proto", FIELD_BRIEF),
    B(ADDRESS, address, "address", FIELD_BRIEF),
    B(TEXT, name, "name", FIELD_BRIEF),
    B(I32, pid, "pid", FIELD_BRIEF),
    B(U32, uid, "uid", 0),
    B(RAW, command, "command", FIELD_BRIEF),
    B(WALL, since_ms, "since", FIELD_BRIEF),
    B(MS, since_ms, "since_ms", FIELD_BRIEF),
    B(BOOL, differs, "differs", FIELD_BRIEF),
    { 0 },
};

void wire_blocker(struct jsonw *w, const dibs_blocker *blocker)
{
    jsonw_key(w, "blocker");
    fields_object(w, blocker_fields, blocker);
}

void wire_problem(struct jsonw *w, const dibs_err *err, int status)
{
    jsonw_object(w);
    jsonw_key_string(w, "type", "about:blank");
    jsonw_key_string(w, "title", dibs_status_text(err->code));
    jsonw_key_int(w, "status", status);
    jsonw_key_string(w, "detail", err->msg);
    jsonw_key_int(w, "code", err->code);
    if (err->trouble != DIBS_TROUBLE_NONE)
        jsonw_key_string(w, "trouble", words_at(&words_trouble, err->trouble));
    if (err->os_errno != 0)
        jsonw_key_int(w, "os_errno", err->os_errno);
    if (err->blocker.relation != DIBS_REL_NONE)
        wire_blocker(w, &err->blocker);
    jsonw_end_object(w);
}

bool wire_problem_read(const jsonr_value *v, dibs_err *out)
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
    FIELDS_NUMBER(&f, "os_errno", INT32_MIN, INT32_MAX, &found.os_errno);
    if (f.status != DIBS_OK)
        return false;
    fields_word(&f, "trouble", &words_trouble, &trouble); /* unknown ones of a newer daemon are ignored */
    found.code = (dibs_status) code;
    found.trouble = (dibs_trouble) trouble;
    if (fields_read_answer(jsonr_get(v, "blocker"), blocker_fields, &found.blocker, sizeof found.blocker,
                           NULL) != DIBS_OK)
        found.blocker = (dibs_blocker){ 0 }; /* half a blocker would look like a complete one */
    *out = found;
    return true;
}

#define D(type, member, key, flags) FIELD(type, struct wire_daemon, member, key, flags)
static const struct field daemon_fields[] = {
    D(STRING, version, "version", FIELD_NEEDED),
    D(I32, pid, "pid", 0),
    D(STRING, principal, "principal", FIELD_NEEDED),
    D(BOOL, is_admin, "admin", 0),
    D(MS, boot_ms, "boot_ms", 0),
    D(TEXT, ledger, "ledger", 0),
    D(BOOL, enforces, "enforces", 0),
    { 0 },
};
WIRE_VALUE(daemon, struct wire_daemon)
