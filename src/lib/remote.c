/* SPDX-License-Identifier: MIT */
/* The verbs about claims. */
#include "lib/remote.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "core/core.h"
#include "lib/remote_call.h"
#include "owner/owner.h"

#include "base/banned.h"

dibs_status remote_open(const char *path, bool is_named, const dibs_settings *settings, struct remote **out,
                        dibs_err *err)
{
    AUTO(remote_close_auto) struct remote *r = calloc(1, sizeof *r);

    if (!r)
        return err_set(err, DIBS_FAILURE, "opening dibs: out of memory");
    r->fd = -1;
    r->is_named = is_named;
    r->settings = settings;
    (void) text_copy(r->path, sizeof r->path, path);
    dibs_status s = remote_connect(r, clock_monotonic_ms() + settings->timeout_ms, err);
    if (s == DIBS_OK)
        *out = TAKE(r);
    return s;
}

void remote_close(struct remote *r)
{
    if (!r)
        return;
    fd_auto(&r->fd);
    free(r);
}

/* ---- the daemon ---- */

dibs_status remote_daemon(struct remote *r, struct wire_daemon *out, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);

    bytes_add_text(&call.target, "/v1/daemon");
    dibs_status s = remote_ask(r, &call, err);
    if (s == DIBS_OK && wire_daemon_read(call_root(&call), out, err) != DIBS_OK)
        s = remote_not_understood(r, err);
    return s;
}

const char *remote_principal(struct remote *r)
{
    struct wire_daemon daemon;

    if (!r->is_known && remote_daemon(r, &daemon, NULL) == DIBS_OK) {
        (void) text_copy(r->principal, sizeof r->principal, daemon.principal);
        r->is_known = true;
    }
    return r->principal;
}

bool remote_degraded(struct remote *r, char *why, size_t size)
{
    struct wire_daemon daemon;
    bool is_degraded = remote_daemon(r, &daemon, NULL) == DIBS_OK && daemon.degraded[0];

    if (is_degraded && why && size > 0)
        (void) text_copy(why, size, daemon.degraded);
    return is_degraded;
}

int64_t remote_boot_ms(void)
{
    struct owner_view view;

    return clock_now(owner_view_load(&view, NULL) == DIBS_OK ? view.boot_offset_ns : 0).boot_ms;
}

/* ---- claims ---- */

dibs_status remote_read_claims(const struct remote *r, const json_value *list, size_t n, dibs_claim *out,
                               dibs_err *err)
{
    if (!json_is_array(list) || json_array_size(list) != n) {
        (void) err_set(err, DIBS_INVALID, "\"claims\" must be a list of %zu", n);
        return remote_not_understood(r, err);
    }
    for (size_t i = 0; i < n; i++)
        if (wire_claim_read(json_array_at(list, i), WIRE_ANSWERED, &out[i], err) != DIBS_OK)
            return remote_not_understood(r, err);
    return DIBS_OK;
}

static dibs_status ask_claims(struct remote *r, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "POST", REMOTE_KEYED);
    bool is_one = batch->n == 1 && batch->n_drops == 0 && !batch->is_contiguous && batch->align < 2 &&
                  !batch->is_dry_run;

    bytes_add_text(&call.target, is_one ? "/v1/claims" : "/v1/batch");
    struct json_writer w = call_body(&call);
    if (is_one)
        wire_request(&w, &batch->requests[0], r->settings);
    else
        wire_batch(&w, batch, r->settings);
    dibs_status s = remote_ask(r, &call, err);
    if (s != DIBS_OK)
        return s;
    if (!is_one)
        return remote_read_claims(r, json_get(call_root(&call), "claims"), batch->n, out, err);
    return wire_claim_read(call_root(&call), WIRE_ANSWERED, out, err) == DIBS_OK
               ? DIBS_OK
               : remote_not_understood(r, err);
}

/* Requests that create nothing are not worth asking for: they are taken out, and their places stay empty. */
dibs_status remote_claim(struct remote *r, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    AUTO(free_auto) dibs_request *requests = calloc(batch->n + 1, sizeof *requests);
    dibs_batch rest = *batch;
    size_t n = 0;

    if (!requests)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    for (size_t i = 0; i < batch->n; i++)
        if (batch->is_contiguous || !core_is_noop(&batch->requests[i])) /* adjacent to none: refused there */
            requests[n++] = batch->requests[i];
    rest.requests = requests;
    rest.n = n;
    if (n == 0 && batch->n_drops == 0) {
        memset(out, 0, batch->n * sizeof *out);
        return DIBS_OK;
    }
    dibs_status s = ask_claims(r, &rest, out, err);
    for (size_t i = batch->n; i-- > n && s == DIBS_OK;) {
        if (core_is_noop(&batch->requests[i]))
            memset(&out[i], 0, sizeof out[i]);
        else
            out[i] = out[--n];
    }
    return s;
}

