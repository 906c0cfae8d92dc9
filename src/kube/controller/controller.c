/* SPDX-License-Identifier: MIT */
#include "kube/controller/controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/controller/internal.h"
#include "server/log.h"

#include "base/banned.h"

#define LEASE_NAME "dibs-controller"
#define LISTEN_DEFAULT "127.0.0.1:9464"

enum {
    LEDGER_MS = 4000,    /* deadline of a ledger call; the Lease must outlast it */
    PASS_MS = 5000,      /* longest interval between two passes */
    PASS_MOST_MS = 2000, /* longest pass; then the Lease is renewed and the next pass continues */
    REST_LEAST_MS = 20,  /* rest between two passes: four times the last pass, within these bounds */
    REST_MOST_MS = 1000,
    REST_TIMES = 4,
    RESIGN_MS = 2000,
    BODY_MAX_BYTES = 1024,
    CONNECTIONS_MAX = 64,
};

/* Return whether the Lease outlasts the longest ledger call. */
static bool has_time(const struct controller *c)
{
    return election_margin_ms(c->election, clock_monotonic_ms()) > LEDGER_MS;
}

static bool may_change(void *ctx)
{
    struct controller *c = ctx;

    if (has_time(c) && clock_monotonic_ms() - c->begun_ms < PASS_MOST_MS)
        return true;
    c->is_cut = true;
    return false;
}

static void report(void *ctx, enum reconcile_finding what, const struct inventory_object *object,
                   uint16_t port, const char *text)
{
    static const char *const reasons[RECONCILE_REPORTS] = {
        [RECONCILE_DUPLICATE] = "PortAlreadyAllocated", [RECONCILE_REPAIRED] = "PortNotAllocated",
        [RECONCILE_OUTSIDE] = "PortOutOfRange",         [RECONCILE_UNRESOLVED] = "PortReferenceUnresolved",
        [RECONCILE_UNSIGNED] = "PortNotSigned",         [RECONCILE_MISSED] = "PortsMissed",
        [RECONCILE_ASSIGNED] = "PortsAssigned"
    };
    struct controller *c = ctx;
    struct object_event one = { .is_normal = what == RECONCILE_ASSIGNED };

    (void) text_copy(one.kind, sizeof one.kind, object->is_pod ? "Pod" : "Service");
    (void) text_copy(one.ns, sizeof one.ns, object->principal + strlen("ns:"));
    (void) text_copy(one.name, sizeof one.name, object->name);
    (void) text_copy(one.uid, sizeof one.uid, object->uid);
    (void) text_copy(one.reason, sizeof one.reason, reasons[what]);
    (void) text_copy(one.message, sizeof one.message, text);
    event_queue_add(&c->events, &one, port, clock_monotonic_ms());
}

/* ---- leading ---- */

static void stop_leading(struct controller *c)
{
    sources_close(c);
    reconcile_close(TAKE(c->reconciler));
    inventory_done(&c->inventory);
    c->leads = c->is_rebuilt = c->is_failing = false;
    c->asked_ms = c->round_ms = c->pass_ms = c->rest_ms = 0;
}

static void begin_leading(struct controller *c)
{
    const struct reconcile_options options = { .handle = &c->ledger.acting,
                                               .ledger = c->ledger.server.ledger,
                                               .pool = &c->ledger.pool,
                                               .inventory = &c->inventory,
                                               .is_proven = sources_are_proven,
                                               .may_change = may_change,
                                               .report = report,
                                               .ctx = c };
    dibs_err err = { 0 };
    dibs_status s = reconcile_open(&options, &c->reconciler, &err);

    c->inventory.installation = &c->installation;

    if (s == DIBS_OK)
        s = sources_open(c, &err);
    if (s != DIBS_OK) {
        LOG(LOG_ERROR, "cannot lead", "why", err.msg);
        stop_leading(c);
        return;
    }
    c->leads = true;
    LOG(LOG_INFO, "leading", "identity", c->identity);
}

static void log_election(struct controller *c)
{
    const char *why = election_trouble(c->election);
    bool is_troubled = why[0] != '\0';

    if (is_troubled && !c->is_troubled)
        LOG(LOG_WARNING, "the Lease cannot be read or written", "why", why);
    if (!is_troubled && c->is_troubled)
        LOG(LOG_INFO, "the Lease can be read and written again");
    c->is_troubled = is_troubled;
}

static void follow_election(struct controller *c, int64_t now_ms)
{
    bool leads = election_margin_ms(c->election, now_ms) > 0;

    log_election(c);
    if (leads && !c->leads)
        begin_leading(c);
    if (!leads && c->leads) {
        LOG(LOG_WARNING, "not leading any more", "lease_holder", election_holder(c->election), "why",
            election_loss(c->election));
        stop_leading(c);
    }
}

/* ---- passes ---- */

