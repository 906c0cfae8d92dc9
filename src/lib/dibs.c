/* SPDX-License-Identifier: MIT */
/* The public face: a handle over the engine, and the fallback when there is no ledger. */
#include "dibs/dibs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/request.h"
#include "ledger/mru.h"
#include "lib/args.h"
#include "lib/handle.h"

#include "base/banned.h"

enum { MRU_LIFETIME_MS = 120000 }; /* DCP's: long enough for a slow server to bind */

const char *dibs_version(void)
{
    return DIBS_VERSION;
}

static struct instant real_now(void *ctx)
{
    const dibs *handle = ctx;

    /* Without its view the engine is still being opened: nothing has been timed yet. */
    return clock_now(handle->core ? handle->core->view.boot_offset_ns : 0);
}

/* Only what DESIGN "Fallback" allows: a ledger that is locked, damaged or newer is never passed over. */
static bool may_fall_back(const dibs_settings *settings, const dibs_err *why)
{
    return settings->ledger_mode == DIBS_LEDGER_FALLBACK && why->code == DIBS_UNAVAILABLE &&
           (why->trouble == DIBS_TROUBLE_MISSING || why->trouble == DIBS_TROUBLE_UNWRITABLE ||
            why->trouble == DIBS_TROUBLE_FULL);
}

static dibs_status open_ledger(dibs *handle, struct ledger **out, dibs_err *err)
{
    const dibs_settings *settings = &handle->settings;
    struct ledger_options options = { .is_sync_full = settings->is_sync_full,
                                      .timeout_ms = settings->timeout_ms };

    if (strcmp(settings->socket, "none") != 0)
        return err_trouble(err, DIBS_TROUBLE_NONE,
                           "daemon socket %s: this dibs works on the ledger itself; set DIBS_SOCKET=none",
                           settings->socket);
    if (settings->ledger_mode == DIBS_LEDGER_MRU) {
        (void) err_trouble(&handle->why_degraded, DIBS_TROUBLE_NONE,
                           "the ledger is turned off (ledger-mode mru)");
        return DIBS_OK;
    }
    dibs_status s = ledger_open(settings->ledger, &options, out, err);
    if (s != DIBS_OK && err && may_fall_back(settings, err)) {
        handle->why_degraded = *err;
        return DIBS_OK;
    }
    return s;
}

/* Whose file the ledger is: false when it is none. */
static bool file_owner(const char *uri, uid_t *out)
{
    struct stat st = { 0 };
    bool is_file = strncmp(uri, "sqlite:", strlen("sqlite:")) == 0 && stat(uri + strlen("sqlite:"), &st) == 0;

    *out = st.st_uid;
    return is_file;
}

dibs_status handle_who(const dibs_settings *settings, char principal[DIBS_PRINCIPAL_MAX + 1],
                       struct core_caller *out, dibs_err *err)
{
    struct owner_users users;
    dibs_status s = owner_users_load(&users, err);

    if (s != DIBS_OK)
        return s;
    uint32_t uid = owner_uid_above(&users, (uint32_t) geteuid());
    if (uid == OWNER_UID_UNKNOWN)
        return err_set(
            err, DIBS_FAILURE,
            "you have no uid in this user namespace, so that nothing could be told to be yours; map "
            "one, as 'unshare --map-root-user' does");
    (void) snprintf(principal, DIBS_PRINCIPAL_MAX + 1, "uid:%u", (unsigned) uid);
    out->settings = settings;
    out->principal = principal;
    out->uid = uid;
    out->pid = (int32_t) getpid();
    /* Root of a user namespace is anybody outside of it; but whose file the ledger is could write it anyway.
     */
    uid_t owner = 0;
    bool is_file = file_owner(settings->ledger, &owner);
    out->is_admin = geteuid() == 0 && (users.is_initial || (is_file && owner == geteuid()));
    out->is_guest = is_file && owner != geteuid() && !out->is_admin;
    return DIBS_OK;
}

