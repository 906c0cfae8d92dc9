/* SPDX-License-Identifier: MIT */
/* Changes existing claims: finds them by token, name or port, and releases, renews or transfers them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "core/core.h"
#include "core/hold_report.h"

#include "base/banned.h"

enum { MATCHES_SHOWN = 8 };

struct matches {
    dibs_claim first;
    size_t n;
    size_t n_others; /* matches of other principals */
    const struct call *call;
    const dibs_which *others; /* search the claims of other principals for this; NULL: the caller's own */
    char list[400];
};

/* Return whether the claim matches; a relative name matches in its directory, for any principal. */
static bool is_meant(const dibs_which *which, const dibs_claim *claim)
{
    bool is_elsewhere = which->project && which->project[0] && claim->project[0] &&
                        strcmp(which->project, claim->project) != 0;

    return !which->name || (strcmp(which->name, claim->name) == 0 && !is_elsewhere);
}

static bool match(void *ctx, const dibs_claim *claim)
{
    struct matches *m = ctx;
    char one[160];
    bool is_own = strcmp(claim->principal, m->call->principal) == 0;

    m->n_others += !is_own;
    if (m->others ? is_own || !is_meant(m->others, claim) : !is_own)
        return true;
    if (m->n == 0)
        m->first = *claim;
    if (m->n < MATCHES_SHOWN) {
        (void) snprintf(one, sizeof one, "%s%.80s (port %u, %s%s%s)", m->n ? "; " : "",
                        claim->name[0] ? claim->name : "unnamed", claim->port,
                        claim->n_bindings ? dibs_proto_text(claim->bindings[0].proto) : "?",
                        m->others ? ", " : "", m->others ? claim->principal : "");
        (void) strncat(m->list, one, sizeof m->list - strlen(m->list) - 1);
    }
    m->n++;
    return true;
}

static dibs_status by_port(struct core *core, const struct call *call, const dibs_which *which,
                           dibs_claim *out, dibs_err *err)
{
    struct matches m = { .call = call };
    struct ledger_filter filter = { .port = which->port, .proto = which->proto };
    dibs_status s = ledger_list(core->ledger, call, &filter, match, &m, err);

    if (s != DIBS_OK)
        return s;
    if (m.n == 0)
        return err_set(err, DIBS_NOT_FOUND,
                       m.n_others ? "port %u is not yours; see 'dibs who %u'"
                                  : "no claim of yours is on port %u (see 'dibs who %u')",
                       which->port, which->port);
    if (m.n > 1)
        return err_set(err, DIBS_INVALID,
                       "%zu of your claims are on port %u, say which by its name or token: %s", m.n,
                       which->port, m.list);
    *out = m.first;
    return DIBS_OK;
}

static dibs_status find(struct core *core, const struct call *call, const dibs_which *which, dibs_claim *out,
                        dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];

    if (which->token)
        return ledger_find_token(core->ledger, call, which->token, out, err);
    if (which->name) {
        dibs_status s = dibs_name_check(which->name, err);

        if (s == DIBS_OK)
            s = core_name(&(struct core_names){ .core = core, .call = call }, which->name, which->project,
                          name, err);
        return s == DIBS_OK ? ledger_find_name(core->ledger, call, name, out, NULL, err) : s;
    }
    if (which->port)
        return by_port(core, call, which, out, err);
    return err_set(err, DIBS_INVALID, "say which claim: a name, a port or a token");
}

dibs_status core_find(struct core *core, const struct call *call, const dibs_which *which, dibs_claim *out,
                      dibs_err *err)
{
    dibs_claim found;
    dibs_status s = find(core, call, which, &found, err);

    if (s == DIBS_OK)
        s = ledger_certain(&found, err);
    if (s != DIBS_OK)
        return s;
    hold_report_enforced(core, &found);
    *out = found;
    return DIBS_OK;
}

