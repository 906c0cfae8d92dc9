/* SPDX-License-Identifier: MIT */
/* Finds the daemon, connects to it, and claims through it. */
#include "lib/remote.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

/* ---- find and connect ---- */

#define ADMIN_SOCKET "/run/dibs/admin.sock"
#define PUBLIC_SOCKET "/run/dibs/dibs.sock"

const char *remote_start_command(const struct remote *r)
{
    if (!strcmp(r->path, PUBLIC_SOCKET))
        return "systemctl start dibs.socket";
    if (!strcmp(r->path, ADMIN_SOCKET))
        return "systemctl start dibs-admin.socket";
    return r->is_named ? "dibs serve" : "systemctl --user start dibs.socket";
}

/* Find the user's own daemon; skip the folder of another user (su, sudo). */
static bool find_own(char *out, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat st = { 0 };

    if (!runtime || runtime[0] != '/')
        return false;
    int n = snprintf(out, size, "%s/dibs/dibs.sock", runtime);
    return n > 0 && (size_t) n < size && stat(out, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0);
}

/* Return whether the settings mean the ledger itself: a flag names a ledger and no daemon, or the environment
 * does and no source names a daemon. A settings file does not count, because the daemon reads it, too. */
static bool is_ledger_meant(const dibs_settings *settings)
{
    dibs_source ledger = settings->source[DIBS_SET_LEDGER];
    dibs_source socket = settings->source[DIBS_SET_SOCKET];

    return (ledger == DIBS_FROM_FLAG && socket != DIBS_FROM_FLAG) ||
           (ledger == DIBS_FROM_ENVIRONMENT && socket == DIBS_FROM_DEFAULT);
}

bool remote_find(const dibs_settings *settings, char out[DIBS_SETTING_VALUE_MAX + 1], bool *is_named)
{
    *is_named = strcmp(settings->socket, "auto") != 0;
    if (is_ledger_meant(settings))
        return false;
    if (*is_named)
        return text_copy(out, DIBS_SETTING_VALUE_MAX + 1, settings->socket) && strcmp(out, "none") != 0;
    /* Root of a user namespace may see the admin socket, but not use it. */
    if (geteuid() == 0 && faccessat(AT_FDCWD, ADMIN_SOCKET, W_OK, AT_EACCESS) == 0)
        return text_copy(out, DIBS_SETTING_VALUE_MAX + 1, ADMIN_SOCKET);
    if (access(PUBLIC_SOCKET, F_OK) == 0)
        return text_copy(out, DIBS_SETTING_VALUE_MAX + 1, PUBLIC_SOCKET);
    return find_own(out, DIBS_SETTING_VALUE_MAX + 1);
}

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

EXCHANGE_READ(daemon)

dibs_status remote_daemon(struct remote *r, struct wire_daemon *out, dibs_err *err)
{
    static const struct exchange_type type = { read_daemon, sizeof *out, NULL };
    AUTO(exchange_done) struct exchange exchange = exchange_begin(r, "GET", EXCHANGE_TWICE);

    bytes_add_text(&exchange.target, "/v1/daemon");
    return exchange_ask_value(&exchange, &type, out, err);
}

/* ---- claims ---- */

static dibs_status read_claim(const jsonr_value *v, void *out, dibs_err *err)
{
    return wire_claim_read(v, WIRE_ANSWERED, out, err);
}

const struct exchange_type remote_claims = { read_claim, sizeof(dibs_claim), "claims" };

dibs_status remote_ask_claims(struct exchange *exchange, size_t n, dibs_claim *out, dibs_err *err)
{
    AUTO(free_auto) dibs_claim *claims = NULL;
    size_t found = 0;
    dibs_status s = exchange_ask_list(exchange, &remote_claims, &claims, &found, err);

    if (s != DIBS_OK)
        return s;
    if (found != n)
        return exchange_not_a_list(exchange, "claims", err);
    memcpy(out, claims, n * sizeof *out);
    return DIBS_OK;
}

static dibs_status ask_batch(struct remote *r, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    AUTO(exchange_done) struct exchange exchange = exchange_begin(r, "POST", EXCHANGE_KEYED);
    bool is_one = batch->n == 1 && batch->n_drops == 0 && !batch->is_contiguous && batch->align < 2 &&
                  !batch->is_dry_run;

    exchange.key = batch->key;
    bytes_add_text(&exchange.target, is_one ? "/v1/claims" : "/v1/batch");
    struct jsonw w = exchange_body(&exchange);
    if (is_one) {
        wire_request(&w, &batch->requests[0], r->settings);
        return exchange_ask_value(&exchange, &remote_claims, out, err);
    }
    wire_batch(&w, batch, r->settings);
    return remote_ask_claims(&exchange, batch->n, out, err);
}

/* Claim through the daemon. Requests that create nothing are not sent; their answers stay empty. */
dibs_status remote_claim(struct remote *r, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    AUTO(free_auto) dibs_request *requests = calloc(batch->n + 1, sizeof *requests);
    dibs_batch rest = *batch;
    size_t n = 0;

    if (!requests)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    for (size_t i = 0; i < batch->n; i++)
        if (batch->is_contiguous || !core_is_noop(&batch->requests[i])) /* the daemon refuses it in a run */
            requests[n++] = batch->requests[i];
    rest.requests = requests;
    rest.n = n;
    if (n == 0 && batch->n_drops == 0) {
        memset(out, 0, batch->n * sizeof *out);
        return DIBS_OK;
    }
    dibs_status s = ask_batch(r, &rest, out, err);
    for (size_t i = batch->n; i-- > n && s == DIBS_OK;) {
        if (core_is_noop(&batch->requests[i]))
            memset(&out[i], 0, sizeof out[i]);
        else
            out[i] = out[--n];
    }
    return s;
}
