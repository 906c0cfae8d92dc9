/* SPDX-License-Identifier: MIT */
#include "lib/fallback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/directory.h"
#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

enum {
    LEASE_MS = 120000, /* as DCP: long enough for a slow server to bind */
    PATH_BYTES = 1024,
};

bool fallback_may(const dibs_settings *settings, const dibs_err *why)
{
    return settings->ledger_mode == DIBS_LEDGER_FALLBACK && why->code == DIBS_UNAVAILABLE &&
           (why->trouble == DIBS_TROUBLE_MISSING || why->trouble == DIBS_TROUBLE_UNWRITABLE ||
            why->trouble == DIBS_TROUBLE_FULL);
}

bool fallback_serves(const dibs_batch *batch)
{
    bool is_simple = batch->n > 0 && batch->n_drops == 0 && !batch->is_contiguous && !batch->is_dry_run;

    for (size_t i = 0; i < batch->n && is_simple; i++) {
        const dibs_request *r = &batch->requests[i];

        is_simple = r->mode == DIBS_RANDOM && !r->name && !r->pool && !r->keep;
    }
    return is_simple;
}

/* ---- the file ---- */

/* Make the directory of the file and those above it. */
static dibs_status make_directory(const char *path, char dir[PATH_BYTES], dibs_err *err)
{
    if (!path[0] || !directory_of(path, dir, PATH_BYTES))
        return err_set(err, DIBS_INVALID, "recently used ports: the path has 1 to %d bytes", PATH_BYTES - 1);
    int failed = directory_make(dir, 0700);

    return failed == 0 ? DIBS_OK
                       : err_os(err, DIBS_UNAVAILABLE, failed,
                                "recently used ports %s: cannot make its directory", path);
}

/* Check that only we may write to the file's directory, and that no other user can replace it. */
static dibs_status check_directory(const char *path, dibs_err *err)
{
    char dir[PATH_BYTES];
    char up[PATH_BYTES + 4];
    struct stat here = { 0 };
    struct stat above = { 0 };
    const char *fault = NULL;
    dibs_status s = make_directory(path, dir, err);

    if (s != DIBS_OK)
        return s;
    (void) snprintf(up, sizeof up, "%s/..", dir);
    if (lstat(dir, &here) != 0 || stat(up, &above) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "recently used ports %s: cannot read its directory",
                      path);
    if (here.st_uid != geteuid() || !S_ISDIR(here.st_mode))
        fault = "its directory belongs to another user, or is not a directory";
    else if (here.st_mode & (S_IWGRP | S_IWOTH))
        fault = "others may write to its directory";
    else if ((above.st_mode & (S_IWGRP | S_IWOTH)) && !(above.st_mode & S_ISVTX))
        fault = "others may replace its directory";
    return fault ? err_trouble(err, DIBS_TROUBLE_UNWRITABLE, "recently used ports %s: %s; it is not used",
                               path, fault)
                 : DIBS_OK;
}

/* Set a damaged or old file aside: its leases are short, so it is made again. It may be another program's. */
static void set_aside(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    char name[PATH_BYTES + 8];
    char aside[PATH_BYTES + 24];
    struct stat st = { 0 };

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void) snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void) snprintf(aside, sizeof aside, "%s.damaged%s", path, suffixes[i]);
        if (lstat(name, &st) == 0 && S_ISREG(st.st_mode)) /* a directory there is the user's to remove */
            (void) rename(name, aside);
    }
}

/* ---- claims ---- */

static dibs_status open_file(const dibs_settings *settings, const struct core_options *options,
                             struct core **out, dibs_err *err)
{
    const struct ledger_options how = { .timeout_ms = settings->timeout_ms };
    char uri[PATH_BYTES + sizeof "sqlite:"];
    struct ledger *ledger = NULL;

    (void) snprintf(uri, sizeof uri, "sqlite:%s", settings->mru_file);
    dibs_status s = ledger_open(uri, &how, &ledger, err);
    return s == DIBS_OK ? core_open(ledger, options, out, err) : s;
}

static dibs_status file_failed(const dibs_settings *settings, dibs_status s, dibs_err *err)
{
    char *advice = strrchr(err->msg, ';');

    if (advice) /* drop it: it is about the usual ledger */
        *advice = '\0';
    return err_wrap(err, s, "recently used ports %s", settings->mru_file);
}

