/* SPDX-License-Identifier: MIT */
/* Requests as JSON: single ones, batches with their drops, and heirs. */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "codec/wire_fields.h"
#include "net/bindings.h"

#include "base/banned.h"

/* Settings that a claim depends on, with their names in JSON. */
static const struct {
    dibs_setting setting;
    const char *key;
    bool is_switch; /* also true or false instead of a text */
} carried[] = {
    { DIBS_SET_RANGE, "range", false },
    { DIBS_SET_POOL, "pool", false },
    { DIBS_SET_BAND, "band", false },
    { DIBS_SET_ORDER, "order", false },
    { DIBS_SET_COOLDOWN, "cooldown", false },
    { DIBS_SET_TTL, "ttl", false },
    { DIBS_SET_ALLOW_EPHEMERAL, "allow_ephemeral", true },
    { DIBS_SET_ALLOW_BLOCKED, "allow_blocked", true },
};
#define N_CARRIED (sizeof carried / sizeof carried[0])

/* Context for reading the members of a request. */
struct reading {
    struct wire_asked *asked;
    int64_t ttl_ms; /* for a lease without a TTL */
};

/* Allocate zeroed memory that wire_asked_done() frees. NULL: f->status has the reason. */
static void *take(struct fields *f, size_t n)
{
    void *memory = arena_take(&((const struct reading *) f->ctx)->asked->arena, n);

    if (!memory)
        f->status = err_set(f->err, DIBS_FAILURE, "out of memory");
    return memory;
}

/* ---- settings ---- */

static bool has_settings(const dibs_settings *settings)
{
    for (size_t i = 0; i < N_CARRIED; i++)
        if (settings->source[carried[i].setting] != DIBS_FROM_DEFAULT)
            return true;
    return false;
}

static void write_settings(struct jsonw *w, const dibs_settings *settings)
{
    char value[DIBS_SETTING_VALUE_MAX + 1];

    jsonw_object(w);
    for (size_t i = 0; i < N_CARRIED; i++) {
        if (settings->source[carried[i].setting] == DIBS_FROM_DEFAULT)
            continue;
        dibs_setting_format(settings, carried[i].setting, value);
        jsonw_key_string(w, carried[i].key, value);
    }
    jsonw_end_object(w);
}

static void write_settings_member(struct jsonw *w, const dibs_settings *settings)
{
    if (!settings || !has_settings(settings))
        return;
    jsonw_key(w, "settings");
    write_settings(w, settings);
}

void wire_settings_param(struct bytes *to, const dibs_settings *settings)
{
    struct bytes text = { 0 };
    struct jsonw w;

    if (!settings || !has_settings(settings))
        return;
    jsonw_begin_bytes(&w, &text);
    write_settings(&w, settings);
    bytes_add(&text, "", 1);
    to->is_lost = to->is_lost || text.is_lost;
    if (!text.is_lost)
        wire_param(to, "settings", text.at);
    bytes_done(&text);
}

static dibs_status read_settings(const jsonr_value *v, struct wire_asked *out, int64_t *ttl_ms, dibs_err *err)
{
    const char *known[N_CARRIED + 1] = { NULL };
    struct fields f = { 0 };
    bool is_true = false;

    for (size_t i = 0; i < N_CARRIED; i++)
        known[i] = carried[i].key;
    fields_begin(&f, v, known, WIRE_ASKED, err);
    for (size_t i = 0; i < N_CARRIED; i++) {
        const char **value = &out->settings[carried[i].setting];

        if (carried[i].is_switch && jsonr_get_bool(v, carried[i].key, &is_true))
            *value = is_true ? "true" : "false";
        else
            fields_shown(&f, carried[i].key, value);
        out->has_settings = out->has_settings || *value;
    }
    fields_ttl(&f, "ttl", ttl_ms);
    return f.status == DIBS_OK ? DIBS_OK : err_wrap(err, f.status, "\"settings\"");
}

static void read_settings_member(struct fields *f, void *object)
{
    struct reading *r = f->ctx;

    (void) object;
    if (fields_has(f, "settings"))
        f->status = read_settings(jsonr_get(f->object, "settings"), r->asked, &r->ttl_ms, f->err);
}

dibs_status wire_settings_read(const char *text, struct wire_asked *out, dibs_err *err)
{
    int64_t ttl_ms = 0;
    dibs_status status = jsonr_parse(text, strlen(text), &out->doc, err);

    return status == DIBS_OK ? read_settings(jsonr_root(out->doc), out, &ttl_ms, err) : status;
}

/* ---- holders ---- */