dibs_status dibs_open(const dibs_settings *settings, dibs **out, dibs_err *err)
{
    dibs_err local = { 0 };
    struct ledger *ledger = NULL;

    if (!err)
        err = &local;
    if (!out)
        return err_set(err, DIBS_INVALID, "opening dibs: no place for the handle");
    dibs *handle = calloc(1, sizeof *handle);
    if (!handle)
        return err_set(err, DIBS_FAILURE, "opening dibs: out of memory");
    dibs_status s =
        settings ? args_settings(settings, err) : dibs_settings_load(NULL, 0, &handle->settings, err);
    if (s == DIBS_OK && settings)
        handle->settings = *settings;
    if (s == DIBS_OK)
        s = open_ledger(handle, &ledger, err);
    handle->pid = getpid();
    struct core_options options = { .now = real_now, .now_ctx = handle };
    if (s == DIBS_OK)
        s = handle_who(&handle->settings, handle->principal, &options.caller, err);
    if (s != DIBS_OK)
        ledger_close(ledger);
    else
        s = core_open(ledger, &options, &handle->core, err);
    if (s != DIBS_OK) {
        dibs_close(handle);
        return s;
    }
    *out = handle;
    return DIBS_OK;
}

void dibs_close(dibs *handle)
{
    if (!handle)
        return;
    /* After a fork the connection is the parent's: what the child closes of it could harm him. */
    if (handle->pid == getpid() || !handle->core)
        core_close(handle->core);
    free(handle);
}

int64_t dibs_boot_ms(const dibs *handle)
{
    return handle ? core_now(handle->core).boot_ms : 0;
}

bool dibs_is_degraded(const dibs *handle, char *why, size_t why_size)
{
    bool is_degraded = handle && handle->why_degraded.code != DIBS_OK;

    if (is_degraded && why && why_size > 0)
        (void) text_copy(why, why_size, handle->why_degraded.msg);
    return is_degraded;
}

const char *dibs_principal_of(const dibs *handle)
{
    return handle ? handle->principal : "";
}

const dibs_settings *dibs_settings_of(const dibs *handle)
{
    return handle ? &handle->settings : NULL;
}

/* Everything but an unnamed random claim needs the ledger; its deadline begins here. */
static dibs_status need_ledger(dibs *handle, dibs_err *err)
{
    if (handle->pid != getpid())
        return err_set(err, DIBS_INVALID,
                       "this handle belongs to the process that opened it; open another after a fork");
    if (handle->is_calling_back)
        return err_set(err, DIBS_INVALID, "a callback cannot use the handle that calls it");
    if (handle->core->ledger) /* a disk that was full may have room again */
        handle->why_degraded.code = DIBS_OK;
    if (handle->why_degraded.code == DIBS_OK) {
        ledger_start_call(handle->core->ledger);
        return DIBS_OK;
    }
    if (err)
        *err = handle->why_degraded;
    return DIBS_UNAVAILABLE;
}

/* ---- the fallback ---- */

static bool withhold_claimed(void *ctx, const dibs_claim *claim)
{
    portbits_remove_range(ctx, (dibs_range){ claim->port, claim->port });
    return true;
}

static dibs_status degraded_claims(dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    const dibs_request *first = &batch->requests[0];
    AUTO(free_auto) uint16_t *ports = calloc(batch->n, sizeof *ports);
    struct portbits choosable = { 0 };
    struct portbits withheld;
    struct ledger_want wanted = { 0 };
    struct ask ask = { 0 };
    dibs_claim claim = { .kind = DIBS_DYNAMIC, .is_exclusive = true, .is_degraded = true };
    char instance[24];

    if (!ports)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    dibs_status s = request_prepare(handle->core, first, &ask, &wanted, err);
    if (s != DIBS_OK)
        return s;
    claim.n_bindings = wanted.claim.n_bindings;
    claim.is_narrowed = ask.is_narrowed;
    memcpy(claim.bindings, wanted.claim.bindings, sizeof claim.bindings);
    (void) text_copy(claim.principal, sizeof claim.principal, handle->principal);
    core_withheld(handle->core, true, &withheld);
    portbits_add_ranges(&choosable, first->ranges ? first->ranges : &handle->settings.range);
    portbits_subtract(&choosable, &withheld);
    /* A ledger that cannot be written may be readable still: what it has is not given again. */
    if (handle->core->ledger)
        s = ledger_list(handle->core->ledger, &(struct ledger_filter){ 0 }, withhold_claimed, &choosable,
                        err);
    if (s != DIBS_OK &&
        !may_fall_back(&handle->settings, err)) /* it is there, and what it has is not known */
        return s;
    (void) snprintf(instance, sizeof instance, "%d", (int) getpid());
    struct mru_want want = {
        .claim = &claim,
        .choosable = &choosable,
        .n = batch->n,
        .lifetime_ms = MRU_LIFETIME_MS,
        .timeout_ms = handle->settings.timeout_ms,
        .now = core_now(handle->core),
        .boot_id = handle->core->view.boot_id,
        .instance = instance,
        .entropy = core_random(handle->core),
        .probe = core_probe,
        .probe_ctx = handle->core,
    };
    s = mru_claim(handle->settings.mru_file, &want, ports, err);
    for (size_t i = 0; i < batch->n && s == DIBS_OK; i++) {
        out[i] = claim;
        out[i].port = ports[i];
    }
    return s;
}

