/* SPDX-License-Identifier: MIT */
/* The public functions: a handle over the engine, or over the socket of a daemon. */
#include "dibs/dibs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "lib/args.h"
#include "lib/connection.h"
#include "lib/fallback.h"
#include "lib/remote.h"

#include "base/banned.h"

const char *dibs_version(void)
{
    return DIBS_VERSION;
}

static struct instant real_now(void *ctx)
{
    const struct connection *to = ctx;

    /* Without its view the engine is still being opened: nothing has been timed yet. */
    return clock_now(to->core ? to->core->view.boot_offset_ns : 0);
}

/* Refuse etcd: a command would have to read the whole ledger before it could decide anything, and could hold
 * nothing, because the daemon renews the lease that holders depend on. */
static dibs_status refuse_cluster(const dibs_settings *settings, dibs_err *err)
{
    return err_trouble(
        err, DIBS_TROUBLE_NONE,
        "the ledger %.200s is used through the daemon of this host: start 'dibs serve --ledger "
        "%.200s', and name its socket (--socket, DIBS_SOCKET)",
        settings->ledger, settings->ledger);
}

static dibs_status open_ledger(struct connection *to, struct ledger **out, dibs_err *err)
{
    const dibs_settings *settings = &to->settings;
    struct ledger_options options = { .is_sync_full = settings->is_sync_full,
                                      .timeout_ms = settings->timeout_ms,
                                      .node = settings->node[0] ? settings->node : NULL };

    if (settings->ledger_mode == DIBS_LEDGER_MRU) {
        (void) err_trouble(&to->why_degraded, DIBS_TROUBLE_NONE,
                           "the ledger is turned off (ledger-mode mru)");
        return DIBS_OK;
    }
    dibs_status s = to->is_server || !ledger_is_cluster(settings->ledger)
                        ? ledger_open(settings->ledger, &options, out, err)
                        : refuse_cluster(settings, err);
    if (s != DIBS_OK && err && fallback_may(settings, err)) {
        to->why_degraded = *err;
        return DIBS_OK;
    }
    return s;
}

/* The owner of the ledger's file: false when it has none. */
static bool file_owner(const char *uri, uid_t *out)
{
    struct stat st = { 0 };
    bool is_file = strncmp(uri, "sqlite:", strlen("sqlite:")) == 0 && stat(uri + strlen("sqlite:"), &st) == 0;

    *out = st.st_uid;
    return is_file;
}

dibs_status handle_who(const dibs_settings *settings, char principal[DIBS_PRINCIPAL_MAX + 1],
                       struct call *out, dibs_err *err)
{
    struct uid_map users;
    dibs_status s = uid_map_load(&users, err);

    if (s != DIBS_OK)
        return s;
    uint32_t uid = uid_map_above(&users, (uint32_t) geteuid());
    if (uid == UID_MAP_UNKNOWN)
        return err_set(err, DIBS_FAILURE,
                       "you have no uid in this user namespace, so that no claim could be yours; map "
                       "one, as 'unshare --map-root-user' does");
    (void) snprintf(principal, DIBS_PRINCIPAL_MAX + 1, "uid:%u", (unsigned) uid);
    out->settings = settings;
    out->principal = principal;
    out->uid = uid;
    out->pid = (int32_t) getpid();
    /* Root of a user namespace can be any user outside of it; but the owner of the ledger's file can write
     * it.
     */
    uid_t owner = 0;
    bool is_file = file_owner(settings->ledger, &owner);
    out->is_admin = geteuid() == 0 && (users.is_initial || (is_file && owner == geteuid()));
    out->is_guest = is_file && owner != geteuid() && !out->is_admin;
    return DIBS_OK;
}

/* Open the ledger itself. */
static dibs_status open_core(dibs *handle, dibs_err *err)
{
    struct connection *to = handle->to;
    struct core_options options = { .now = real_now, .now_ctx = to };
    struct ledger *ledger = NULL;
    dibs_status s = open_ledger(to, &ledger, err);

    if (s == DIBS_OK)
        s = handle_who(&to->settings, to->principal, &handle->call, err);
    options.uid = handle->call.uid;
    if (s == DIBS_OK)
        return core_open(ledger, &options, &to->core, err);
    ledger_close(ledger);
    return s;
}

/* Connect to the daemon that the settings mean. It must answer: another ledger would give the same ports
 * again. The settings of the handle name from then on what is used. */
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

/* A handle and its connection. */
struct opened {
    dibs handle; /* first: dibs_close() frees both by it */
    struct connection to;
};

/* NULL: no memory. */
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
        return err_set(err, DIBS_INVALID, "opening dibs: no place for the handle");
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