static void note_pass(struct controller *c, dibs_status s, const dibs_err *err)
{
    bool was_failing = c->is_failing;

    c->is_failing = s != DIBS_OK;
    if (c->is_failing && !was_failing)
        LOG(LOG_ERROR, "cannot reconcile the ledger with the cluster", "why", err->msg);
    if (!c->is_failing && was_failing)
        LOG(LOG_INFO, "reconciling the ledger again");
    if (s == DIBS_OK && !c->is_rebuilt && !c->is_cut) {
        char pods[24] = "";
        char restored[24] = "";

        c->is_rebuilt = true;
        (void) snprintf(pods, sizeof pods, "%zu", c->inventory.n_pods);
        (void) snprintf(restored, sizeof restored, "%llu",
                        (unsigned long long) reconcile_count(c->reconciler)->n_restored);
        LOG(LOG_INFO, "ready", "pods", pods, "restored", restored);
    }
}

static bool is_pass_due(const struct controller *c, int64_t now_ms)
{
    bool is_news = c->ledger.is_changed || c->inventory.n_changes != c->seen_changes ||
                   now_ms >= c->pass_ms || !c->is_rebuilt;

    return is_news && now_ms >= c->rest_ms && sources_are_listed(c);
}

static void pass(struct controller *c, int64_t now_ms)
{
    dibs_err err = { 0 };

    if (!is_pass_due(c, now_ms) || !has_time(c))
        return;
    c->begun_ms = now_ms;
    c->is_cut = c->ledger.is_changed = false;
    c->seen_changes = c->inventory.n_changes;
    for (size_t i = 0; i < SOURCES; i++)
        c->sources[i].is_wanted = false;
    dibs_status s = controller_check_cluster(c, &err);
    if (s == DIBS_OK)
        s = kube_ledger_renew_pool(&c->ledger, &err);
    if (s == DIBS_OK)
        s = controller_write_quotas(c, &err);
    if (s == DIBS_OK)
        s = reconcile_pass(c->reconciler, now_ms, &err);
    if (s == DIBS_OK && !c->is_cut)
        s = kube_mark_rebuilt(&c->ledger.acting, c->ledger.pool.name, &err);
    int64_t end_ms = clock_monotonic_ms();
    c->rest_ms = end_ms + within((end_ms - now_ms) * REST_TIMES, REST_LEAST_MS, REST_MOST_MS);
    c->pass_ms = end_ms + (c->is_cut ? 0 : PASS_MS);
    if (reconcile_due_ms(c->reconciler) > 0 && reconcile_due_ms(c->reconciler) < c->pass_ms)
        c->pass_ms = reconcile_due_ms(c->reconciler);
    note_pass(c, s, &err);
}

static void lead(struct controller *c)
{
    sources_turn(c, clock_monotonic_ms());
    pass(c, clock_monotonic_ms());
    sources_list_again(c, clock_monotonic_ms());
    event_queue_turn(&c->events, c->api, clock_monotonic_ms());
}

/* ---- health ---- */

static dibs_status check_ready(void *ctx, dibs_err *err)
{
    const struct controller *c = ctx;

    if (c->leads && !c->is_rebuilt)
        return err_set(err, DIBS_UNAVAILABLE, "the ledger is being rebuilt from the pods' annotations");
    if (c->leads && c->is_failing)
        return err_set(err, DIBS_UNAVAILABLE, "the ledger cannot be used");
    if (!c->leads && !election_holder(c->election)[0])
        return err_set(err, DIBS_UNAVAILABLE, "no controller leads yet");
    return DIBS_OK;
}

/* ---- the loop ---- */

static void on_web(loop_source *source, uint32_t events)
{
    struct controller *c = (struct controller *) ((char *) source - offsetof(struct controller, web));

    (void) events;
    kubeapi_turn(c->api);
}

static int64_t next_ms(void *ctx)
{
    const struct controller *c = ctx;
    int64_t now_ms = clock_monotonic_ms();
    int64_t wait_ms =
        runtime_sooner(election_next_ms(c->election, now_ms), http_next_ms(endpoint_http(c->endpoint)));

    if (!c->leads)
        return wait_ms;
    bool is_news = c->ledger.is_changed || c->inventory.n_changes != c->seen_changes;

    wait_ms = runtime_sooner(wait_ms, election_margin_ms(c->election, now_ms));
    wait_ms = runtime_sooner(wait_ms, clock_until_ms(is_news ? c->rest_ms : c->pass_ms) + 1);
    wait_ms = runtime_sooner(wait_ms, event_queue_next_ms(&c->events, now_ms));
    if (c->round_ms > now_ms)
        wait_ms = runtime_sooner(wait_ms, c->round_ms - now_ms);
    for (size_t i = 0; i < SOURCES; i++)
        wait_ms = runtime_sooner(wait_ms, informer_next_ms(c->sources[i].informer, now_ms));
    return wait_ms;
}

