/* SPDX-License-Identifier: MIT */
/* Routes that look at ports and care for the ledger. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/api_parts.h"
#include "wire/fields.h"

#include "base/banned.h"

DEFINE_AUTO(json_doc, json_free)

dibs_status api_explain(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct wire_params params = api_params(ask);
    AUTO(free_auto) dibs_port_report *report = calloc(1, sizeof *report);
    dibs_binding bindings[DIBS_BINDINGS_MAX];
    dibs_port_question question = { 0 };
    struct json_writer w;

    if (!report)
        return err_set(err, DIBS_FAILURE, "explaining: out of memory");
    dibs_status s = wire_question_read(ask->part[0], ask->part[1], &params, bindings, &question, err);
    if (s == DIBS_OK)
        s = dibs_port_explain(handle, &question, report, err);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    wire_report(&w, question.port, report);
    return DIBS_OK;
}

/* ---- lists that a callback fills ---- */

static bool add_claim(void *ctx, const dibs_claim *claim)
{
    wire_claim(ctx, claim, false);
    return true;
}

struct repairing {
    struct json_writer w;
    struct metrics *metrics; /* NULL: a dry run does not count */
};

static bool add_repair(void *ctx, const dibs_repair_item *item)
{
    struct repairing *to = ctx;

    wire_repair_item(&to->w, item);
    if (to->metrics)
        metrics_repaired(to->metrics, item->kind);
    return true;
}

static bool add_finding(void *ctx, const dibs_finding *finding)
{
    wire_finding(ctx, finding);
    return true;
}

static void begin_list(struct json_writer *w, struct ask *ask, const char *key)
{
    json_begin_bytes(w, &ask->out);
    json_object(w);
    json_key(w, key);
    json_array(w);
}

static void end_list(struct json_writer *w)
{
    json_end_array(w);
    json_end_object(w);
}

dibs_status api_reap(struct ask *ask, dibs *handle, dibs_err *err)
{
    static const char *const known[] = { "stale", "dry_run", NULL };
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct json_writer w;
    bool is_stale = false;
    bool is_dry_run = false;
    struct fields f = { 0 };
    dibs_status s = api_json(ask, &doc, err);

    if (s != DIBS_OK)
        return s;
    fields_begin(&f, json_root(doc), known, WIRE_ASKED, err);
    fields_bool(&f, "stale", &is_stale);
    fields_bool(&f, "dry_run", &is_dry_run);
    if (f.status != DIBS_OK)
        return f.status;
    begin_list(&w, ask, "claims");
    s = dibs_reap(handle, (is_stale ? DIBS_REAP_STALE : 0u) | (is_dry_run ? DIBS_REAP_DRY_RUN : 0u),
                  add_claim, &w, NULL, err);
    end_list(&w);
    return s;
}

dibs_status api_repair(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct wire_plan plan = { 0 };
    struct repairing to = { 0 };
    size_t n = 0;
    const char *text = http_body(ask->r, &n);
    dibs_status s = wire_plan_read(n ? text : "{}", n ? n : 2, &plan, err);

    if (s == DIBS_OK) {
        api_charge(ask, plan.plan.n);
        to.metrics = plan.plan.is_dry_run ? NULL : ask->api->options.metrics;
        begin_list(&to.w, ask, "findings");
        s = dibs_repair(handle, &plan.plan, add_repair, &to, err);
        end_list(&to.w);
    }
    wire_plan_done(&plan);
    return s;
}

dibs_status api_restore(struct ask *ask, dibs *handle, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct wire_snapshot read = { 0 };
    struct json_writer w;
    size_t n = 0;
    dibs_status s = api_json(ask, &doc, err);

    if (s == DIBS_OK)
        s = wire_snapshot_read(json_root(doc), &read, err);
    if (s == DIBS_OK) {
        api_charge(ask, read.n_claims);
        const dibs_snapshot snapshot = { read.claims, read.n_claims, read.pools, read.n_pools };

        s = dibs_claim_restore(handle, &snapshot, &n, err);
    }
    wire_snapshot_done(&read);
    if (s != DIBS_OK)
        return s;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key_uint(&w, "restored", n);
    json_end_object(&w);
    return DIBS_OK;
}

dibs_status api_daemon(struct ask *ask, dibs *handle, dibs_err *err)
{
    AUTO(free_auto) struct wire_daemon *daemon = calloc(1, sizeof *daemon);
    struct json_writer w;

    if (!daemon)
        return err_set(err, DIBS_FAILURE, "telling of the daemon: out of memory");
    (void) text_copy(daemon->version, sizeof daemon->version, dibs_version());
    daemon->pid = (int32_t) getpid();
    (void) text_copy(daemon->principal, sizeof daemon->principal, ask->caller->principal);
    daemon->is_admin = ask->caller->who.is_admin;
    daemon->boot_ms = dibs_boot_ms(handle);
    (void) text_copy(daemon->ledger, sizeof daemon->ledger, dibs_settings_of(handle)->ledger);
    json_begin_bytes(&w, &ask->out);
    wire_daemon(&w, daemon);
    return DIBS_OK;
}

static dibs_status examine(struct ask *ask, dibs *handle, bool is_fix, dibs_err *err)
{
    struct json_writer w;

    begin_list(&w, ask, "findings");
    dibs_status s = dibs_doctor(dibs_settings_of(handle), is_fix, add_finding, &w, err);
    end_list(&w);
    return s;
}

dibs_status api_doctor(struct ask *ask, dibs *handle, dibs_err *err)
{
    return examine(ask, handle, false, err);
}

dibs_status api_doctor_fix(struct ask *ask, dibs *handle, dibs_err *err)
{
    if (ask->caller->who.is_guest)
        return err_set(
            err, DIBS_DENIED,
            "mending this ledger is up to whose it is: use the admin socket, or 'dibs doctor --fix' there");
    return examine(ask, handle, true, err);
}
