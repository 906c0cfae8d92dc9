/* SPDX-License-Identifier: MIT */
#include "kube/controller/reconcile.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/name_part.h"
#include "kube/controller/known.h"
#include "kube/controller/missing_claim.h"
#include "kube/protocol.h"
#include "lib/handle.h"
#include "net/portbits.h"

#include "base/banned.h"

enum {
    STEP = 512,           /* claims per transaction: several etcd requests, each within etcd's limit */
    LOOK_AGAIN_MS = 1000, /* first retry of a claim that could not be restored */
    AGAIN_MS = 60000,     /* later retries */
    FIRST_GENERATION = 1, /* of a claim that was never taken over */
};

struct reconciler {
    struct reconcile_options options;
    struct reconcile_counts counts;
    struct hash_table known;
    struct portbits taken[PROTOCOLS_END]; /* exclusive claims, by protocol */
    struct portbits ports;                /* with any claim, within the pool */
    int64_t due_ms;
    /* of the current pass: */
    int64_t now_ms;
    struct known_list confirm, vacate, end;
    struct missing_claim *missing;
    size_t n_missing, max_missing;
    dibs_claim restore[STEP];
    struct ledger_restored restored[STEP];
    dibs_status status;
    dibs_err err;
};

/* ---- claims in the ledger ---- */

static bool is_clusters(const dibs_claim *claim)
{
    return claim->name[0] && !claim->is_damaged &&
           (strncmp(claim->principal, "ns:", 3) == 0 || strcmp(claim->principal, IDENTITY_OBSERVED) == 0);
}

static void note_ports(struct reconciler *r, const dibs_claim *claim)
{
    for (size_t i = 0; i < claim->n_bindings && claim->is_exclusive; i++)
        portbits_add(&r->taken[claim->bindings[i].proto], claim->port);
    if (dibs_ranges_contain(&r->options.pool->ranges, claim->port))
        portbits_add(&r->ports, claim->port);
}

static bool is_observed(const dibs_claim *claim)
{
    return strcmp(claim->principal, IDENTITY_OBSERVED) == 0;
}

static bool is_needed(const struct reconciler *r, const dibs_claim *claim)
{
    const struct inventory *c = r->options.inventory;

    if (is_observed(claim))
        return inventory_is_used(c, claim->bindings[0].proto, claim->port);
    return inventory_has_pod(c, claim) ||
           (claim->is_exclusive &&
            inventory_is_kept(c, claim)); /* version 1.4 marked names by declared claims */
}

DIBS_PRINTF(5, 6)
static void report(struct reconciler *r, enum reconcile_finding what, const struct inventory_object *object,
                   uint16_t port, const char *fmt, ...)
{
    char text[256] = "";
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (what < RECONCILE_FINDINGS)
        r->counts.n_findings[what]++;
    r->options.report(r->options.ctx, what, object, port, text);
}

/* Report a reservation that ends because its target has not come. */
static void report_unresolved(struct reconciler *r, const dibs_claim *claim)
{
    const struct inventory_object *o =
        claim->keeper[0] ? NULL : inventory_referrer(r->options.inventory, claim);

    if (o)
        report(
            r, RECONCILE_UNRESOLVED, o, claim->port,
            "No pod has come that has the port '%.120s', to which this pod refers; port %u is not reserved "
            "for it any more",
            claim->name, claim->port);
}

/* Return whether pods have the number of a claim whose pod and keeper are gone: only a later target of the
 * same name may get it. */
static bool becomes_reservation(const struct reconciler *r, const dibs_claim *claim)
{
    return claim->keeper[0] && claim->is_exclusive && inventory_is_referred(r->options.inventory, claim);
}

/* End a claim that seems unneeded as soon as lists prove it, or make it a reservation. */
static void end_when_proven(struct reconciler *r, const dibs_claim *claim, struct known *k)
{
    if (k->unneeded_ms == 0)
        k->unneeded_ms = r->now_ms;
    r->counts.n_unneeded++;
    if (r->now_ms < k->over_ms) {
        r->due_ms = r->due_ms == 0 || k->over_ms < r->due_ms ? k->over_ms : r->due_ms;
        return;
    }
    int64_t since_ms = k->over_ms > k->unneeded_ms ? k->over_ms : k->unneeded_ms;
    if (!r->options.is_proven(r->options.ctx, is_observed(claim) ? NULL : claim->keeper, since_ms))
        return;
    known_list_add(becomes_reservation(r, claim) ? &r->vacate : &r->end, k);
    report_unresolved(r, claim);
}

