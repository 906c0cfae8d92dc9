/* SPDX-License-Identifier: MIT */
/* What is asked for: requests, batches with what they drop, and heirs. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "net/bindings.h"
#include "wire/fields.h"
#include "wire/words.h"

#include "base/banned.h"

/* Settings that a claim depends on, by the names that they have in JSON. */
static const struct {
    dibs_setting setting;
    const char *key;
} carried[] = {
    { DIBS_SET_RANGE, "range" },
    { DIBS_SET_POOL, "pool" },
    { DIBS_SET_BAND, "band" },
    { DIBS_SET_ORDER, "order" },
    { DIBS_SET_COOLDOWN, "cooldown" },
    { DIBS_SET_TTL, "ttl" },
    { DIBS_SET_ALLOW_EPHEMERAL, "allow_ephemeral" },
};
#define N_CARRIED (sizeof carried / sizeof carried[0])

#define REQUEST_KEYS                                                                                   \
    "name", "project", "project_base64", "pool", "ranges", "mode", "port", "holder", "keep", "lookup", \
        "adopt", "run", "bindings"

/* ---- writing ---- */

static bool has_settings(const dibs_settings *settings)
{
    for (size_t i = 0; i < N_CARRIED; i++)
        if (settings->source[carried[i].setting] != DIBS_FROM_DEFAULT)
            return true;
    return false;
}

static void write_settings(struct json_writer *w, const dibs_settings *settings)
{
    char value[DIBS_SETTING_VALUE_MAX + 1];

    json_object(w);
    for (size_t i = 0; i < N_CARRIED; i++) {
        if (settings->source[carried[i].setting] == DIBS_FROM_DEFAULT)
            continue;
        dibs_setting_format(settings, carried[i].setting, value);
        json_key_string(w, carried[i].key, value);
    }
    json_end_object(w);
}

static void write_settings_member(struct json_writer *w, const dibs_settings *settings)
{
    if (!settings || !has_settings(settings))
        return;
    json_key(w, "settings");
    write_settings(w, settings);
}

void wire_settings_param(struct bytes *to, const dibs_settings *settings)
{
    struct bytes text = { 0 };
    struct json_writer w;

    if (!settings || !has_settings(settings))
        return;
    json_begin_bytes(&w, &text);
    write_settings(&w, settings);
    bytes_add(&text, "", 1);
    to->is_lost = to->is_lost || text.is_lost;
    if (!text.is_lost)
        wire_param(to, "settings", text.at);
    bytes_done(&text);
}

static void write_holder(struct json_writer *w, const dibs_heir *heir)
{
    json_key(w, "holder");
    if (heir->holder == DIBS_HELD_BY_NOBODY) {
        json_null(w);
        return;
    }
    json_object(w);
    json_key_string(w, "kind", words_at(words_holder, WORDS_HOLDER, heir->holder));
    if (heir->holder == DIBS_HELD_BY_PROCESS)
        json_key_int(w, "pid", heir->pid);
    if (heir->holder == DIBS_HELD_BY_LEASE)
        field_ttl(w, "ttl", heir->ttl_ms);
    json_end_object(w);
}

