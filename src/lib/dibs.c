/* SPDX-License-Identifier: MIT */
/* The handle, over the engine or a daemon's socket, and the public functions about claims. */
#include "dibs/dibs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "hold/enforced_mark.h"
#include "hold/holds.h"
#include "lib/fallback.h"
#include "lib/held.h"
#include "lib/verb.h"

#include "base/banned.h"

const char *dibs_version(void)
{
    return DIBS_VERSION;
}

static struct instant real_now(void *ctx)
{
    const struct connection *to = ctx;

    /* The view is missing while the engine is being opened: use no offset. */
    return clock_now(to->core ? to->core->view.boot_offset_ns : 0);
}

static dibs_status open_ledger(struct connection *to, struct ledger **out, dibs_err *err)
{
    const dibs_settings *settings = &to->settings;
    struct ledger_options options = { .is_sync_full = settings->is_sync_full,
                                      .is_check = to->is_check,
                                      .timeout_ms = settings->timeout_ms,
                                      .node = settings->node[0] ? settings->node : NULL };

    if (settings->ledger_mode == DIBS_LEDGER_MRU) {
        (void) err_trouble(&to->why_degraded, DIBS_TROUBLE_NONE,
                           "the ledger is turned off (ledger-mode mru)");
        return DIBS_OK;
    }
    /* A command cannot keep the lease alive that holders in etcd depend on: the daemon renews it. */
    if (!to->is_server && ledger_is_cluster(settings->ledger))
        return err_trouble(
            err, DIBS_TROUBLE_NONE,
            "the ledger %.200s is used through the daemon of this host: start 'dibs serve --ledger "
            "%.200s', and name its socket (--socket, DIBS_SOCKET)",
            settings->ledger, settings->ledger);
    dibs_status s = ledger_open(settings->ledger, &options, out, err);
    if (s != DIBS_OK && err && fallback_may(settings, err)) {
        to->why_degraded = *err;
        return DIBS_OK;
    }
    return s;
}

/* Fill in the user of this process, as the ledger sees it. */
static dibs_status find_user(struct connection *to, struct call *out, dibs_err *err)
{
    const dibs_settings *settings = &to->settings;
    struct uid_map users;
    dibs_status s = uid_map_load(&users, err);

    if (s != DIBS_OK)
        return s;
    uint32_t uid = uid_map_above(&users, (uint32_t) geteuid());
    if (uid == UID_MAP_UNKNOWN)
        return err_set(err, DIBS_FAILURE,
                       "you have no uid in this user namespace, so that no claim could be yours; map "
                       "one, as 'unshare --map-root-user' does");
    (void) snprintf(to->principal, sizeof to->principal, "uid:%u", (unsigned) uid);
    out->settings = settings;
    out->principal = to->principal;
    out->uid = uid;
    out->pid = (int32_t) getpid();
    /* Root of a user namespace may be any user outside; the ledger's owner can write the file anyway. */
    static const char scheme[] = "sqlite:";
    const char *path = settings->ledger + sizeof scheme - 1;
    struct stat st = { 0 };
    bool is_file = strncmp(settings->ledger, scheme, sizeof scheme - 1) == 0 && stat(path, &st) == 0;
    out->is_admin = geteuid() == 0 && (users.is_initial || (is_file && st.st_uid == geteuid()));
    out->is_guest = is_file && st.st_uid != geteuid() && !out->is_admin;
    return DIBS_OK;
}

static bool is_enforced(void *ctx, const dibs_claim *claim)
{
    const struct connection *to = ctx;

    (void) claim;
    return enforced_mark_is_taken(to->settings.ledger);
}