/* Return whether the claim's pod arrived and is now finished or gone, so the lease has no pod to wait for.
 * True only for the first lease: a repeated admission renews it for a pod that is still to come. */
static bool has_arrived(const struct reconciler *r, const dibs_claim *claim)
{
    bool is_first = claim->generation == FIRST_GENERATION && claim->changed_ms == claim->created_ms;

    return is_first && inventory_had_pod(r->options.inventory, claim);
}

static bool check_claim(void *ctx, const dibs_claim *claim)
{
    struct reconciler *r = ctx;

    note_ports(r, claim);
    if (!is_clusters(claim))
        return true;
    bool is_new = false;
    struct known *k = known_note(&r->known, claim, r->counts.n_passes, r->now_ms, &is_new);
    if (!k) {
        r->status = err_set(&r->err, DIBS_FAILURE, "reading claims: out of memory");
        return false;
    }
    /* An earlier leader counted the claims of the first pass. */
    r->counts.n_allocated[claim->kind] += is_new && claim->is_exclusive && r->counts.n_passes > 1;
    r->counts.n_claims++;
    r->counts.n_pending += claim->holder == DIBS_HELD_BY_LEASE;
    bool is_wanted = is_needed(r, claim);
    if (is_wanted)
        k->unneeded_ms = 0;
    else
        end_when_proven(r, claim, k);
    if (claim->holder == DIBS_HELD_BY_LEASE &&
        (is_wanted ? inventory_has_pod(r->options.inventory, claim) : has_arrived(r, claim))) {
        known_list_add(&r->confirm, k);
        k->is_confirmed = true;
    }
    return true;
}

/* ---- changes ---- */

static void note_failure(struct reconciler *r, const dibs_err *err)
{
    r->counts.n_errors++;
    r->status = err->code;
    r->err = *err;
}

static void end_all(struct reconciler *r, const struct known_list *seen, enum ledger_end_how how,
                    uint64_t *counter)
{
    for (size_t i = 0; i < seen->n && r->options.may_change(r->options.ctx); i += STEP) {
        const struct call call = handle_call(r->options.handle);
        struct ledger_ending what = { seen->all + i, seen->n - i < STEP ? seen->n - i : STEP, how };
        dibs_err err = { 0 };
        size_t ended = 0;

        if (ledger_end(r->options.ledger, &call, &what, &ended, &err) != DIBS_OK) {
            note_failure(r, &err);
            return;
        }
        *counter += ended;
    }
}

/* Say when to look at a claim again that disagrees with its pod. Return true the first time: the watch may
 * deliver the pod before its claim. */
static bool is_first_look(const struct reconciler *r, struct assigned_claim *claim)
{
    bool is_first = claim->n_refused++ == 0;

    claim->again_ms = r->now_ms + (is_first ? LOOK_AGAIN_MS : AGAIN_MS);
    return is_first;
}

static void report_restored(struct reconciler *r, const struct missing_claim *missing,
                            const struct ledger_restored *restored)
{
    /* Not written: the ledger has it; our copy of the ledger was older than the pod. */
    if (!missing->claim || (!restored->is_written && restored->refused.code == DIBS_OK))
        return;
    if (restored->is_written) {
        report(r, RECONCILE_REPAIRED, missing->object, missing->port,
               "Port %u was not allocated; it has been claimed again", missing->port);
        return;
    }
    if (is_first_look(r, missing->claim))
        return;
    report(r, RECONCILE_DUPLICATE, missing->object, missing->port,
           "Port %u was assigned to several owners; please recreate the pod: %.150s", missing->port,
           restored->refused.msg);
}

static void restore_step(struct reconciler *r, const struct missing_claim *missing, size_t n)
{
    const struct call call = handle_call(r->options.handle);
    size_t restored = 0;
    dibs_err err = { 0 };

    for (size_t i = 0; i < n; i++)
        missing_claim_make(&missing[i], r->options.pool->name, &r->restore[i]);
    if (ledger_restore(r->options.ledger, &call, &(dibs_snapshot){ .claims = r->restore, .n = n }, &restored,
                       r->restored, &err) != DIBS_OK) {
        note_failure(r, &err);
        return;
    }
    r->counts.n_restored += restored;
    for (size_t i = 0; i < n; i++)
        report_restored(r, &missing[i], &r->restored[i]);
}

static int by_port(const void *a, const void *b)
{
    return (int) ((const struct missing_claim *) a)->port - (int) ((const struct missing_claim *) b)->port;
}