static void write_bindings(struct json_writer *w, const dibs_request *r)
{
    json_key(w, "bindings");
    json_array(w);
    for (size_t i = 0; i < r->n_bindings && i < DIBS_BINDINGS_MAX; i++) {
        json_object(w);
        field_binding(w, r->bindings[i].proto, &r->bindings[i].address);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_members(struct json_writer *w, const dibs_request *r)
{
    char ranges[DIBS_RANGES_TEXT_MAX + 1] = "";

    if (r->name)
        json_key_string(w, "name", r->name);
    if (r->project)
        field_raw_or_null(w, "project", r->project);
    if (r->pool)
        json_key_string(w, "pool", r->pool);
    if (r->ranges) {
        dibs_ranges_format(r->ranges, ranges);
        json_key_string(w, "ranges", ranges);
    }
    json_key_string(w, "mode", words_at(words_mode, WORDS_MODE, r->mode));
    if (r->mode != DIBS_RANDOM && r->port) /* without a mode that uses it nobody looks at it */
        json_key_uint(w, "port", r->port);
    write_holder(w, &(dibs_heir){ .holder = r->holder, .pid = r->pid, .ttl_ms = r->ttl_ms });
    if (r->keep)
        json_key_bool(w, "keep", true);
    if (r->is_lookup)
        json_key_bool(w, "lookup", true);
    if (r->is_adopted)
        json_key_bool(w, "adopt", true);
    if (r->run)
        json_key_uint(w, "run", r->run);
    if (r->n_bindings > 0)
        write_bindings(w, r);
}

void wire_request(struct json_writer *w, const dibs_request *request, const dibs_settings *settings)
{
    json_object(w);
    write_members(w, request);
    write_settings_member(w, settings);
    json_end_object(w);
}

void wire_batch(struct json_writer *w, const dibs_batch *batch, const dibs_settings *settings)
{
    json_object(w);
    json_key(w, "requests");
    json_array(w);
    for (size_t i = 0; i < batch->n; i++)
        wire_request(w, &batch->requests[i], NULL);
    json_end_array(w);
    json_key(w, "drops");
    json_array(w);
    for (size_t i = 0; i < batch->n_drops; i++) {
        json_object(w);
        json_key(w, "claim");
        wire_claim(w, batch->drops[i].claim, false);
        json_key_bool(w, "frees_name", batch->drops[i].frees_name);
        json_key_bool(w, "stays", batch->drops[i].stays);
        json_key_uint(w, "shared_bytes", batch->drops[i].shared_bytes);
        json_end_object(w);
    }
    json_end_array(w);
    json_key_bool(w, "contiguous", batch->is_contiguous);
    json_key_uint(w, "align", batch->align);
    json_key_bool(w, "dry_run", batch->is_dry_run);
    write_settings_member(w, settings);
    json_end_object(w);
}

void wire_heir(struct json_writer *w, const dibs_heir *heir)
{
    json_object(w);
    write_holder(w, heir);
    json_key_bool(w, "keep", heir->keep);
    json_end_object(w);
}

void wire_ttl(struct json_writer *w, int64_t ttl_ms)
{
    json_object(w);
    field_ttl(w, "ttl", ttl_ms);
    json_end_object(w);
}

/* ---- reading ---- */

static dibs_status read_holder(const json_value *v, int64_t ttl_ms, dibs_heir *out, dibs_err *err)
{
    static const char *const known[] = { "kind", "pid", "ttl", NULL };
    struct fields f = { 0 };
    unsigned kind = DIBS_HELD_BY_NOBODY;

    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_need(&f, "kind");
    fields_word(&f, "kind", words_holder, WORDS_HOLDER, &kind);
    out->holder = (dibs_holder) kind;
    if (kind == DIBS_HELD_BY_LEASE)
        out->ttl_ms = ttl_ms;
    fields_i32(&f, "pid", &out->pid);
    fields_ttl(&f, "ttl", &out->ttl_ms);
    if (kind == DIBS_HELD_BY_LEASE ? fields_has(&f, "pid") : fields_has(&f, "ttl"))
        fields_bad(&f, "kind", "process with \"pid\", or lease with \"ttl\"");
    return f.status == DIBS_OK ? DIBS_OK : err_wrap(err, f.status, "\"holder\"");
}

static dibs_status read_binding(const json_value *v, dibs_request *out, dibs_err *err)
{
    static const char *const known[] = { "proto", "address", NULL };
    struct fields f = { 0 };
    dibs_proto protos[BINDINGS_PROTOS_MAX] = { 0 };
    const char *proto = "tcp";
    const char *address = "*";
    size_t n = 0;

    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_borrow(&f, "proto", &proto);
    fields_borrow(&f, "address", &address);
    if (f.status == DIBS_OK)
        f.status = bindings_protos(proto, protos, &n, err);
    return f.status == DIBS_OK ? bindings_add(address, protos, n, out->bindings, &out->n_bindings, err)
                               : f.status;
}

static void read_bindings(struct fields *f, dibs_request *out)
{
    const json_value *list = json_get(f->object, "bindings");

    if (!fields_has(f, "bindings"))
        return;
    if (!json_is_array(list))
        fields_bad(f, "bindings", "a list");
    for (size_t i = 0; i < json_array_size(list) && f->status == DIBS_OK; i++) {
        f->status = read_binding(json_array_at(list, i), out, f->err);
        if (f->status != DIBS_OK)
            (void) err_wrap(f->err, f->status, "bindings[%zu]", i);
    }
}

static void read_ranges(struct fields *f, struct wire_asked *asked, size_t i)
{
    const char *text = NULL;

    fields_borrow(f, "ranges", &text);
    if (!text)
        return;
    if (!asked->ranges)
        asked->ranges = calloc(asked->batch.n, sizeof *asked->ranges);
    if (!asked->ranges)
        f->status = err_set(f->err, DIBS_FAILURE, "out of memory");
    else if (dibs_ranges_parse(text, &asked->ranges[i], f->err) != DIBS_OK)
        f->status = err_wrap(f->err, DIBS_INVALID, "\"ranges\"");
    else
        asked->requests[i].ranges = &asked->ranges[i];
}

static void read_project(struct fields *f, struct wire_asked *asked, size_t i)
{
    if (!fields_has(f, "project_base64")) {
        fields_borrow(f, "project", &asked->requests[i].project);
        return;
    }
    if (!asked->projects)
        asked->projects = calloc(asked->batch.n, sizeof *asked->projects);
    if (!asked->projects) {
        f->status = err_set(f->err, DIBS_FAILURE, "out of memory");
        return;
    }
    fields_raw(f, "project", asked->projects[i], sizeof asked->projects[i]);
    asked->requests[i].project = asked->projects[i];
}

/* Names and pools are looked up and shown: what steers a terminal is none. */
static void read_shown(struct fields *f, const char *key, const char **out)
{
    fields_borrow(f, key, out);
    for (const char *c = *out; c && *c && f->status == DIBS_OK; c++)
        if ((unsigned char) *c < 0x20 || *c == 0x7f)
            fields_bad(f, key, "a text without control characters");
}

/* A port that is not there, or that nobody would look at, is a slip of who asks. */
static void read_port(struct fields *f, dibs_request *out)
{
    unsigned mode = DIBS_RANDOM;

    fields_word(f, "mode", words_mode, WORDS_MODE, &mode);
    out->mode = (dibs_mode) mode;
    fields_port(f, "port", &out->port);
    if (mode == DIBS_RANDOM && out->port != 0)
        fields_bad(f, "mode", "required or preferred, when there is a \"port\"");
    if (mode != DIBS_RANDOM && out->port == 0)
        fields_bad(f, "port", "given in this mode: between 1 and 65535");
}

static void read_members(struct fields *f, int64_t ttl_ms, struct wire_asked *asked, size_t i)
{
    dibs_request *out = &asked->requests[i];
    const json_value *holder = f->status == DIBS_OK ? json_get(f->object, "holder") : NULL;
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY };

    read_shown(f, "name", &out->name);
    read_project(f, asked, i);
    read_shown(f, "pool", &out->pool);
    read_ranges(f, asked, i);
    read_port(f, out);
    fields_bool(f, "keep", &out->keep);
    fields_bool(f, "lookup", &out->is_lookup);
    fields_bool(f, "adopt", &out->is_adopted);
    fields_u32(f, "run", &out->run);
    read_bindings(f, out);
    if (!holder) /* nobody was named, as in `dibs claim` */
        heir = (dibs_heir){ .holder = DIBS_HELD_BY_LEASE, .ttl_ms = ttl_ms };
    else if (f->status == DIBS_OK && !json_is_null(holder))
        f->status = read_holder(holder, ttl_ms, &heir, f->err);
    out->holder = heir.holder;
    out->pid = heir.pid;
    out->ttl_ms = heir.ttl_ms;
}

static dibs_status read_settings(const json_value *v, struct wire_asked *out, int64_t *ttl_ms, dibs_err *err)
{
    static const char *const known[] = { "range",           "pool", "band", "order", "cooldown", "ttl",
                                         "allow_ephemeral", NULL };
    struct fields f = { 0 };
    bool is_true = false;

    fields_begin(&f, v, known, WIRE_ASKED, err);
    for (size_t i = 0; i < N_CARRIED; i++) {
        const char **value = &out->settings[carried[i].setting];

        if (json_get_bool(v, carried[i].key, &is_true))
            *value = is_true ? "true" : "false";
        else
            read_shown(&f, carried[i].key, value);
        out->has_settings = out->has_settings || *value;
    }
    fields_ttl(&f, "ttl", ttl_ms);
    return f.status == DIBS_OK ? DIBS_OK : err_wrap(err, f.status, "\"settings\"");
}

static void read_settings_member(struct fields *f, struct wire_asked *out, int64_t *ttl_ms)
{
    if (fields_has(f, "settings"))
        f->status = read_settings(json_get(f->object, "settings"), out, ttl_ms, f->err);
}

dibs_status wire_settings_read(const char *text, struct wire_asked *out, dibs_err *err)
{
    int64_t ttl_ms = 0;
    dibs_status status = json_parse(text, strlen(text), &out->doc, err);

    return status == DIBS_OK ? read_settings(json_root(out->doc), out, &ttl_ms, err) : status;
}

static dibs_status hold_requests(struct wire_asked *out, size_t n, dibs_err *err)
{
    if (n > DIBS_BATCH_MAX)
        return err_set(err, DIBS_INVALID, "a batch has at most %d claims", DIBS_BATCH_MAX);
    out->requests = calloc(n + 1, sizeof *out->requests);
    if (!out->requests)
        return err_set(err, DIBS_FAILURE, "out of memory");
    out->batch.requests = out->requests;
    out->batch.n = n;
    return DIBS_OK;
}

dibs_status wire_request_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out,
                              dibs_err *err)
{
    static const char *const known[] = { REQUEST_KEYS, "settings", NULL };
    struct fields f = { 0 };
    dibs_status status = json_parse(text, n, &out->doc, err);

    if (status == DIBS_OK)
        status = hold_requests(out, 1, err);
    if (status != DIBS_OK)
        return status;
    fields_begin(&f, json_root(out->doc), known, WIRE_ASKED, err);
    read_settings_member(&f, out, &ttl_ms);
    read_members(&f, ttl_ms, out, 0);
    return f.status;
}