static void write_holder(struct jsonw *w, const dibs_heir *heir)
{
    jsonw_key(w, "holder");
    if (heir->holder == DIBS_HELD_BY_NOBODY) {
        jsonw_null(w);
        return;
    }
    jsonw_object(w);
    jsonw_key_string(w, "kind", words_at(&words_holder, heir->holder));
    if (heir->holder == DIBS_HELD_BY_PROCESS)
        jsonw_key_int(w, "pid", heir->pid);
    if (heir->holder == DIBS_HELD_BY_LEASE)
        field_ttl(w, "ttl", heir->ttl_ms);
    jsonw_end_object(w);
}

static dibs_status read_holder(const jsonr_value *v, int64_t ttl_ms, dibs_heir *out, dibs_err *err)
{
    static const char *const known[] = { "kind", "pid", "ttl", NULL };
    struct fields f = { 0 };
    unsigned kind = DIBS_HELD_BY_NOBODY;

    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_need(&f, "kind");
    fields_word(&f, "kind", &words_holder, &kind);
    out->holder = (dibs_holder) kind;
    if (kind == DIBS_HELD_BY_LEASE)
        out->ttl_ms = ttl_ms;
    FIELDS_NUMBER(&f, "pid", INT32_MIN, INT32_MAX, &out->pid);
    fields_ttl(&f, "ttl", &out->ttl_ms);
    if (kind == DIBS_HELD_BY_LEASE ? fields_has(&f, "pid") : fields_has(&f, "ttl"))
        fields_bad(&f, "kind", "process with \"pid\", or lease with \"ttl\"");
    return f.status == DIBS_OK ? DIBS_OK : err_wrap(err, f.status, "\"holder\"");
}

static void write_request_holder(struct jsonw *w, const void *object)
{
    const dibs_request *r = object;

    write_holder(w, &(dibs_heir){ .holder = r->holder, .pid = r->pid, .ttl_ms = r->ttl_ms });
}

/* Absent: no holder was named, as in `dibs claim`. */
static void read_request_holder(struct fields *f, void *object)
{
    const struct reading *r = f->ctx;
    dibs_request *out = object;
    const jsonr_value *holder = jsonr_get(f->object, "holder");
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY };

    if (!holder)
        heir = (dibs_heir){ .holder = DIBS_HELD_BY_LEASE, .ttl_ms = r->ttl_ms };
    else if (!jsonr_is_null(holder))
        f->status = read_holder(holder, r->ttl_ms, &heir, f->err);
    out->holder = heir.holder;
    out->pid = heir.pid;
    out->ttl_ms = heir.ttl_ms;
}

void wire_heir(struct jsonw *w, const dibs_heir *heir)
{
    jsonw_object(w);
    write_holder(w, heir);
    jsonw_key_bool(w, "keep", heir->keep);
    jsonw_end_object(w);
}

void wire_ttl(struct jsonw *w, int64_t ttl_ms)
{
    jsonw_object(w);
    field_ttl(w, "ttl", ttl_ms);
    jsonw_end_object(w);
}

dibs_status wire_heir_read(const jsonr_value *v, int64_t ttl_ms, dibs_heir *out, dibs_err *err)
{
    static const char *const known[] = { "holder", "keep", NULL };
    struct fields f = { 0 };

    *out = (dibs_heir){ .holder = DIBS_HELD_BY_NOBODY };
    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_bool(&f, "keep", &out->keep);
    if (fields_has(&f, "holder"))
        f.status = read_holder(jsonr_get(v, "holder"), ttl_ms, out, err);
    return f.status;
}

dibs_status wire_ttl_read(const jsonr_value *v, int64_t *ttl_ms, dibs_err *err)
{
    static const char *const known[] = { "ttl", NULL };
    struct fields f = { 0 };

    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_need(&f, "ttl");
    fields_ttl(&f, "ttl", ttl_ms);
    return f.status;
}

/* ---- requests ---- */

static void write_bindings(struct jsonw *w, const void *object)
{
    const dibs_request *r = object;

    if (r->n_bindings > 0)
        field_list(w, "bindings", binding_fields, r->bindings, sizeof r->bindings[0],
                   r->n_bindings < DIBS_BINDINGS_MAX ? r->n_bindings : DIBS_BINDINGS_MAX);
}

static dibs_status read_binding(const jsonr_value *v, dibs_request *out, dibs_err *err)
{
    static const char *const known[] = { "proto", "address", NULL };
    struct fields f = { 0 };
    dibs_proto protos[PROTO_LIST_MAX] = { 0 };
    const char *proto = "tcp";
    const char *address = "*";
    size_t n = 0;

    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_borrow(&f, "proto", &proto);
    fields_borrow(&f, "address", &address);
    if (f.status == DIBS_OK)
        f.status = proto_list(proto, protos, &n, err);
    return f.status == DIBS_OK ? bindings_add(address, protos, n, out->bindings, &out->n_bindings, err)
                               : f.status;
}