static dibs_status open_core(dibs *handle, dibs_err *err)
{
    struct connection *to = handle->to;
    struct core_options options = {
        .now = real_now, .now_ctx = to, .is_enforced = is_enforced, .enforcer = to
    };
    struct ledger *ledger = NULL;
    dibs_status s = open_ledger(to, &ledger, err);

    if (s == DIBS_OK)
        s = find_user(to, &handle->call, err);
    options.uid = handle->call.uid;
    static const char scheme[] = "sqlite:";
    if (geteuid() == 0 && strncmp(to->settings.ledger, scheme, sizeof scheme - 1) == 0)
        (void) snprintf(options.nat_file, sizeof options.nat_file, "%s-nat",
                        to->settings.ledger + sizeof scheme - 1);
    if (s == DIBS_OK)
        return core_open(ledger, &options, &to->core, err);
    ledger_close(ledger);
    return s;
}

/* Connect to the daemon of the settings (it must answer), or open the ledger; record which in settings. */
static dibs_status open_any(dibs *handle, dibs_err *err)
{
    dibs_settings *settings = &handle->to->settings;
    char path[DIBS_SETTING_VALUE_MAX + 1] = "none";
    bool is_named = false;
    bool is_remote = remote_find(settings, path, &is_named);

    (void) text_copy(settings->socket, sizeof settings->socket, is_remote ? path : "none");
    return is_remote ? remote_open(path, is_named, settings, &handle->to->remote, err)
                     : open_core(handle, err);
}

/* A handle and its connection in one allocation. */
struct opened {
    dibs handle; /* first member: dibs_close() frees both through it */
    struct connection to;
};

/* NULL: out of memory. */
static dibs *make_handle(void)
{
    struct opened *self = calloc(1, sizeof *self);

    if (!self)
        return NULL;
    self->to.pid = getpid();
    self->handle.to = &self->to;
    return &self->handle;
}

static dibs_status give(dibs *handle, dibs_status s, dibs **out)
{
    if (s == DIBS_OK)
        *out = handle;
    else
        dibs_close(handle);
    return s;
}

dibs_status dibs_open(const dibs_settings *settings, dibs **out, dibs_err *err)
{
    dibs_err local = { 0 };

    if (!err)
        err = &local;
    if (!out)
        return err_set(err, DIBS_INVALID, "opening dibs: the output for the handle is missing");
    dibs *handle = make_handle();
    if (!handle)
        return err_set(err, DIBS_FAILURE, "opening dibs: out of memory");
    dibs_status s =
        settings ? args_settings(settings, err) : dibs_settings_load(NULL, 0, &handle->to->settings, err);
    if (s == DIBS_OK && settings)
        handle->to->settings = *settings;
    if (s == DIBS_OK)
        s = open_any(handle, err);
    return give(handle, s, out);
}

dibs_status handle_open(const dibs_settings *settings, dibs_ledger_mode mode, bool is_check, dibs **out,
                        dibs_err *err)
{
    dibs *handle = make_handle();

    if (!handle)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    struct connection *to = handle->to;
    to->settings = *settings;
    to->settings.ledger_mode = mode;
    (void) text_copy(to->settings.socket, sizeof to->settings.socket, "none");
    to->is_check = is_check;
    to->is_server = true;
    return give(handle, open_core(handle, err), out);
}

void dibs_close(dibs *handle)
{
    if (!handle)
        return;
    remote_close(handle->to->remote);
    if (!handle->to->is_server)
        holds_close(handle->to->holds);
    /* After a fork the connection belongs to the parent: closing it in the child could harm the parent. */
    if (handle->to->pid == getpid() || !handle->to->core)
        core_close(handle->to->core);
    free(handle);
}

int64_t dibs_boot_ms(const dibs *handle)
{
    struct process_view view;

    if (handle && handle->to->remote) /* the daemon runs on this host: use our own clock */
        return clock_now(process_view_load(&view, NULL) == DIBS_OK ? view.boot_offset_ns : 0).boot_ms;
    return handle ? handle_call(handle).now.boot_ms : 0;
}

bool dibs_is_degraded(const dibs *handle, char *why, size_t why_size)
{
    bool is_degraded = handle && handle->to->why_degraded.code != DIBS_OK; /* never through a daemon */

    if (is_degraded && why && why_size > 0)
        (void) text_copy(why, why_size, handle->to->why_degraded.msg);
    return is_degraded;
}