/* Claim the batch as leases in the file. */
static dibs_status claim_leases(const dibs_settings *settings, const struct core_options *options,
                                const struct call *call, const dibs_batch *batch, dibs_claim *out,
                                dibs_err *err)
{
    struct core *core = NULL;
    dibs_status s = open_file(settings, options, &core, err);

    if (s == DIBS_OK)
        s = core_claim(core, call, batch, out, err);
    core_close(core);
    return s == DIBS_OK ? s : file_failed(settings, s, err);
}

/* Return the claim as the caller sees it: the lease has no token and cannot be renewed. */
static dibs_claim degraded(const dibs_claim *claim)
{
    dibs_claim out = { .port = claim->port,
                       .kind = claim->kind,
                       .is_exclusive = true,
                       .is_degraded = true,
                       .is_narrowed = claim->is_narrowed,
                       .n_bindings = claim->n_bindings };

    memcpy(out.bindings, claim->bindings, sizeof out.bindings);
    (void) text_copy(out.principal, sizeof out.principal, claim->principal);
    return out;
}

dibs_status fallback_claim(const dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    const dibs_settings *settings = &handle->to->settings;
    const struct call call = handle_call(handle);
    const struct core *usual = handle->to->core;
    struct core_options options = usual->options;
    struct portbits claimed = { 0 };
    AUTO(free_auto) dibs_request *requests = calloc(batch->n, sizeof *requests);
    const dibs_batch leases = { .requests = requests, .n = batch->n };
    dibs_status s = DIBS_OK;

    if (!requests)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    /* A ledger that cannot be written may still be readable: avoid its ports. */
    if (usual->ledger)
        s = ledger_list(usual->ledger, &call, &(struct ledger_filter){ 0 }, core_add_port, &claimed, err);
    if (s != DIBS_OK && !fallback_may(settings, err)) /* the ledger exists, but its ports are unknown */
        return s;
    options.withheld = &claimed;
    for (size_t i = 0; i < batch->n; i++) {
        requests[i] = batch->requests[i];
        requests[i].holder = DIBS_HELD_BY_LEASE;
        requests[i].ttl_ms = LEASE_MS;
        if (!requests[i].ranges)
            requests[i].ranges = &settings->range;
    }
    s = check_directory(settings->mru_file, err);
    if (s == DIBS_OK)
        s = claim_leases(settings, &options, &call, &leases, out, err);
    if (s == DIBS_UNAVAILABLE && err->trouble == DIBS_TROUBLE_DAMAGED) {
        set_aside(settings->mru_file);
        s = claim_leases(settings, &options, &call, &leases, out, err);
    }
    for (size_t i = 0; i < batch->n && s == DIBS_OK; i++)
        out[i] = degraded(&out[i]);
    return s;
}

/* Release leases in the file, if there is one. */
static dibs_status release_leases(const dibs *handle, const dibs_which *which, unsigned flags, size_t *n,
                                  dibs_err *err)
{
    const dibs_settings *settings = &handle->to->settings;
    const struct call call = handle_call(handle);
    struct core *core = NULL;

    if (which->token || which->name || access(settings->mru_file, F_OK) != 0)
        return DIBS_OK;
    dibs_status s = check_directory(settings->mru_file, err);
    if (s != DIBS_OK)
        return s;
    s = open_file(settings, &handle->to->core->options, &core, err);
    if (s == DIBS_OK)
        s = core_release(core, &call, which, flags, n, err);
    core_close(core);
    if (s != DIBS_UNAVAILABLE || err->trouble != DIBS_TROUBLE_DAMAGED)
        return s == DIBS_OK ? s : file_failed(settings, s, err);
    set_aside(settings->mru_file);
    return DIBS_OK;
}

dibs_status fallback_release(const dibs *handle, const dibs_which *which, unsigned flags, dibs_status ended,
                             size_t *n, dibs_err *err)
{
    const struct connection *to = handle->to;
    bool has_ledger = ended != DIBS_UNAVAILABLE || to->why_degraded.code == DIBS_OK;
    dibs_err own = { 0 };
    size_t lent = 0;

    if (to->remote || to->settings.ledger_mode == DIBS_LEDGER_STRICT || (*n > 0 && !which->all_mine) ||
        (ended != DIBS_OK && has_ledger))
        return ended;
    dibs_status s = release_leases(handle, which, flags, &lent, &own);
    if (s != DIBS_OK) {
        if (err)
            *err = own;
        return s;
    }
    *n += lent;
    bool has_claims =
        to->settings.ledger_mode != DIBS_LEDGER_MRU && to->why_degraded.trouble != DIBS_TROUBLE_MISSING;
    return has_claims && (lent == 0 || which->all_mine) ? ended : DIBS_OK;
}