static bool is_simple(const dibs_request *r, const dibs_request *first)
{
    bool is_same = r->n_bindings == first->n_bindings;

    for (size_t i = 0; i < r->n_bindings && is_same; i++)
        is_same = r->bindings[i].proto == first->bindings[i].proto &&
                  dibs_address_equal(&r->bindings[i].address, &first->bindings[i].address);
    return is_same && r->mode == DIBS_RANDOM && !r->name && !r->pool && !r->keep &&
           r->ranges == first->ranges;
}

static bool is_for_fallback(const dibs_batch *batch)
{
    bool is_simple_batch = batch->n > 0 && batch->n_drops == 0 && !batch->is_contiguous && !batch->is_dry_run;

    for (size_t i = 0; i < batch->n && is_simple_batch; i++)
        is_simple_batch = is_simple(&batch->requests[i], &batch->requests[0]);
    return is_simple_batch;
}

dibs_status dibs_claim_ports(dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    AUTO(free_auto) dibs_claim *got = NULL;
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
    got = calloc(batch->n + 1, sizeof *got);
    if (!got)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    s = need_ledger(handle, err);
    if (s == DIBS_OK)
        s = core_claim(handle->core, batch, got, err);
    /* A disk that fills up shows only when something is written. */
    if (s == DIBS_UNAVAILABLE && may_fall_back(&handle->settings, err))
        handle->why_degraded = *err;
    if (s == DIBS_UNAVAILABLE && handle->why_degraded.code != DIBS_OK && is_for_fallback(batch))
        s = degraded_claims(handle, batch, got, err);
    if (s == DIBS_OK && batch->n > 0)
        memcpy(out, got, batch->n * sizeof *out);
    return s;
}

/* ---- the verbs, checked and passed on ---- */

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

dibs_status dibs_claim_release(dibs *handle, const dibs_which *which, unsigned flags, size_t *n,
                               dibs_err *err)
{
    NEED(handle, which, args_which(which, err), err);
    dibs_status s = args_flags(
        flags, DIBS_RELEASE_FORCE | DIBS_RELEASE_UNHOLD | DIBS_RELEASE_UNKEEP | DIBS_RELEASE_DRY_RUN, err);
    return s == DIBS_OK ? core_release(handle->core, which, flags, n, err) : s;
}

dibs_status dibs_claim_renew(dibs *handle, const dibs_which *which, int64_t ttl_ms, dibs_claim *out,
                             dibs_err *err)
{
    NEED(handle, which && out, args_which(which, err), err);
    return core_renew(handle->core, which, ttl_ms, out, err);
}

dibs_status dibs_claim_transfer(dibs *handle, const dibs_which *which, const dibs_heir *heir, dibs_claim *out,
                                dibs_err *err)
{
    NEED(handle, which && heir && out, args_which(which, err), err);
    return core_transfer(handle->core, which, heir, out, err);
}

dibs_status dibs_claim_find(dibs *handle, const dibs_which *which, dibs_claim *out, dibs_err *err)
{
    NEED(handle, which && out, args_which(which, err), err);
    return core_find(handle->core, which, out, err);
}

dibs_status dibs_name_locate(dibs *handle, const char *name, const char *project, char out[DIBS_NAME_MAX + 1],
                             dibs_err *err)
{
    char found[DIBS_NAME_MAX + 1];

    NEED(handle, name && out, DIBS_OK, err);
    dibs_status s = dibs_name_check(name, err);
    if (s == DIBS_OK)
        s = core_name(handle->core, name, project, found, err);
    if (s == DIBS_OK)
        (void) text_copy(out, DIBS_NAME_MAX + 1, found);
    return s;
}

dibs_status dibs_claim_list(dibs *handle, const dibs_filter *filter, dibs_claim_fn fn, void *ctx,
                            dibs_err *err)
{
    NEED(handle, filter && fn, args_filter(filter, err), err);
    handle->is_calling_back = true;
    dibs_status s = core_list(handle->core, filter, fn, ctx, err);
    handle->is_calling_back = false;
    return s;
}