static void turn(void *ctx)
{
    struct controller *c = ctx;

    if (c->runtime.is_stopping)
        return; /* do not campaign again */
    election_turn(c->election, clock_monotonic_ms());
    follow_election(c, clock_monotonic_ms());
    if (c->leads)
        lead(c);
    http_run(endpoint_http(c->endpoint));
}

/* Release the Lease, so that another controller need not wait until it expires. */
static bool drain(void *ctx)
{
    struct controller *c = ctx;

    stop_leading(c);
    return election_resign(c->election);
}

/* ---- start ---- */

static const char *listen_address(const struct controller *c)
{
    return c->options->listen ? c->options->listen : LISTEN_DEFAULT;
}

static dibs_status open_ledger(struct controller *c, const dibs_pool *pool, dibs_err *err)
{
    const struct kube_ledger_options options = { .settings = c->options->settings,
                                                 .call_max_ms = LEDGER_MS,
                                                 .kind = "controller",
                                                 .listen = listen_address(c),
                                                 .principal = IDENTITY_OBSERVED,
                                                 .loop = c->runtime.loop,
                                                 .installation = &c->installation,
                                                 .pool = *pool,
                                                 .flags = &c->options->pool };

    return kube_ledger_open(&c->ledger, &options, err);
}

static dibs_status open_api(struct controller *c, dibs_err *err)
{
    struct kubeapi_config config = { 0 };
    dibs_status s = kubeapi_config_load(c->options->kubeconfig, &config, err);

    if (s == DIBS_OK)
        s = kubeapi_open(&config, &c->api, err);
    if (s != DIBS_OK)
        return s;
    c->web = (loop_source){ kubeapi_fd(c->api), on_web };
    return loop_add(c->runtime.loop, &c->web, EPOLLIN, err);
}

static bool is_dead(void *ctx, const char *identity)
{
    const struct controller *c = ctx;

    return lease_holder_is_dead(&c->ledger.server.core->view, identity);
}

static dibs_status open_election(struct controller *c, dibs_err *err)
{
    const char *ns = c->options->ns ? c->options->ns : kubeapi_namespace(c->api);

    lease_holder_name(&c->ledger.server.core->view, c->identity);
    return election_open(c->api, ns, LEASE_NAME, &(struct election_self){ c->identity, is_dead, c },
                         &c->election, err);
}

static dibs_status start(struct controller *c, dibs_err *err)
{
    static const struct page pages[] = { { { "GET", "/claims", NULL, 0 }, controller_serve_claims } };
    const struct endpoint_options endpoint = { .limits = { .max_connections = CONNECTIONS_MAX,
                                                           .max_per_user = CONNECTIONS_MAX,
                                                           .max_body_bytes = BODY_MAX_BYTES },
                                               .pages = pages,
                                               .n_pages = sizeof pages / sizeof *pages,
                                               .hint = "there are /healthz, /readyz, /metrics and /claims",
                                               .check_ready = check_ready,
                                               .write_metrics = controller_metrics,
                                               .ctx = c };
    dibs_pool pool = { 0 };
    dibs_status s = kube_pool_parse(&c->options->pool, &pool, err);

    if (s == DIBS_OK)
        s = installation_read(c->options->installation, &c->installation, err);
    if (s == DIBS_OK)
        s = runtime_open(&c->runtime, err);
    if (s == DIBS_OK)
        s = open_api(c, err);
    if (s == DIBS_OK)
        s = open_ledger(c, &pool, err);
    if (s == DIBS_OK)
        s = open_election(c, err);
    if (s == DIBS_OK)
        s = endpoint_open(c->runtime.loop, &endpoint, &c->endpoint, err);
    if (s == DIBS_OK)
        s = endpoint_listen(c->endpoint, listen_address(c), false, err);
    return s;
}

static void end(struct controller *c)
{
    stop_leading(c);
    endpoint_close(c->endpoint);
    election_close(c->election);
    kubeapi_close(c->api);
    kube_ledger_close(&c->ledger);
    runtime_close(&c->runtime);
}

dibs_status controller_run(const struct controller_options *options, dibs_err *err)
{
    struct controller *c = calloc(1, sizeof *c);
    const struct runtime_hooks hooks = {
        .ctx = c, .turn = turn, .next_ms = next_ms, .drain = drain, .drain_ms = RESIGN_MS
    };

    if (!c)
        return err_set(err, DIBS_FAILURE, "starting the controller: out of memory");
    c->options = options;
    dibs_status s = start(c, err);
    if (s == DIBS_OK) {
        LOG(LOG_INFO, "following", "version", dibs_version(), "server", kubeapi_server(c->api), "ledger",
            options->settings->ledger, "pool", c->ledger.pool.name, "identity", c->identity);
        s = runtime_run(&c->runtime, &hooks, err);
    }
    if (s == DIBS_OK && c->wrong.code != DIBS_OK) {
        *err = c->wrong;
        s = err->code;
    }
    installation_done(&c->installation);
    end(c);
    free(c);
    return s;
}