const char *dibs_principal_of(const dibs *handle)
{
    struct remote *r = handle ? handle->to->remote : NULL;
    struct wire_daemon daemon;

    if (!r)
        return handle ? handle->call.principal : "";
    if (handle->to->pid != getpid())
        return "";
    if (!r->principal[0] && remote_daemon(r, &daemon, NULL) == DIBS_OK)
        (void) text_copy(r->principal, sizeof r->principal, daemon.principal);
    return r->principal;
}

const dibs_settings *dibs_settings_of(const dibs *handle)
{
    return handle ? &handle->to->settings : NULL;
}

/* ---- handles for servers ---- */

struct call handle_call(const dibs *handle)
{
    struct call call = handle->call;

    if (call.now.wall_ms == 0)
        call.now = core_now(handle->to->core);
    if (call.deadline_ms == 0)
        call.deadline_ms = clock_monotonic_ms() + handle->to->settings.timeout_ms;
    return call;
}

dibs handle_with(const dibs *handle, const struct call *call)
{
    return (dibs){ .to = handle->to, .call = *call };
}

dibs_status handle_for(const dibs *handle, const char *principal, dibs *out, dibs_err *err)
{
    if (!handle->to->core)
        return err_set(err, DIBS_INVALID,
                       "claims for others are made in the ledger itself: use --socket none, and --ledger");
    if (strlen(principal) > DIBS_PRINCIPAL_MAX)
        return err_set(err, DIBS_INVALID, "a principal is too long");
    *out = *handle;
    out->call.principal = principal;
    out->call.is_admin = true;
    out->call.is_guest = false;
    out->call.is_elsewhere = true;
    return DIBS_OK;
}

dibs_status handle_remember(const dibs *handle, const char *name, uint16_t port, dibs_err *err)
{
    const struct call call = handle_call(handle);

    return ledger_remember_name(handle_ledger(handle), &call, name, port, err);
}

dibs_status handle_fact(const dibs *handle, struct fact_record *fact, dibs_err *err)
{
    const struct call call = handle_call(handle);

    return ledger_fact(handle_ledger(handle), &call, fact, err);
}

dibs_status handle_allow(dibs *handle, uint32_t max, struct ledger_allowance *allowance, dibs_err *err)
{
    const struct call call = handle_call(handle);
    dibs_status s = ledger_count(handle_ledger(handle), &call, &allowance->n, err);

    allowance->max = max;
    if (s == DIBS_OK)
        handle->call.allowance = allowance;
    return s;
}