dibs_status dibs_event_list(dibs *handle, const dibs_event_query *query, dibs_event_fn fn, void *ctx,
                            dibs_err *err)
{
    NEED(handle, query && fn, DIBS_OK, err);
    handle->is_calling_back = true;
    dibs_status s = ledger_events(handle->core->ledger, query, NULL, fn, ctx, err);
    handle->is_calling_back = false;
    return s;
}

dibs_status dibs_pool_get(dibs *handle, const char *name, dibs_pool *out, dibs_err *err)
{
    NEED(handle, name && out, DIBS_OK, err);
    return core_pool_stored(handle->core, name, out, err);
}

dibs_status dibs_pool_put(dibs *handle, const dibs_pool *pool, dibs_err *err)
{
    NEED(handle, pool, DIBS_OK, err);
    return core_pool_put(handle->core, pool, err);
}

dibs_status dibs_pool_remove(dibs *handle, const char *name, dibs_err *err)
{
    NEED(handle, name, DIBS_OK, err);
    return core_pool_remove(handle->core, name, err);
}

dibs_status dibs_pool_list(dibs *handle, dibs_pool_fn fn, void *ctx, dibs_err *err)
{
    NEED(handle, fn, DIBS_OK, err);
    handle->is_calling_back = true;
    dibs_status s = core_pool_list(handle->core, fn, ctx, err);
    handle->is_calling_back = false;
    return s;
}

dibs_status dibs_pool_usage_of(dibs *handle, const char *name, dibs_pool_usage *out, dibs_err *err)
{
    NEED(handle, name && out, DIBS_OK, err);
    return core_pool_usage(handle->core, name, out, err);
}

const char *dibs_order_name(size_t i)
{
    const struct order *order = order_at(i);

    return order ? order->name : NULL;
}

dibs_status dibs_port_explain(dibs *handle, const dibs_port_question *question, dibs_port_report *out,
                              dibs_err *err)
{
    NEED(handle, out && question && (question->bindings || question->n == 0), args_question(question, err),
         err);
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report);
    if (!report)
        return err_set(err, DIBS_FAILURE, "explaining: out of memory");
    dibs_status s = core_explain(handle->core, question, report, err);
    if (s == DIBS_OK)
        *out = *report;
    return s;
}

dibs_status dibs_claim_assert(dibs *handle, const dibs_which *which, dibs_socket *out, dibs_err *err)
{
    NEED(handle, which && out, args_which(which, err), err);
    return core_assert(handle->core, which, out, err);
}

dibs_status dibs_reap(dibs *handle, unsigned flags, dibs_claim_fn fn, void *ctx, size_t *n, dibs_err *err)
{
    NEED(handle, true, args_flags(flags, DIBS_REAP_STALE | DIBS_REAP_DRY_RUN, err), err);
    handle->is_calling_back = true;
    dibs_status s = core_reap(handle->core, flags, fn, ctx, n, err);
    handle->is_calling_back = false;
    return s;
}

dibs_status dibs_repair(dibs *handle, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                        dibs_err *err)
{
    NEED(handle, plan && fn, args_repair(plan, err), err);
    handle->is_calling_back = true;
    dibs_status s = core_repair(handle->core, plan, fn, ctx, err);
    handle->is_calling_back = false;
    return s;
}

dibs_status dibs_snapshot_export(dibs *handle, const char *pool, char range[DIBS_RANGES_TEXT_MAX + 1],
                                 uint8_t *bytes, size_t *n, dibs_err *err)
{
    NEED(handle, range && bytes && n, DIBS_OK, err);
    return core_snapshot_export(handle->core, pool, range, bytes, n, err);
}

dibs_status dibs_snapshot_import(dibs *handle, const char *pool, const dibs_range_snapshot *snapshot,
                                 size_t *n_claimed, dibs_err *err)
{
    NEED(handle, snapshot && snapshot->range && (snapshot->bytes || snapshot->n == 0), DIBS_OK, err);
    return core_snapshot_import(handle->core, pool, snapshot, n_claimed, err);
}

dibs_status dibs_claim_restore(dibs *handle, const dibs_snapshot *snapshot, size_t *n_restored, dibs_err *err)
{
    NEED(handle,
         snapshot && (snapshot->claims || snapshot->n == 0) && (snapshot->pools || snapshot->n_pools == 0),
         args_snapshot(snapshot, err), err);
    return core_restore(handle->core, snapshot, n_restored, err);
}