dibs_status handle_open_server(const dibs_settings *settings, dibs **out, dibs_err *err)
{
    dibs *handle = make_handle();

    if (!handle)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    struct connection *to = handle->to;
    to->settings = *settings;
    to->settings.ledger_mode = DIBS_LEDGER_STRICT;
    (void) text_copy(to->settings.socket, sizeof to->settings.socket, "none");
    to->is_server = to->never_forks = true;
    return give(handle, open_core(handle, err), out);
}

void dibs_close(dibs *handle)
{
    if (!handle)
        return;
    remote_close(handle->to->remote);
    /* After a fork the connection is the parent's: closing it in the child could harm the parent. */
    if (handle->to->pid == getpid() || !handle->to->core)
        core_close(handle->to->core);
    free(handle);
}

int64_t dibs_boot_ms(const dibs *handle)
{
    if (handle && handle->to->remote)
        return remote_boot_ms();
    return handle ? handle_call(handle).now.boot_ms : 0;
}

bool dibs_is_degraded(const dibs *handle, char *why, size_t why_size)
{
    bool is_degraded = handle && handle->to->why_degraded.code != DIBS_OK;

    if (handle && handle->to->remote)
        return handle->to->pid == getpid() && remote_degraded(handle->to->remote, why, why_size);
    if (is_degraded && why && why_size > 0)
        (void) text_copy(why, why_size, handle->to->why_degraded.msg);
    return is_degraded;
}

const char *dibs_principal_of(const dibs *handle)
{
    if (handle && handle->to->remote)
        return handle->to->pid == getpid() ? remote_principal(handle->to->remote) : "";
    return handle ? handle->call.principal : "";
}

const dibs_settings *dibs_settings_of(const dibs *handle)
{
    return handle ? &handle->to->settings : NULL;
}

/* The call that a function of the handle makes. */
#define CALL(handle) ((struct call[1]){ handle_call(handle) })

/* Check that the ledger is open: every call but an unnamed random claim needs it. */
static dibs_status need_ledger(dibs *handle, dibs_err *err)
{
    if (!handle->to->never_forks && handle->to->pid != getpid())
        return err_set(err, DIBS_INVALID,
                       "this handle belongs to the process that opened it; open another after a fork");
    if (handle->to->is_calling_back)
        return err_set(err, DIBS_INVALID, "a callback cannot use the handle that calls it");
    if (handle->to->remote)
        return DIBS_OK;
    if (handle->to->core->ledger) /* a disk that was full may have space again */
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
    if (batch->n == 0 && batch->n_drops == 0)
        return DIBS_OK;
    dibs_status s = args_batch(batch, err);
    if (s != DIBS_OK)
        return s;
    AUTO(free_auto) dibs_claim *got = calloc(batch->n ? batch->n : 1, sizeof *got);
    if (!got)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    s = need_ledger(handle, err);
    if (s == DIBS_OK)
        s = handle->to->remote ? remote_claim(handle->to->remote, batch, got, err)
                               : core_claim(handle->to->core, CALL(handle), batch, got, err);
    /* A disk that fills up shows only when something is written. */
    if (s == DIBS_UNAVAILABLE && !handle->to->remote && fallback_may(&handle->to->settings, err))
        handle->to->why_degraded = *err;
    if (s == DIBS_UNAVAILABLE && handle->to->why_degraded.code != DIBS_OK && fallback_serves(batch))
        s = fallback_claim(handle, batch, got, err);
    if (s == DIBS_OK && batch->n > 0)
        memcpy(out, got, batch->n * sizeof *out);
    return s;
}

/* ---- the verbs, checked and passed on ---- */

/* Of the daemon, if there is one; else of the engine here. */
#define VERB(handle, remote_verb, core_verb, ...)                          \
    ((handle)->to->remote ? remote_verb((handle)->to->remote, __VA_ARGS__) \
                          : core_verb((handle)->to->core, CALL(handle), __VA_ARGS__))

/* A verb with a callback of the user, which must not use the handle. */
#define CALLING_BACK(handle, verb)             \
    (__extension__({                           \
        (handle)->to->is_calling_back = true;  \
        dibs_status called_ = (verb);          \
        (handle)->to->is_calling_back = false; \
        called_;                               \
    }))

/* Pointers first, then values, then the ledger. */
#define NEED(handle, condition, check, err)                                \
    do {                                                                   \
        if (!(handle) || !(condition))                                     \
            return err_set((err), DIBS_INVALID, "an argument is missing"); \
        dibs_status need_ = (check);                                       \
        if (need_ == DIBS_OK)                                              \
            need_ = need_ledger((handle), (err));                          \
        if (need_ != DIBS_OK)                                              \
            return need_;                                                  \
    } while (0)