dibs_status handle_remembered(const dibs *handle, const char *name, uint16_t *out, dibs_err *err)
{
    const struct call call = handle_call(handle);
    dibs_claim claim = { 0 };
    dibs_status s = ledger_find_name(handle_ledger(handle), &call, name, &claim, out, err);

    if (s == DIBS_OK)
        *out = 0;
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

struct core *handle_core(const dibs *handle)
{
    return handle->to->core;
}

struct ledger *handle_ledger(const dibs *handle)
{
    return handle->to->core->ledger;
}

void handle_reconfigure(dibs *handle, const dibs_settings *settings)
{
    dibs_settings *own = &handle->to->settings;
    dibs_settings kept = *own;

    *own = *settings;
    memcpy(own->socket, kept.socket, sizeof own->socket);
    own->ledger_mode = kept.ledger_mode;
    own->is_sync_full = kept.is_sync_full;
    own->timeout_ms = kept.timeout_ms;
}

/* ---- claims ---- */

dibs_status verb_need_ledger(dibs *handle, dibs_err *err)
{
    if (!handle->to->is_server && handle->to->pid != getpid())
        return err_set(err, DIBS_INVALID,
                       "this handle belongs to the process that opened it; open another after a fork");
    if (handle->to->is_calling_back)
        return err_set(err, DIBS_INVALID, "a callback cannot use the handle that calls it");
    if (handle->to->remote)
        return DIBS_OK;
    if (handle->to->core->ledger) /* retry: a full disk may have space again */
        handle->to->why_degraded.code = DIBS_OK;
    if (handle->to->why_degraded.code == DIBS_OK)
        return DIBS_OK;
    if (err)
        *err = handle->to->why_degraded;
    return DIBS_UNAVAILABLE;
}

dibs_status dibs_claim_ports(dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    dibs_err local = { 0 };

    if (!err)
        err = &local;
    if (!handle || !batch || (batch->n > 0 && (!batch->requests || !out)) ||
        (batch->n_drops > 0 && !batch->drops))
        return err_set(err, DIBS_INVALID, "claiming: an argument is missing");
    dibs_status s = args_batch(batch, err);
    if (s != DIBS_OK || (batch->n == 0 && batch->n_drops == 0))
        return s;
    AUTO(free_auto) dibs_claim *got = calloc(batch->n ? batch->n : 1, sizeof *got);
    if (!got)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    s = verb_need_ledger(handle, err);
    if (s == DIBS_OK)
        s = handle->to->remote ? remote_claim(handle->to->remote, batch, got, err)
                               : held_claim(handle, batch, got, err);
    /* A full disk shows only when the ledger writes. */
    if (s == DIBS_UNAVAILABLE && !handle->to->remote && fallback_may(&handle->to->settings, err))
        handle->to->why_degraded = *err;
    if (s == DIBS_UNAVAILABLE && handle->to->why_degraded.code != DIBS_OK && fallback_serves(batch) &&
        !held_is_asked(batch))
        s = fallback_claim(handle, batch, got, err);
    if (s == DIBS_OK && batch->n > 0)
        memcpy(out, got, batch->n * sizeof *out);
    return s;
}

dibs_status dibs_claim_on_hosts(dibs *handle, const dibs_request *request, const char *const *hosts, size_t n,
                                dibs_claim *out, dibs_err *err)
{
    const dibs_batch batch = { .requests = request, .n = 1 };
    const struct core_hosts on = { hosts, n };

    NEED(handle, request && hosts && out, args_batch(&batch, err), err);
    dibs_status s = args_hosts(hosts, n, err);
    if (s != DIBS_OK || !handle->to->remote)
        return s == DIBS_OK ? core_claim_on_hosts(CORE(handle), request, &on, out, err) : s;
    /* A named request can be repeated: it returns the claim that the first one made. */
    AUTO(exchange_done)
    struct exchange ask =
        exchange_begin(handle->to->remote, "POST", request->name ? EXCHANGE_TWICE : EXCHANGE_ONCE);
    wire_hosts_path(&ask.target, NULL, hosts, n);
    struct jsonw w = exchange_body(&ask);
    wire_request(&w, request, &handle->to->settings);
    return remote_ask_claims(&ask, n, out, err);
}

dibs_status dibs_release_on_hosts(dibs *handle, const dibs_which *which, const char *const *hosts,
                                  size_t n_hosts, size_t *n, dibs_err *err)
{
    const struct core_hosts on = { hosts, n_hosts };

    NEED(handle, which && which->name && hosts, args_proto(which->proto, err), err);
    dibs_status s = args_hosts(hosts, n_hosts, err);
    if (s != DIBS_OK || !handle->to->remote)
        return s == DIBS_OK ? core_release_on_hosts(CORE(handle), which, &on, n, err) : s;
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "DELETE", EXCHANGE_TWICE);
    wire_hosts_path(&ask.target, which, hosts, n_hosts);
    return exchange_ask_count(&ask, "released", n, err);
}

