/* SPDX-License-Identifier: MIT */
/* Routes for ports and for maintenance of the ledger. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "codec/wire_fields.h"
#include "daemon/api/internal.h"
#include "lib/handle.h"

#include "base/banned.h"

dibs_status api_explain(struct api_request *request, dibs *handle, dibs_err *err)
{
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report);
    dibs_binding bindings[DIBS_BINDINGS_MAX];
    dibs_port_question question = { 0 };

    if (!report)
        return err_set(err, DIBS_FAILURE, "explaining: out of memory");
    dibs_status s = wire_question_read(request->match.part[0], request->match.part[1], &request->params,
                                       bindings, &question, err);
    if (s == DIBS_OK)
        s = dibs_port_explain(handle, &question, report, err);
    if (s == DIBS_OK)
        wire_report(&request->w, question.port, report);
    return s;
}

static bool add_claim(void *ctx, const dibs_claim *claim)
{
    wire_claim(ctx, claim, false);
    return true;
}

struct repairing {
    struct jsonw *w;
    struct metrics *metrics; /* NULL: a dry run is not counted */
};

static bool add_repair(void *ctx, const dibs_repair_item *item)
{
    struct repairing *to = ctx;

    wire_repair_item(to->w, item);
    if (to->metrics)
        metrics_repaired(to->metrics, item->kind);
    return true;
}

static bool add_finding(void *ctx, const dibs_finding *finding)
{
    wire_finding(ctx, finding);
    return true;
}

dibs_status api_reap(struct api_request *request, dibs *handle, dibs_err *err)
{
    static const char *const known[] = { "stale", "dry_run", NULL };
    bool is_stale = false;
    bool is_dry_run = false;
    struct fields f = { 0 };

    fields_begin(&f, jsonr_root(request->body.doc), known, WIRE_ASKED, err);
    fields_bool(&f, "stale", &is_stale);
    fields_bool(&f, "dry_run", &is_dry_run);
    if (f.status != DIBS_OK)
        return f.status;
    api_begin_list(request, "claims");
    dibs_status s =
        dibs_reap(handle, (is_stale ? DIBS_REAP_STALE : 0u) | (is_dry_run ? DIBS_REAP_DRY_RUN : 0u),
                  add_claim, &request->w, NULL, err);
    api_end_list(request);
    return s;
}

dibs_status api_repair(struct api_request *request, dibs *handle, dibs_err *err)
{
    struct wire_plan plan = { 0 };
    struct repairing to = { .w = &request->w };
    size_t n = 0;
    const char *text = api_body(request, &n);
    dibs_status s = wire_plan_read(text, n, &plan, err);

    if (s == DIBS_OK) {
        api_charge(request, plan.plan.n);
        to.metrics = plan.plan.is_dry_run ? NULL : request->api->options.metrics;
        api_begin_list(request, "findings");
        s = dibs_repair(handle, &plan.plan, add_repair, &to, err);
        api_end_list(request);
    }
    wire_plan_done(&plan);
    return s;
}

dibs_status api_restore(struct api_request *request, dibs *handle, dibs_err *err)
{
    struct wire_snapshot read = { 0 };
    size_t n = 0;
    dibs_status s = wire_snapshot_read(jsonr_root(request->body.doc), &read, err);

    if (s == DIBS_OK) {
        api_charge(request, read.n_claims);
        for (size_t i = 0; i < read.n_claims && s == DIBS_OK; i++) {
            s = caller_check(&request->api->view, request->caller, &read.claims[i], err);
            if (s != DIBS_OK)
                (void) err_wrap(err, s, "claims[%zu]", i);
        }
    }
    if (s == DIBS_OK) {
        const dibs_snapshot snapshot = { read.claims, read.n_claims, read.pools, read.n_pools };

        s = dibs_claim_restore(handle, &snapshot, &n, err);
    }
    wire_snapshot_done(&read);
    return api_write_count(request, s, "restored", n);
}

dibs_status api_daemon(struct api_request *request, dibs *handle, dibs_err *err)
{
    struct wire_daemon daemon = { .pid = (int32_t) getpid(),
                                  .is_admin = request->caller->call.is_admin,
                                  .enforces = request->api->options.engine->enforce != NULL,
                                  .boot_ms = dibs_boot_ms(handle) };

    (void) err;
    (void) text_copy(daemon.version, sizeof daemon.version, dibs_version());
    (void) text_copy(daemon.principal, sizeof daemon.principal, request->caller->principal);
    (void) text_copy(daemon.ledger, sizeof daemon.ledger, dibs_settings_of(handle)->ledger);
    wire_daemon(&request->w, &daemon);
    return DIBS_OK;
}

/* Say whether the kernel enforces the claims, which only the daemon knows. */
static void add_enforcing(struct api_request *request)
{
    const struct engine *engine = request->api->options.engine;
    dibs_finding finding = { .severity = engine->counts.unenforced ? DIBS_WARNING : DIBS_FINE,
                             .topic = "hold" };

    if (!engine->enforce)
        return;
    if (engine->counts.unenforced) {
        (void) text_copy(finding.advice, sizeof finding.advice, "see the daemon's log for the first one");
        (void) snprintf(finding.text, sizeof finding.text,
                        "the kernel enforces the claims, but could not be given %llu of them since the start",
                        (unsigned long long) engine->counts.unenforced);
    } else
        (void) text_copy(finding.text, sizeof finding.text,
                         "the kernel enforces the claims: it refuses a claimed port to others");
    wire_finding(&request->w, &finding);
}

static dibs_status examine(struct api_request *request, dibs *handle, bool is_fix, dibs_err *err)
{
    api_begin_list(request, "findings");
    dibs_status s = handle_doctor(handle, is_fix, add_finding, &request->w, err);
    add_enforcing(request);
    api_end_list(request);
    return s;
}

dibs_status api_doctor(struct api_request *request, dibs *handle, dibs_err *err)
{
    return examine(request, handle, false, err);
}

dibs_status api_doctor_fix(struct api_request *request, dibs *handle, dibs_err *err)
{
    if (request->caller->call.is_guest)
        return err_set(
            err, DIBS_DENIED,
            "only its owner may repair this ledger: use the admin socket, or 'dibs doctor --fix' there");
    return examine(request, handle, true, err);
}