static dibs_status read_requests(const json_value *list, int64_t ttl_ms, struct wire_asked *out,
                                 dibs_err *err)
{
    static const char *const known[] = { REQUEST_KEYS, NULL };
    dibs_status status = hold_requests(out, json_array_size(list), err);

    for (size_t i = 0; i < out->batch.n && status == DIBS_OK; i++) {
        struct fields f = { 0 };

        fields_begin(&f, json_array_at(list, i), known, WIRE_ASKED, err);
        read_members(&f, ttl_ms, out, i);
        if (f.status != DIBS_OK)
            status = err_wrap(err, f.status, "requests[%zu]", i);
    }
    return status;
}

static dibs_status read_drops(const json_value *list, struct wire_asked *out, dibs_err *err)
{
    static const char *const known[] = { "claim", "frees_name", "stays", "shared_bytes", NULL };
    size_t n = json_array_size(list);
    dibs_status status = DIBS_OK;

    out->drops = calloc(n + 1, sizeof *out->drops);
    out->dropped = calloc(n + 1, sizeof *out->dropped);
    if (!out->drops || !out->dropped)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < n && status == DIBS_OK; i++) {
        const json_value *item = json_array_at(list, i);
        struct fields f = { 0 };

        fields_begin(&f, item, known, WIRE_ASKED, err);
        fields_bool(&f, "frees_name", &out->drops[i].frees_name);
        fields_bool(&f, "stays", &out->drops[i].stays);
        fields_u32(&f, "shared_bytes", &out->drops[i].shared_bytes);
        if (f.status == DIBS_OK)
            f.status = wire_claim_read(json_get(item, "claim"), WIRE_ASKED, &out->dropped[i], err);
        if (f.status != DIBS_OK)
            status = err_wrap(err, f.status, "drops[%zu]", i);
        out->drops[i].claim = &out->dropped[i];
    }
    out->batch.drops = out->drops;
    out->batch.n_drops = n;
    return status;
}