/* Restore by number: neighbouring ports share a block in etcd, which is then written once. */
static void restore_all(struct reconciler *r)
{
    if (r->n_missing > 0)
        qsort(r->missing, r->n_missing, sizeof *r->missing, by_port);
    for (size_t i = 0; i < r->n_missing && r->status == DIBS_OK && r->options.may_change(r->options.ctx);
         i += STEP)
        restore_step(r, r->missing + i, r->n_missing - i < STEP ? r->n_missing - i : STEP);
}

static void add_missing(struct reconciler *r, struct missing_claim missing)
{
    if (grow((void **) &r->missing, r->n_missing, &r->max_missing, sizeof *r->missing))
        r->missing[r->n_missing++] = missing;
    else
        r->status = err_set(&r->err, DIBS_FAILURE, "restoring claims: out of memory");
}

/* ---- objects of the cluster ---- */

static void restore_missing(struct reconciler *r, struct inventory_object *o, struct assigned_claim *claim)
{
    bool is_outside = !dibs_ranges_contain(&r->options.pool->ranges, claim->port);
    if (claim->again_ms == INT64_MAX ? is_outside : r->now_ms < claim->again_ms)
        return;
    if (is_outside) {
        claim->again_ms = INT64_MAX; /* not before the pool changes */
        report(r, RECONCILE_OUTSIDE, o, claim->port,
               "Port %u is not within the range of the pool '%.63s'; please recreate the pod", claim->port,
               r->options.pool->name);
        return;
    }
    add_missing(r, (struct missing_claim){ o, claim, claim->port, claim->protos });
}

/* Report a pod that bypassed the webhook, or the ports of one that has just come. */
static void report_pod(struct reconciler *r, struct inventory_object *o, bool is_confirmed)
{
    char ports[200] = "";

    if (o->has_missed && !o->is_reported)
        report(
            r, RECONCILE_MISSED, o, 0, "%s",
            o->is_mirror
                ? "It asks for ports, but is a static pod, which runs as its file says: no port is claimed "
                  "for it; please remove the annotation"
                : "It asks for ports, but was created without the webhook of dibs: no port is claimed for "
                  "it; please recreate it");
    o->is_reported = true;
    if (!is_confirmed)
        return;
    assigned_describe(o->claims, o->n_claims, ports, sizeof ports);
    report(r, RECONCILE_ASSIGNED, o, 0, "Ports of the pod: %s", ports);
}

/* Report a port that no signature proves. */
static void report_unsigned(struct reconciler *r, struct inventory_object *o, struct assigned_claim *claim)
{
    if (r->now_ms < claim->again_ms || known_of(&r->known, o->principal, claim->name, claim->port) ||
        is_first_look(r, claim))
        return;
    report(r, RECONCILE_UNSIGNED, o, claim->port,
           "Port %u is not the pod's: the ledger does not have it, and %s does not prove it; please recreate "
           "the pod",
           claim->port, IDENTITY_KEY_SIGNATURE);
}

/* Return whether the ledger has the number as a claim of the object. */
static bool is_claimed(const struct reconciler *r, const struct inventory_object *o, uint16_t port)
{
    for (size_t i = 0; i < o->n_claims; i++)
        if (o->claims[i].port == port && known_of(&r->known, o->principal, o->claims[i].name, port))
            return true;
    return false;
}

/* Report a pod that has the ports of another one: a copy that bypassed the webhook, or that looked to it like
 * the API server's second request. */
static void report_copy(struct reconciler *r, struct inventory_object *o)
{
    for (size_t i = 0; i < o->n_claims; i++) {
        struct assigned_claim *claim = &o->claims[i];
        const char *instance = name_part_at(claim->name, 2);

        if (instance && strncmp(instance, "-/", 2) == 0) /* the role shares it */
            continue;
        if (r->now_ms >= claim->again_ms && inventory_is_copied(r->options.inventory, o) &&
            !is_first_look(r, claim))
            report(
                r, RECONCILE_DUPLICATE, o, claim->port,
                "Port %u is also that of another pod, which has the same %s: one is a copy; please recreate "
                "that one without this annotation",
                claim->port, IDENTITY_KEY_CLAIM);
        return;
    }
}

static void check_claims(struct reconciler *r, struct inventory_object *o)
{
    bool is_confirmed = false;

    for (size_t i = 0; i < o->n_claims; i++) {
        struct assigned_claim *claim = &o->claims[i];
        const struct known *k = known_find(&r->known, o->principal, claim->name);

        is_confirmed = is_confirmed || (k && k->is_confirmed && k->port == claim->port);
        if (!k && o->is_signed) {
            restore_missing(r, o, claim);
        } else if (!k) {
            report_unsigned(r, o, claim);
        } else if (k->port != claim->port && r->now_ms >= claim->again_ms &&
                   !known_of(&r->known, o->principal, claim->name, claim->port) && !is_first_look(r, claim)) {
            report(r, RECONCILE_DUPLICATE, o, claim->port,
                   "Port %u is no longer the pod's, which now has %u; please recreate it", claim->port,
                   k->port);
        }
    }
    report_copy(r, o);
    report_pod(r, o, is_confirmed);
}