static void read_bindings(struct fields *f, void *object)
{
    size_t n = 0;
    const jsonr_value *list = fields_list(f, "bindings", SIZE_MAX, &n);

    for (size_t i = 0; i < n && f->status == DIBS_OK; i++) {
        f->status = read_binding(jsonr_array_at(list, i), object, f->err);
        if (f->status != DIBS_OK)
            (void) err_wrap(f->err, f->status, "bindings[%zu]", i);
    }
}

static void write_ranges(struct jsonw *w, const void *object)
{
    const dibs_request *r = object;
    char ranges[DIBS_RANGES_TEXT_MAX + 1] = "";

    if (!r->ranges)
        return;
    dibs_ranges_format(r->ranges, ranges);
    jsonw_key_string(w, "ranges", ranges);
}

static void read_ranges(struct fields *f, void *object)
{
    dibs_request *out = object;
    const char *text = NULL;

    fields_borrow(f, "ranges", &text);
    dibs_ranges *ranges = text ? take(f, sizeof *ranges) : NULL;
    if (ranges && dibs_ranges_parse(text, ranges, f->err) != DIBS_OK)
        f->status = err_wrap(f->err, DIBS_INVALID, "\"ranges\"");
    out->ranges = ranges;
}

static void write_project(struct jsonw *w, const void *object)
{
    const dibs_request *r = object;

    if (r->project)
        field_raw_or_null(w, "project", r->project);
}

static void read_project(struct fields *f, void *object)
{
    dibs_request *out = object;
    char *project = fields_has(f, "project_base64") ? take(f, DIBS_PROJECT_MAX + 1) : NULL;

    if (project)
        fields_raw(f, "project", project, DIBS_PROJECT_MAX + 1);
    else
        fields_borrow(f, "project", &out->project);
    if (project)
        out->project = project;
}

/* Write the port only for modes that use it. */
static void write_port(struct jsonw *w, const void *object)
{
    const dibs_request *r = object;

    if (r->mode != DIBS_RANDOM && r->port)
        jsonw_key_uint(w, "port", r->port);
}

/* Refuse a mode without its port, and a port that the mode would ignore. */
static void read_port(struct fields *f, void *object)
{
    dibs_request *out = object;

    FIELDS_NUMBER(f, "port", 0, DIBS_PORT_MAX, &out->port);
    if (out->mode == DIBS_RANDOM && out->port != 0)
        fields_bad(f, "mode", "required or preferred, when there is a \"port\"");
    if (out->mode != DIBS_RANDOM && out->port == 0)
        fields_bad(f, "port", "given in this mode: between 1 and 65535");
}

/* Older daemons do not know it: say nothing unless a level is asked for. */
static void write_hold(struct jsonw *w, const void *object)
{
    const dibs_request *r = object;

    if (r->hold != DIBS_HOLD_AUTO)
        jsonw_key_string(w, "hold", words_at(&words_hold, r->hold));
}

static void read_hold(struct fields *f, void *object)
{
    unsigned hold = DIBS_HOLD_AUTO;

    fields_word(f, "hold", &words_hold, &hold);
    ((dibs_request *) object)->hold = (dibs_hold) hold;
}

#define R(type, member, key) FIELD(type, dibs_request, member, key, FIELD_BRIEF)
/* The settings are a member of a single request. They are read first, because the rest depends on them, and
 * written separately, because they are not part of dibs_request. */
static const struct field request_fields[] = {
    { .key = "settings", .type = FIELD_OWN, .read = read_settings_member },
    R(SHOWN, name, "name"),
    FIELD_OWNED("project", 0, project),
    { .key = "project_base64", .type = FIELD_KNOWN },
    R(SHOWN, pool, "pool"),
    FIELD_OWNED("ranges", 0, ranges),
    FIELD_WORDS(dibs_request, mode, "mode", 0, words_mode),
    FIELD_OWNED("port", 0, port),
    FIELD_OWNED("holder", 0, request_holder),
    R(BOOL, keep, "keep"),
    R(BOOL, is_lookup, "lookup"),
    R(BOOL, is_adopted, "adopt"),
    R(U32, run, "run"),
    FIELD_OWNED("hold", 0, hold),
    R(BOOL, is_reuser, "reuse"),
    R(PORT, as_port, "as"), /* older daemons do not know it */
    FIELD_OWNED("bindings", 0, bindings),
    R(SHOWN, env, "env"), /* older daemons do not know it */
    { 0 },
};
static const struct field *const batched_fields = request_fields + 1;