dibs_status wire_batch_read(const char *text, size_t n, int64_t ttl_ms, struct wire_asked *out, dibs_err *err)
{
    static const char *const known[] = { "requests", "drops",    "contiguous", "align",
                                         "dry_run",  "settings", NULL };
    static const char *const lists[] = { "requests", "drops" };
    struct fields f = { 0 };
    dibs_status status = json_parse(text, n, &out->doc, err);

    if (status != DIBS_OK)
        return status;
    const json_value *root = json_root(out->doc);

    fields_begin(&f, root, known, WIRE_ASKED, err);
    for (size_t i = 0; i < 2; i++)
        if (fields_has(&f, lists[i]) && !json_is_array(json_get(root, lists[i])))
            fields_bad(&f, lists[i], "a list");
    read_settings_member(&f, out, &ttl_ms);
    fields_bool(&f, "contiguous", &out->batch.is_contiguous);
    fields_u32(&f, "align", &out->batch.align);
    fields_bool(&f, "dry_run", &out->batch.is_dry_run);
    if (f.status == DIBS_OK)
        f.status = read_requests(json_get(root, "requests"), ttl_ms, out, err);
    return f.status == DIBS_OK ? read_drops(json_get(root, "drops"), out, err) : f.status;
}

void wire_asked_done(struct wire_asked *asked)
{
    json_free(asked->doc);
    free(asked->requests);
    free(asked->ranges);
    free(asked->drops);
    free(asked->dropped);
    free(asked->projects);
    *asked = (struct wire_asked){ 0 };
}

dibs_status wire_heir_read(const json_value *v, int64_t ttl_ms, dibs_heir *out, dibs_err *err)
{
    static const char *const known[] = { "holder", "keep", NULL };
    struct fields f = { 0 };

    *out = (dibs_heir){ .holder = DIBS_HELD_BY_NOBODY };
    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_bool(&f, "keep", &out->keep);
    if (fields_has(&f, "holder"))
        f.status = read_holder(json_get(v, "holder"), ttl_ms, out, err);
    return f.status;
}

dibs_status wire_ttl_read(const json_value *v, int64_t *ttl_ms, dibs_err *err)
{
    static const char *const known[] = { "ttl", NULL };
    struct fields f = { 0 };

    fields_begin(&f, v, known, WIRE_ASKED, err);
    fields_need(&f, "ttl");
    fields_ttl(&f, "ttl", ttl_ms);
    return f.status;
}