dibs_status dibs_claim_on_hosts(dibs *handle, const dibs_request *request, const char *const *hosts, size_t n,
                                dibs_claim *out, dibs_err *err)
{
    const dibs_batch batch = { .requests = request, .n = 1 };

    NEED(handle, request && hosts && out, args_batch(&batch, err), err);
    const struct core_hosts on = { hosts, n };
    dibs_status s = args_hosts(hosts, n, err);
    return s == DIBS_OK ? VERB(handle, remote_claim_on_hosts, core_claim_on_hosts, request, &on, out, err)
                        : s;
}

dibs_status dibs_release_on_hosts(dibs *handle, const dibs_which *which, const char *const *hosts,
                                  size_t n_hosts, size_t *n, dibs_err *err)
{
    NEED(handle, which && which->name && hosts, args_proto(which->proto, err), err);
    const struct core_hosts on = { hosts, n_hosts };
    dibs_status s = args_hosts(hosts, n_hosts, err);
    return s == DIBS_OK ? VERB(handle, remote_release_on_hosts, core_release_on_hosts, which, &on, n, err)
                        : s;
}

dibs_status dibs_claim_release(dibs *handle, const dibs_which *which, unsigned flags, size_t *n,
                               dibs_err *err)
{
    NEED(handle, which, args_proto(which->proto, err), err);
    dibs_status s = args_flags(
        flags, DIBS_RELEASE_FORCE | DIBS_RELEASE_UNHOLD | DIBS_RELEASE_UNKEEP | DIBS_RELEASE_DRY_RUN, err);
    return s == DIBS_OK ? VERB(handle, remote_release, core_release, which, flags, n, err) : s;
}

dibs_status dibs_claim_renew(dibs *handle, const dibs_which *which, int64_t ttl_ms, dibs_claim *out,
                             dibs_err *err)
{
    NEED(handle, which && out, args_proto(which->proto, err), err);
    return VERB(handle, remote_renew, core_renew, which, ttl_ms, out, err);
}

dibs_status dibs_claim_transfer(dibs *handle, const dibs_which *which, const dibs_heir *heir, dibs_claim *out,
                                dibs_err *err)
{
    NEED(handle, which && heir && out, args_proto(which->proto, err), err);
    return VERB(handle, remote_transfer, core_transfer, which, heir, out, err);
}

dibs_status dibs_claim_find(dibs *handle, const dibs_which *which, dibs_claim *out, dibs_err *err)
{
    NEED(handle, which && out, args_proto(which->proto, err), err);
    return VERB(handle, remote_claim_find, core_find, which, out, err);
}

dibs_status dibs_name_locate(dibs *handle, const char *name, const char *project, char out[DIBS_NAME_MAX + 1],
                             dibs_err *err)
{
    char found[DIBS_NAME_MAX + 1];

    NEED(handle, name && out, DIBS_OK, err);
    dibs_status s = dibs_name_check(name, err);
    if (s == DIBS_OK)
        s = VERB(handle, remote_name, core_name, name, project, found, err);
    if (s == DIBS_OK)
        (void) text_copy(out, DIBS_NAME_MAX + 1, found);
    return s;
}

dibs_status dibs_claim_list(dibs *handle, const dibs_filter *filter, dibs_claim_fn fn, void *ctx,
                            dibs_err *err)
{
    NEED(handle, filter && fn, args_proto(filter->proto, err), err);
    return CALLING_BACK(handle, VERB(handle, remote_list, core_list, filter, fn, ctx, err));
}

dibs_status dibs_event_list(dibs *handle, const dibs_event_query *query, dibs_event_fn fn, void *ctx,
                            dibs_err *err)
{
    NEED(handle, query && fn, DIBS_OK, err);
    const struct ledger_feed feed = { *query, NULL };
    return CALLING_BACK(
        handle, handle->to->remote ? remote_events(handle->to->remote, query, fn, ctx, err)
                                   : ledger_events(handle_ledger(handle), CALL(handle), &feed, fn, ctx, err));
}

dibs_status dibs_node_list(dibs *handle, dibs_node_fn fn, void *ctx, dibs_err *err)
{
    NEED(handle, fn, DIBS_OK, err);
    return CALLING_BACK(handle, handle->to->remote
                                    ? remote_node_list(handle->to->remote, fn, ctx, err)
                                    : ledger_nodes(handle_ledger(handle), CALL(handle), fn, ctx, err));
}