dibs_status remote_claim_on_hosts(struct remote *r, const dibs_request *request, const char *const *hosts,
                                  size_t n, dibs_claim *out, dibs_err *err)
{
    /* With a name the second time gives what the first made. */
    AUTO(call_done) struct call call = call_begin(r, "POST", request->name ? REMOTE_TWICE : REMOTE_ONCE);

    wire_hosts_path(&call.target, NULL, hosts, n);
    struct json_writer w = call_body(&call);
    wire_request(&w, request, r->settings);
    dibs_status s = remote_ask(r, &call, err);
    return s == DIBS_OK ? remote_read_claims(r, json_get(call_root(&call), "claims"), n, out, err) : s;
}

/* Asks, and takes the one claim that is answered. */
static dibs_status ask_claim(struct remote *r, struct call *call, dibs_claim *out, dibs_err *err)
{
    dibs_claim found;
    dibs_status s = remote_ask(r, call, err);

    if (s == DIBS_OK && wire_claim_read(call_root(call), WIRE_ANSWERED, &found, err) != DIBS_OK)
        s = remote_not_understood(r, err);
    if (s == DIBS_OK)
        *out = found;
    return s;
}

dibs_status remote_ask_count(struct remote *r, struct call *call, const char *key, size_t *n, dibs_err *err)
{
    uint64_t count = 0;
    dibs_status s = remote_ask(r, call, err);

    if (s == DIBS_OK && !json_get_uint(call_root(call), key, &count)) {
        (void) err_set(err, DIBS_INVALID, "\"%s\" must be a number", key);
        s = remote_not_understood(r, err);
    }
    if (s == DIBS_OK && n)
        *n = (size_t) count;
    return s;
}

dibs_status remote_release(struct remote *r, const dibs_which *which, unsigned flags, size_t *n,
                           dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "DELETE", REMOTE_TWICE);

    wire_release_path(&call.target, which, flags);
    return remote_ask_count(r, &call, "released", n, err);
}

dibs_status remote_release_on_hosts(struct remote *r, const dibs_which *which, const char *const *hosts,
                                    size_t n_hosts, size_t *n, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "DELETE", REMOTE_TWICE);

    wire_hosts_path(&call.target, which, hosts, n_hosts);
    return remote_ask_count(r, &call, "released", n, err);
}

dibs_status remote_renew(struct remote *r, const dibs_which *which, int64_t ttl_ms, dibs_claim *out,
                         dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "POST", REMOTE_TWICE);

    wire_which_path(&call.target, which, "/renew");
    struct json_writer w = call_body(&call);
    wire_ttl(&w, ttl_ms);
    return ask_claim(r, &call, out, err);
}

dibs_status remote_transfer(struct remote *r, const dibs_which *which, const dibs_heir *heir, dibs_claim *out,
                            dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "POST", REMOTE_ONCE);

    wire_which_path(&call.target, which, "/transfer");
    struct json_writer w = call_body(&call);
    wire_heir(&w, heir);
    return ask_claim(r, &call, out, err);
}

dibs_status remote_claim_find(struct remote *r, const dibs_which *which, dibs_claim *out, dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);

    wire_which_path(&call.target, which, "");
    return ask_claim(r, &call, out, err);
}

dibs_status remote_name(struct remote *r, const char *name, const char *project, char out[DIBS_NAME_MAX + 1],
                        dibs_err *err)
{
    AUTO(call_done) struct call call = call_begin(r, "GET", REMOTE_TWICE);
    const char *found = "";

    wire_name_path(&call.target, name, project);
    dibs_status s = remote_ask(r, &call, err);
    if (s == DIBS_OK &&
        (!json_get_string(call_root(&call), "name", &found) || !text_copy(out, DIBS_NAME_MAX + 1, found))) {
        (void) err_set(err, DIBS_INVALID, "\"name\" must be a name");
        s = remote_not_understood(r, err);
    }
    return s;
}