static dibs_status release(dibs *handle, const dibs_which *which, unsigned flags, size_t *n, dibs_err *err)
{
    NEED(handle, which, args_proto(which->proto, err), err);
    dibs_status s = args_flags(
        flags, DIBS_RELEASE_FORCE | DIBS_RELEASE_UNHOLD | DIBS_RELEASE_UNKEEP | DIBS_RELEASE_DRY_RUN, err);
    if (s != DIBS_OK || !handle->to->remote)
        return s == DIBS_OK ? core_release(CORE(handle), which, flags, n, err) : s;
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "DELETE", EXCHANGE_TWICE);
    wire_release_path(&ask.target, which, flags);
    return exchange_ask_count(&ask, "released", n, err);
}

dibs_status dibs_claim_release(dibs *handle, const dibs_which *which, unsigned flags, size_t *n,
                               dibs_err *err)
{
    size_t ended = 0;
    dibs_which first = which ? *which : (dibs_which){ 0 };

    /* Only the first member that is set selects. */
    first.all_mine = first.all_mine && !first.token && !first.name && first.port == 0;
    dibs_status s = release(handle, which ? &first : NULL, flags, &ended, err);
    if (s == DIBS_OK || s == DIBS_UNAVAILABLE)
        s = fallback_release(handle, &first, flags, s, &ended, err);
    if (s == DIBS_OK && ended > 0)
        held_settle(handle);
    if (s == DIBS_OK && n)
        *n = ended;
    return s;
}

dibs_status dibs_claim_renew(dibs *handle, const dibs_which *which, int64_t ttl_ms, dibs_claim *out,
                             dibs_err *err)
{
    NEED(handle, which && out, args_proto(which->proto, err), err);
    if (!handle->to->remote)
        return core_renew(CORE(handle), which, ttl_ms, out, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "POST", EXCHANGE_TWICE);
    wire_which_path(&ask.target, which, "/renew");
    struct jsonw w = exchange_body(&ask);
    wire_ttl(&w, ttl_ms);
    return exchange_ask_value(&ask, &remote_claims, out, err);
}

dibs_status dibs_claim_transfer(dibs *handle, const dibs_which *which, const dibs_heir *heir, dibs_claim *out,
                                dibs_err *err)
{
    NEED(handle, which && heir && out, args_proto(which->proto, err), err);
    if (!handle->to->remote)
        return core_transfer(CORE(handle), which, heir, out, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "POST", EXCHANGE_ONCE);
    wire_which_path(&ask.target, which, "/transfer");
    struct jsonw w = exchange_body(&ask);
    wire_heir(&w, heir);
    return exchange_ask_value(&ask, &remote_claims, out, err);
}

dibs_status dibs_claim_find(dibs *handle, const dibs_which *which, dibs_claim *out, dibs_err *err)
{
    NEED(handle, which && out, args_proto(which->proto, err), err);
    if (!handle->to->remote)
        return core_find(CORE(handle), which, out, err);
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "GET", EXCHANGE_TWICE);
    wire_which_path(&ask.target, which, "");
    return exchange_ask_value(&ask, &remote_claims, out, err);
}

dibs_status dibs_name_locate(dibs *handle, const char *name, const char *project, char out[DIBS_NAME_MAX + 1],
                             dibs_err *err)
{
    char local[DIBS_NAME_MAX + 1];
    const char *found = "";

    NEED(handle, name && out, dibs_name_check(name, err), err);
    if (!handle->to->remote) {
        dibs_status s = core_name(&(struct core_names){ .core = handle->to->core, .call = CALL(handle) },
                                  name, project, local, err);

        if (s == DIBS_OK)
            (void) text_copy(out, DIBS_NAME_MAX + 1, local);
        return s;
    }
    AUTO(exchange_done) struct exchange ask = exchange_begin(handle->to->remote, "GET", EXCHANGE_TWICE);
    wire_name_path(&ask.target, name, project);
    dibs_status s = exchange_ask(&ask, err);
    if (s == DIBS_OK && (!jsonr_get_string(exchange_root(&ask), "name", &found) ||
                         !text_copy(out, DIBS_NAME_MAX + 1, found))) {
        (void) err_set(err, DIBS_INVALID, "\"name\" must be a name");
        s = exchange_not_understood(&ask, err);
    }
    return s;
}