dibs_status dibs_node_remove(dibs *handle, const char *name, unsigned flags, size_t *n, dibs_err *err)
{
    NEED(handle, name, args_flags(flags, DIBS_NODE_FORCE, err), err);
    return VERB(handle, remote_node_remove, core_node_remove, name, flags, n, err);
}

dibs_status dibs_pool_get(dibs *handle, const char *name, dibs_pool *out, dibs_err *err)
{
    NEED(handle, name && out, DIBS_OK, err);
    return VERB(handle, remote_pool_get, core_pool_stored, name, out, err);
}

dibs_status dibs_pool_put(dibs *handle, const dibs_pool *pool, dibs_err *err)
{
    NEED(handle, pool, DIBS_OK, err);
    return VERB(handle, remote_pool_put, core_pool_put, pool, err);
}

dibs_status dibs_pool_remove(dibs *handle, const char *name, dibs_err *err)
{
    NEED(handle, name, DIBS_OK, err);
    return VERB(handle, remote_pool_remove, core_pool_remove, name, err);
}

dibs_status dibs_pool_list(dibs *handle, dibs_pool_fn fn, void *ctx, dibs_err *err)
{
    NEED(handle, fn, DIBS_OK, err);
    return CALLING_BACK(handle, VERB(handle, remote_pool_list, core_pool_list, fn, ctx, err));
}

dibs_status dibs_pool_usage_of(dibs *handle, const char *name, dibs_pool_usage *out, dibs_err *err)
{
    NEED(handle, name && out, DIBS_OK, err);
    return VERB(handle, remote_pool_usage, core_pool_usage, name, out, err);
}

const char *dibs_order_name(size_t i)
{
    const struct order *order = order_at(i);

    return order ? order->name : NULL;
}

dibs_status dibs_port_explain(dibs *handle, const dibs_port_question *question, dibs_port_report *out,
                              dibs_err *err)
{
    NEED(handle, out && question && (question->bindings || question->n == 0),
         args_bindings(question->bindings, question->n, err), err);
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report);
    if (!report)
        return err_set(err, DIBS_FAILURE, "explaining: out of memory");
    dibs_status s = VERB(handle, remote_explain, core_explain, question, report, err);
    if (s == DIBS_OK)
        *out = *report;
    return s;
}

dibs_status dibs_claim_assert(dibs *handle, const dibs_which *which, dibs_socket *out, dibs_err *err)
{
    NEED(handle, which && out, args_proto(which->proto, err), err);
    return VERB(handle, remote_assert, core_assert, which, out, err);
}

dibs_status dibs_reap(dibs *handle, unsigned flags, dibs_claim_fn fn, void *ctx, size_t *n, dibs_err *err)
{
    NEED(handle, true, args_flags(flags, DIBS_REAP_STALE | DIBS_REAP_DRY_RUN, err), err);
    struct core_reaping r = { flags, fn, ctx, 0 };
    dibs_status s = CALLING_BACK(handle, VERB(handle, remote_reap, core_reap, &r, err));
    if (s == DIBS_OK && n)
        *n = r.n;
    return s;
}

dibs_status dibs_repair(dibs *handle, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                        dibs_err *err)
{
    NEED(handle, plan && fn, args_repair(plan, err), err);
    return CALLING_BACK(handle, VERB(handle, remote_repair, core_repair, plan, fn, ctx, err));
}

dibs_status dibs_snapshot_export(dibs *handle, const char *pool, char range[DIBS_RANGES_TEXT_MAX + 1],
                                 uint8_t *bytes, size_t *n, dibs_err *err)
{
    NEED(handle, range && bytes && n, DIBS_OK, err);
    const struct core_range_export out = { range, bytes, n };
    return VERB(handle, remote_export, core_snapshot_export, pool, &out, err);
}

dibs_status dibs_snapshot_import(dibs *handle, const char *pool, const dibs_range_snapshot *snapshot,
                                 size_t *n_claimed, dibs_err *err)
{
    NEED(handle, snapshot && snapshot->range && (snapshot->bytes || snapshot->n == 0), DIBS_OK, err);
    return VERB(handle, remote_import, core_snapshot_import, pool, snapshot, n_claimed, err);
}

dibs_status dibs_claim_restore(dibs *handle, const dibs_snapshot *snapshot, size_t *n_restored, dibs_err *err)
{
    NEED(handle,
         snapshot && (snapshot->claims || snapshot->n == 0) && (snapshot->pools || snapshot->n_pools == 0),
         args_snapshot(snapshot, err), err);
    return VERB(handle, remote_restore, core_restore, snapshot, n_restored, err);
}