void wire_request(struct jsonw *w, const dibs_request *request, const dibs_settings *settings)
{
    jsonw_object(w);
    fields_write(w, batched_fields, request);
    write_settings_member(w, settings);
    jsonw_end_object(w);
}

static void hold_requests(struct fields *f, size_t n)
{
    struct wire_asked *asked = ((const struct reading *) f->ctx)->asked;

    if (n > DIBS_BATCH_MAX)
        f->status = err_set(f->err, DIBS_INVALID, "a batch has at most %d claims", DIBS_BATCH_MAX);
    else
        asked->requests = take(f, n * sizeof *asked->requests);
    asked->batch.requests = asked->requests;
    asked->batch.n = asked->requests ? n : 0;
}

dibs_status wire_request_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out,
                              dibs_err *err)
{
    struct reading r = { .asked = out, .ttl_ms = ttl_ms };
    struct fields f = { .from = WIRE_ASKED, .err = err, .ctx = &r };

    f.status = jsonr_parse(text, n, &out->doc, err);
    if (f.status == DIBS_OK)
        hold_requests(&f, 1);
    if (f.status == DIBS_OK)
        fields_read(&f, jsonr_root(out->doc), request_fields, out->requests);
    return f.status;
}

/* ---- batches ---- */

static void write_requests(struct jsonw *w, const void *object)
{
    const dibs_batch *batch = object;

    field_list(w, "requests", batched_fields, batch->requests, sizeof *batch->requests, batch->n);
}

static void read_requests(struct fields *f, void *object)
{
    const struct reading *r = f->ctx;
    size_t n = 0;

    (void) object;
    (void) fields_list(f, "requests", SIZE_MAX, &n);
    if (f->status == DIBS_OK)
        hold_requests(f, n);
    fields_items(f, "requests", batched_fields, r->asked->requests, sizeof *r->asked->requests);
}

static void write_drop_claim(struct jsonw *w, const void *object)
{
    jsonw_key(w, "claim");
    wire_claim(w, ((const dibs_drop *) object)->claim, false);
}

static void read_drop_claim(struct fields *f, void *object)
{
    dibs_claim *claim = take(f, sizeof *claim);

    if (claim)
        f->status = wire_claim_read(jsonr_get(f->object, "claim"), f->from, claim, f->err);
    ((dibs_drop *) object)->claim = claim;
}

static const struct field drop_fields[] = {
    FIELD_OWNED("claim", 0, drop_claim),
    FIELD(BOOL, dibs_drop, frees_name, "frees_name", 0),
    FIELD(BOOL, dibs_drop, stays, "stays", 0),
    FIELD(U32, dibs_drop, shared_bytes, "shared_bytes", 0),
    { 0 },
};

static void write_drops(struct jsonw *w, const void *object)
{
    const dibs_batch *batch = object;

    field_list(w, "drops", drop_fields, batch->drops, sizeof *batch->drops, batch->n_drops);
}

static void read_drops(struct fields *f, void *object)
{
    dibs_batch *batch = object;

    (void) fields_list(f, "drops", SIZE_MAX, &batch->n_drops);
    dibs_drop *drops = take(f, batch->n_drops * sizeof *drops);
    batch->drops = drops;
    fields_items(f, "drops", drop_fields, drops, sizeof *drops);
}

/* The settings are handled as in request_fields. */
static const struct field batch_fields[] = {
    { .key = "settings", .type = FIELD_OWN, .read = read_settings_member },
    FIELD_OWNED("requests", 0, requests),
    FIELD_OWNED("drops", 0, drops),
    FIELD(BOOL, dibs_batch, is_contiguous, "contiguous", 0),
    FIELD(U32, dibs_batch, align, "align", 0),
    FIELD(BOOL, dibs_batch, is_dry_run, "dry_run", 0),
    { 0 },
};

void wire_batch(struct jsonw *w, const dibs_batch *batch, const dibs_settings *settings)
{
    jsonw_object(w);
    fields_write(w, batch_fields + 1, batch);
    write_settings_member(w, settings);
    jsonw_end_object(w);
}

dibs_status wire_batch_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out, dibs_err *err)
{
    struct reading r = { .asked = out, .ttl_ms = ttl_ms };
    struct fields f = { .from = WIRE_ASKED, .err = err, .ctx = &r };
    dibs_status status = jsonr_parse(text, n, &out->doc, err);

    if (status != DIBS_OK)
        return status;
    fields_read(&f, jsonr_root(out->doc), batch_fields, &out->batch);
    return f.status;
}

void wire_asked_done(struct wire_asked *asked)
{
    jsonr_free(asked->doc);
    arena_free(asked->arena);
    *asked = (struct wire_asked){ 0 };
}