/* Find the claim of another user for an administrator who has none of that name or port. */
static dibs_status find_anybodys(struct core *core, const struct call *call, const dibs_which *which,
                                 dibs_claim *out, dibs_err *err)
{
    struct matches m = { .call = call, .others = which };
    struct ledger_filter filter = { .name_prefix = which->name, .port = which->port, .proto = which->proto };
    dibs_status s = find(core, call, which, out, err);

    if (s != DIBS_NOT_FOUND || !call->is_admin)
        return s;
    s = ledger_list(core->ledger, call, &filter, match, &m, err);
    if (s != DIBS_OK || m.n == 0)
        return s == DIBS_OK ? DIBS_NOT_FOUND : s;
    if (m.n > 1)
        return err_set(
            err, DIBS_INVALID,
            "you have no such claim, and others have %zu; say which by its port, name or token: %s", m.n,
            m.list);
    *out = m.first;
    return DIBS_OK;
}

static struct ledger_seen seen_of(const dibs_claim *claim)
{
    return (struct ledger_seen){ claim->id, claim->generation, claim->lease_until_ms };
}

struct own_ids {
    struct core *core;
    const struct call *call;
    bool is_forced;
    struct ledger_seen *seen;
    size_t n, max;
    bool is_failed;
};

static bool add_own(void *ctx, const dibs_claim *claim)
{
    struct own_ids *o = ctx;
    dibs_claim judged = *claim;

    /* Never end a claim whose holder may be alive (INV-5). */
    if (!o->is_forced && core_judge(o->core, o->call, NULL, &judged, NULL) == DIBS_UNKNOWN)
        return true;
    o->is_failed = !grow((void **) &o->seen, o->n, &o->max, sizeof *o->seen);
    if (o->is_failed)
        return false;
    o->seen[o->n++] = seen_of(claim);
    return true;
}

static dibs_status release_all(struct core *core, const struct call *call, unsigned flags,
                               enum ledger_end_how how, size_t *n, dibs_err *err)
{
    struct ledger_filter mine = { .principal = call->principal };
    struct own_ids own = { .core = core, .call = call, .is_forced = (flags & DIBS_RELEASE_FORCE) != 0 };
    dibs_status s = ledger_list(core->ledger, call, &mine, add_own, &own, err);
    size_t ended = 0;

    if (s == DIBS_OK && own.is_failed)
        s = err_set(err, DIBS_FAILURE, "releasing: out of memory");
    if (flags & DIBS_RELEASE_DRY_RUN)
        ended = own.n;
    else if (s == DIBS_OK && own.n > 0)
        s = ledger_end(core->ledger, call, &(struct ledger_ending){ own.seen, own.n, how }, &ended, err);
    if (s == DIBS_OK && n)
        *n = ended;
    free(own.seen);
    core_index_forget(core);
    return s;
}

/* Release by token. It identifies one generation, so nothing has to be looked up or judged first. */
static dibs_status release_token(struct core *core, const struct call *call, const char *token,
                                 enum ledger_end_how how, size_t *n, dibs_err *err)
{
    struct ledger_ended ended;
    dibs_status s = ledger_end_token(core->ledger, call, token, how, &ended, err);

    if (s != DIBS_OK)
        return s;
    if (ended.n && !ledger_stays(&ended.claim, how, call->now.boot_ms))
        core_index_note_end(core, &ended.claim, call->now.boot_ms);
    if (n)
        *n = ended.n;
    return DIBS_OK;
}