static void observe(struct reconciler *r, struct inventory_object *o, struct number *number, unsigned proto)
{
    struct missing_claim missing = { o, NULL, number->port, (uint8_t) (1u << proto) };
    char name[DIBS_NAME_MAX + 1] = "";

    missing_claim_number_name(&missing, name);
    if (portbits_has(&r->taken[proto], number->port) && !number->is_reported) {
        number->is_reported = true;
        report(r, RECONCILE_DUPLICATE, o, number->port,
               "Port %u (%s) was assigned to a pod by dibs; please use another one", number->port,
               dibs_proto_text((dibs_proto) proto));
    }
    if (!known_find(&r->known, IDENTITY_OBSERVED, name))
        add_missing(r, missing);
}

static void check_object(void *ctx, struct hash_table_item *item)
{
    struct reconciler *r = ctx;
    struct inventory_object *o = (struct inventory_object *) item;

    if (o->is_finished)
        return;
    check_claims(r, o);
    for (size_t i = 0; i < o->numbers.n; i++)
        for (unsigned proto = DIBS_TCP; proto < PROTOCOLS_END; proto++)
            if (o->numbers.all[i].protos & 1u << proto &&
                dibs_ranges_contain(&r->options.pool->ranges, o->numbers.all[i].port) &&
                !is_claimed(r, o, o->numbers.all[i].port))
                observe(r, o, &o->numbers.all[i], proto);
}

/* ---- passes ---- */

static void begin(struct reconciler *r, int64_t now_ms)
{
    r->now_ms = now_ms;
    r->counts.n_passes++;
    r->counts.n_claims = r->counts.n_pending = r->counts.n_unneeded = 0;
    r->counts.n_size = dibs_ranges_count(&r->options.pool->ranges);
    r->confirm.n = r->vacate.n = r->end.n = r->n_missing = 0;
    r->due_ms = 0;
    r->status = DIBS_OK;
    r->err = (dibs_err){ 0 };
    memset(r->taken, 0, sizeof r->taken);
    r->ports = (struct portbits){ 0 };
}

dibs_status reconcile_pass(struct reconciler *r, int64_t now_ms, dibs_err *err)
{
    const struct call call = handle_call(r->options.handle);
    uint64_t n_vacated = 0;

    begin(r, now_ms);
    dibs_status s =
        ledger_list(r->options.ledger, &call, &(struct ledger_filter){ .pool = r->options.pool->name },
                    check_claim, r, err);
    if (s == DIBS_OK && r->status != DIBS_OK) {
        *err = r->err;
        s = r->status;
    }
    if (s != DIBS_OK) {
        r->counts.n_errors++;
        return s;
    }
    known_forget(&r->known, r->counts.n_passes);
    r->counts.n_ports = portbits_count(&r->ports);
    end_all(r, &r->confirm, LEDGER_END_UNHOLD, &r->counts.n_confirmed);
    hash_table_each(&r->options.inventory->objects, check_object, r);
    restore_all(r);
    end_all(r, &r->vacate, LEDGER_END_VACATE, &n_vacated);
    end_all(r, &r->end, LEDGER_END_GONE, &r->counts.n_ended);
    if (r->status == DIBS_OK)
        inventory_forget(r->options.inventory);
    else
        *err = r->err;
    return r->status;
}

const struct reconcile_counts *reconcile_count(const struct reconciler *r)
{
    return &r->counts;
}

int64_t reconcile_due_ms(const struct reconciler *r)
{
    return r->due_ms;
}

dibs_status reconcile_open(const struct reconcile_options *options, struct reconciler **out, dibs_err *err)
{
    struct reconciler *r = calloc(1, sizeof *r);

    if (!r)
        return err_set(err, DIBS_FAILURE, "reconciling claims: out of memory");
    r->options = *options;
    *out = r;
    return DIBS_OK;
}

void reconcile_close(struct reconciler *r)
{
    if (!r)
        return;
    known_forget(&r->known, 0); /* passes count from 1 */
    hash_table_done(&r->known);
    free(r->confirm.all);
    free(r->vacate.all);
    free(r->end.all);
    free(r->missing);
    free(r);
}