dibs_status core_release(struct core *core, const struct call *call, const dibs_which *which, unsigned flags,
                         size_t *n, dibs_err *err)
{
    enum ledger_end_how how = flags & DIBS_RELEASE_UNKEEP   ? LEDGER_END_UNKEEP
                              : flags & DIBS_RELEASE_UNHOLD ? LEDGER_END_UNHOLD
                                                            : LEDGER_END_RELEASE;
    bool is_dry = flags & DIBS_RELEASE_DRY_RUN;
    dibs_claim claim = { 0 };
    char who[512];
    size_t ended = 1;

    if (which->all_mine)
        return release_all(core, call, flags, how, n, err);
    if (which->token && !is_dry)
        return release_token(core, call, which->token, how, n, err);
    dibs_status s =
        which->token ? find(core, call, which, &claim, err) : find_anybodys(core, call, which, &claim, err);
    if (s == DIBS_NOT_FOUND) {
        if (n)
            *n = 0;
        return DIBS_OK; /* idempotent: the claim is already gone */
    }
    if (s != DIBS_OK)
        return s;
    /* A name or port may match a claim whose holder is alive. */
    if (!(flags & DIBS_RELEASE_FORCE) && core_judge(core, call, NULL, &claim, NULL) == DIBS_UNKNOWN) {
        s = ledger_certain(&claim, err);
        if (s == DIBS_UNAVAILABLE) /* nothing can be written, by force neither (INV-11) */
            return s;
        core_describe(&claim, who, sizeof who);
        return err_set(err, DIBS_TAKEN,
                       "port %u: it is unknown whether its holder is alive (%s); end it with --force",
                       claim.port, who);
    }
    struct ledger_seen seen = seen_of(&claim);
    s = is_dry ? ledger_check_right(call, &claim, err)
               : ledger_end(core->ledger, call, &(struct ledger_ending){ &seen, 1, how }, &ended, err);
    if (s == DIBS_OK && ended && !is_dry && !ledger_stays(&claim, how, call->now.boot_ms))
        core_index_note_end(core, &claim, call->now.boot_ms);
    if (s == DIBS_OK && n)
        *n = ended;
    return s;
}

dibs_status core_renew(struct core *core, const struct call *call, const dibs_which *which, int64_t ttl_ms,
                       dibs_claim *out, dibs_err *err)
{
    dibs_claim claim = { 0 };

    if (ttl_ms <= 0 || ttl_ms > DIBS_TTL_MAX_MS)
        return err_set(err, DIBS_INVALID, "a lease must last between 1 ms and ten years");
    dibs_status s = find(core, call, which, &claim, err);
    return s == DIBS_OK ? ledger_renew(core->ledger, call, seen_of(&claim), ttl_ms, out, err) : s;
}

dibs_status core_transfer(struct core *core, const struct call *call, const dibs_which *which,
                          const dibs_heir *heir, dibs_claim *out, dibs_err *err)
{
    dibs_claim claim = { 0 };
    dibs_claim to = { .is_kept = heir->keep };

    if (heir->holder == DIBS_HELD_BY_NOBODY && !heir->keep)
        return err_set(err, DIBS_INVALID, "a claim needs a holder, or must be kept; 'dibs release' ends it");
    dibs_status s = find(core, call, which, &claim, err);
    if (s == DIBS_OK)
        s = core_holder(core, call, heir, &to, err);
    return s == DIBS_OK ? ledger_transfer(core->ledger, call, seen_of(&claim), &to, out, err) : s;
}

/* ---- lists ---- */

struct judged_list {
    struct core *core;
    const struct call *call;
    dibs_claim_fn fn;
    void *ctx;
};

static bool judge_one(void *ctx, const dibs_claim *claim)
{
    struct judged_list *l = ctx;
    dibs_claim judged = *claim;

    (void) core_judge(l->core, l->call, NULL, &judged, NULL);
    core_see_command(l->core, &judged);
    hold_report_enforced(l->core, &judged);
    return l->fn(l->ctx, &judged);
}

dibs_status core_list(struct core *core, const struct call *call, const dibs_filter *filter, dibs_claim_fn fn,
                      void *ctx, dibs_err *err)
{
    struct judged_list judged = { .core = core, .call = call, .fn = fn, .ctx = ctx };
    struct ledger_filter rows = {
        .name_prefix = filter->name_prefix,
        .pool = filter->pool,
        .principal = filter->principal,
        .port = filter->port,
        .proto = filter->proto,
        .after_id = filter->after_id,
        .limit = filter->limit,
        .project = filter->project,
    };

    return ledger_list(core->ledger, call, &rows, filter->judge ? judge_one : fn,
                       filter->judge ? (void *) &judged : ctx, err);
}
