/* SPDX-License-Identifier: MIT */
#include "operator/controller.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/log.h"
#include "lib/handle.h"
#include "operator/controller_parts.h"

#include "base/banned.h"

#define LEASE_NAME "dibs-controller"
#define LISTEN_DEFAULT "127.0.0.1:9464"

enum {
    LEDGER_MS = 4000,    /* of a call of the ledger: well within the Lease, which must outlast it */
    PASS_MS = 5000,      /* how often all is looked at, whatever happens */
    PASS_MOST_MS = 2000, /* then the Lease is cared for, and the rest is the next pass' */
    REST_LEAST_MS = 20,  /* between two passes; and four times what the last one took, up to: */
    REST_MOST_MS = 1000,
    REST_TIMES = 4,
    ROUND_LEAST_MS = 500, /* between lists that prove something; ten times what the last ones took, up to: */
    ROUND_MOST_MS = 30000,
    ROUND_TIMES = 10,
    RESIGN_MS = 2000,
    TURN_MAX_MS = 60000,
};

enum { SOURCE_PODS, SOURCE_SERVICES };

static const struct {
    const char *kind, *group, *version, *plural;
} resources[SOURCES] = {
    [SOURCE_PODS] = { "Pod", "", "v1", "pods" },
    [SOURCE_SERVICES] = { "Service", "", "v1", "services" },
    { "ReplicationController", "", "v1", "replicationcontrollers" },
    { "StatefulSet", "apps", "v1", "statefulsets" },
    { "Deployment", "apps", "v1", "deployments" },
    { "ReplicaSet", "apps", "v1", "replicasets" },
    { "DaemonSet", "apps", "v1", "daemonsets" },
    { "Job", "batch", "v1", "jobs" },
    /* What comes with others' software has whichever version the server prefers. */
    { "LeaderWorkerSet", "leaderworkerset.x-k8s.io", NULL, "leaderworkersets" },
    { "RoleBasedGroup", "workloads.x-k8s.io", NULL, "rolebasedgroups" },
    { "RoleInstanceSet", "workloads.x-k8s.io", NULL, "roleinstancesets" },
    { "RoleInstance", "workloads.x-k8s.io", NULL, "roleinstances" },
    { "InstanceSet", "workloads.x-k8s.io", NULL, "instancesets" },
    { "Instance", "workloads.x-k8s.io", NULL, "instances" },
};

/* ---- what is followed ---- */

static void on_listing(void *ctx)
{
    struct source *s = ctx;

    s->is_incomplete = false;
    census_begin(s->controller->census, s->number);
}

static void on_changed(void *ctx, const json_value *object)
{
    struct source *s = ctx;

    if (!census_put(s->controller->census, s->number, s->kind, object))
        s->is_incomplete = true;
}

static void on_deleted(void *ctx, const json_value *object)
{
    struct source *s = ctx;

    census_drop(s->controller->census, s->number, object);
}

static void on_listed(void *ctx)
{
    struct source *s = ctx;

    if (s->is_incomplete) {
        LOG(LOG_ERROR, "out of memory: objects are missing, so nothing ends", "kind", s->kind);
        return;
    }
    census_end(s->controller->census, s->number);
    s->controller->pass_ms = 0; /* something may be proven now */
}

static void on_trouble(void *ctx, const dibs_err *why)
{
    struct source *s = ctx;

    if (why)
        LOG(LOG_WARNING, "objects cannot be followed; what they keep stays", "kind", s->kind, "why",
            why->msg);
    else
        LOG(LOG_INFO, "objects are followed again", "kind", s->kind);
}

static struct source *source_of(struct controller *c, const char *keeper)
{
    size_t n = strcspn(keeper, "/");

    for (size_t i = 0; i < SOURCES; i++)
        if (strlen(resources[i].kind) == n && memcmp(resources[i].kind, keeper, n) == 0)
            return &c->sources[i];
    return NULL; /* a kind that nobody here knows: then its pods decide */
}

/* Did a complete list begin then or later? If not, one is wanted. */
static bool is_listed(struct controller *c, const struct source *s, int64_t since_ms)
{
    enum follow_state state = follow_state(s->follow);

    if (s->is_incomplete || (state != FOLLOW_KNOWN && state != FOLLOW_ABSENT))
        return false;
    if (follow_listed_ms(s->follow) >= since_ms)
        return true;
    c->are_lists_wanted[s->number] = true;
    return false;
}

/* Whatever there is. */
static bool is_all_proven(struct controller *c, int64_t since_ms)
{
    bool is_proven = true;

    for (size_t i = 0; i < SOURCES; i++)
        is_proven = is_listed(c, &c->sources[i], since_ms) && is_proven;
    return is_proven;
}

static bool is_proven(void *ctx, const char *keeper, int64_t since_ms)
{
    struct controller *c = ctx;

    if (keeper && !*keeper)
        return is_all_proven(c, since_ms);
    const struct source *by = keeper ? source_of(c, keeper) : &c->sources[SOURCE_SERVICES];
    bool has_pods = is_listed(c, &c->sources[SOURCE_PODS], since_ms);

    return (!by || is_listed(c, by, since_ms)) && has_pods;
}

/* The Lease outlasts the longest call of the ledger. */
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

static void complain(void *ctx, enum tend_complaint what, const struct census_object *object, uint16_t port,
                     const char *text)
{
    static const char *const reasons[TEND_COMPLAINTS] = { [TEND_DUPLICATE] = "PortAlreadyAllocated",
                                                          [TEND_REPAIRED] = "PortNotAllocated",
                                                          [TEND_OUTSIDE] = "PortOutOfRange" };
    struct controller *c = ctx;
    struct complaint one = { 0 };

    (void) text_copy(one.kind, sizeof one.kind, object->kind == CENSUS_POD ? "Pod" : "Service");
    (void) text_copy(one.ns, sizeof one.ns, object->principal + strlen("ns:"));
    (void) text_copy(one.name, sizeof one.name, object->name);
    (void) text_copy(one.uid, sizeof one.uid, object->uid);
    (void) text_copy(one.reason, sizeof one.reason, reasons[what]);
    (void) text_copy(one.message, sizeof one.message, text);
    complaints_add(c->complaints, &one, port, clock_monotonic_ms());
}

/* ---- leading ---- */

static void stop_leading(struct controller *c)
{
    for (size_t i = 0; i < SOURCES; i++) {
        follow_close(c->sources[i].follow);
        c->sources[i] = (struct source){ 0 };
        c->are_lists_wanted[i] = false;
    }
    tend_close(TAKE(c->tend));
    census_close(TAKE(c->census));
    c->leads = c->is_rebuilt = false;
    c->asked_ms = c->round_ms = c->pass_ms = c->rest_ms = 0;
}

static dibs_status follow_all(struct controller *c, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (unsigned i = 0; i < SOURCES && s == DIBS_OK; i++) {
        c->sources[i] = (struct source){ .controller = c, .number = i, .kind = resources[i].kind };
        s = follow_open(c->api,
                        &(struct follow_options){ .group = resources[i].group,
                                                  .version = resources[i].version,
                                                  .plural = resources[i].plural,
                                                  .listing = on_listing,
                                                  .changed = on_changed,
                                                  .deleted = on_deleted,
                                                  .listed = on_listed,
                                                  .trouble = on_trouble,
                                                  .ctx = &c->sources[i] },
                        &c->sources[i].follow, err);
    }
    return s;
}

static void begin_leading(struct controller *c)
{
    dibs_err err = { 0 };
    dibs_status s = census_open(&c->census, &err);

    if (s == DIBS_OK)
        s = tend_open(&(struct tend_options){ .handle = c->handle,
                                              .pool = &c->pool,
                                              .census = c->census,
                                              .is_proven = is_proven,
                                              .may_change = may_change,
                                              .complain = complain,
                                              .ctx = c },
                      &c->tend, &err);
    if (s == DIBS_OK)
        s = follow_all(c, &err);
    if (s != DIBS_OK) {
        LOG(LOG_ERROR, "cannot lead", "why", err.msg);
        stop_leading(c);
        return;
    }
    c->leads = true;
    c->n_leads++;
    LOG(LOG_INFO, "leading", "identity", c->identity);
}

static void tell_election(struct controller *c)
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

    tell_election(c);
    if (leads && !c->leads)
        begin_leading(c);
    if (!leads && c->leads) {
        LOG(LOG_WARNING, "not leading any more", "leader", election_holder(c->election), "why",
            election_trouble(c->election));
        stop_leading(c);
    }
}

/* ---- passes ---- */

static bool is_all_listed(const struct controller *c)
{
    /* A resource that cannot be listed, because its server is broken, keeps its own claims alive, and no
     * more. */
    for (size_t i = 0; i < SOURCES; i++)
        if (follow_state(c->sources[i].follow) == FOLLOW_BEGINNING &&
            !follow_is_in_trouble(c->sources[i].follow))
            return false;
    return follow_state(c->sources[SOURCE_PODS].follow) == FOLLOW_KNOWN;
}

static void note_pass(struct controller *c, dibs_status s, const dibs_err *err)
{
    bool was_well = c->is_ledger_well;

    c->is_ledger_well = s == DIBS_OK;
    (void) text_copy(c->trouble, sizeof c->trouble, s == DIBS_OK ? "" : err->msg);
    if (s != DIBS_OK && (was_well || c->n_leads == 0))
        LOG(LOG_ERROR, "the ledger does not follow the cluster now", "why", err->msg);
    if (s == DIBS_OK && !was_well && c->is_rebuilt)
        LOG(LOG_INFO, "the ledger follows the cluster again");
    if (s == DIBS_OK && !c->is_rebuilt && !c->is_cut) {
        char pods[24] = "";
        char restored[24] = "";

        c->is_rebuilt = true;
        (void) snprintf(pods, sizeof pods, "%zu", census_pods(c->census));
        (void) snprintf(restored, sizeof restored, "%llu",
                        (unsigned long long) tend_count(c->tend)->n_restored);
        LOG(LOG_INFO, "ready", "pods", pods, "restored", restored);
    }
}

static int64_t within(int64_t ms, int64_t least_ms, int64_t most_ms)
{
    return ms < least_ms ? least_ms : ms > most_ms ? most_ms : ms;
}

static bool is_pass_due(const struct controller *c, int64_t now_ms)
{
    bool is_news = c->is_ledger_changed || census_changes(c->census) != c->seen_changes ||
                   now_ms >= c->pass_ms || !c->is_rebuilt;

    return is_news && now_ms >= c->rest_ms && is_all_listed(c);
}

static void pass(struct controller *c, int64_t now_ms)
{
    dibs_err err = { 0 };

    if (!is_pass_due(c, now_ms) || !has_time(c))
        return;
    c->begun_ms = now_ms;
    c->is_cut = c->is_ledger_changed = false;
    c->seen_changes = census_changes(c->census);
    memset(c->are_lists_wanted, 0, sizeof c->are_lists_wanted);
    /* As it is now: `dibs pool set` may have changed it, and a ledger that was lost has none. */
    dibs_status s = operator_pool_open(c->handle, &c->pool, &c->pool, NULL, &err);
    if (s == DIBS_OK)
        s = tend_pass(c->tend, now_ms, &err);
    if (s == DIBS_OK && !c->is_cut)
        s = operator_mark_rebuilt(c->handle, c->pool.name, &err);
    int64_t end_ms = clock_monotonic_ms();
    c->rest_ms = end_ms + within((end_ms - now_ms) * REST_TIMES, REST_LEAST_MS, REST_MOST_MS);
    c->pass_ms = end_ms + (c->is_cut ? 0 : PASS_MS);
    if (tend_due_ms(c->tend) > 0 && tend_due_ms(c->tend) < c->pass_ms)
        c->pass_ms = tend_due_ms(c->tend);
    note_pass(c, s, &err);
}

/* Lists that prove that nobody needs something; never so many that the server has nothing else to do. */
static void ask_for_lists(struct controller *c, int64_t now_ms)
{
    if (c->asked_ms != 0 || now_ms < c->round_ms)
        return;
    for (size_t i = 0; i < SOURCES; i++) {
        if (!c->are_lists_wanted[i])
            continue;
        c->are_lists_wanted[i] = false;
        follow_list_again(c->sources[i].follow);
        c->asked_ms = now_ms;
    }
}

static void wait_for_lists(struct controller *c, int64_t now_ms)
{
    if (c->asked_ms == 0)
        return;
    for (size_t i = 0; i < SOURCES; i++)
        if (follow_is_listing(c->sources[i].follow))
            return;
    c->round_ms = now_ms + within((now_ms - c->asked_ms) * ROUND_TIMES, ROUND_LEAST_MS, ROUND_MOST_MS);
    c->asked_ms = 0;
}

static void lead(struct controller *c)
{
    for (size_t i = 0; i < SOURCES; i++)
        follow_turn(c->sources[i].follow, clock_monotonic_ms());
    wait_for_lists(c, clock_monotonic_ms());
    pass(c, clock_monotonic_ms());
    ask_for_lists(c, clock_monotonic_ms());
    complaints_turn(c->complaints, c->api, clock_monotonic_ms());
}

/* ---- health ---- */

static const char *is_healthy(void *ctx)
{
    (void) ctx;
    return NULL; /* who answers lives */
}

static const char *is_ready(void *ctx)
{
    const struct controller *c = ctx;

    if (c->leads && !c->is_rebuilt)
        return "the ledger is being rebuilt from what pods have\n";
    if (c->leads && !c->is_ledger_well)
        return "the ledger cannot be used\n";
    if (!c->leads && !election_holder(c->election)[0])
        return "nobody leads yet\n";
    return NULL;
}

static void write_metrics(void *ctx, struct bytes *out)
{
    controller_metrics(ctx, out);
}

/* ---- the loop ---- */

static void on_signal(loop_source *source, uint32_t events)
{
    struct controller *c = (struct controller *) ((char *) source - offsetof(struct controller, signals));
    struct signalfd_siginfo info;

    (void) events;
    while (read(source->fd, &info, sizeof info) == (ssize_t) sizeof info)
        c->is_stopping = c->is_stopping || info.ssi_signo != SIGHUP;
}

static void on_web(loop_source *source, uint32_t events)
{
    struct controller *c = (struct controller *) ((char *) source - offsetof(struct controller, web));

    (void) events;
    kubeapi_turn(c->api);
}

static void on_notice(loop_source *source, uint32_t events)
{
    struct controller *c = (struct controller *) ((char *) source - offsetof(struct controller, notices));

    (void) events;
    (void) ledger_heed(c->handle->core->ledger);
    c->is_ledger_changed = true;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int64_t until(int64_t at_ms, int64_t now_ms)
{
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

static int64_t next_ms(const struct controller *c)
{
    int64_t now_ms = clock_monotonic_ms();
    int64_t wait_ms = sooner(election_next_ms(c->election, now_ms), plain_next_ms(c->plain));

    if (c->leads) {
        bool is_news = c->is_ledger_changed || census_changes(c->census) != c->seen_changes;

        wait_ms = sooner(wait_ms, election_margin_ms(c->election, now_ms));
        wait_ms = sooner(wait_ms, until(is_news ? c->rest_ms : c->pass_ms, now_ms) + 1);
        wait_ms = sooner(wait_ms, complaints_next_ms(c->complaints, now_ms));
        if (c->round_ms > now_ms)
            wait_ms = sooner(wait_ms, c->round_ms - now_ms);
        for (size_t i = 0; i < SOURCES; i++)
            wait_ms = sooner(wait_ms, follow_next_ms(c->sources[i].follow, now_ms));
    }
    return sooner(wait_ms, TURN_MAX_MS);
}

static dibs_status turn(struct controller *c, int64_t wait_ms, dibs_err *err)
{
    dibs_status s = loop_turn(c->loop, wait_ms, err);

    election_turn(c->election, clock_monotonic_ms());
    follow_election(c, clock_monotonic_ms());
    if (c->leads)
        lead(c);
    plain_run(c->plain);
    return s;
}

/* ---- start ---- */

static dibs_status open_ledger(struct controller *c, dibs_err *err)
{
    AUTO(free_auto) dibs_settings *settings = malloc(sizeof *settings);
    bool differs = false;

    if (!settings)
        return err_set(err, DIBS_FAILURE, "starting: out of memory");
    *settings = *c->options->settings;
    settings->ledger_mode = DIBS_LEDGER_STRICT;
    if (settings->timeout_ms > LEDGER_MS)
        settings->timeout_ms = LEDGER_MS;
    (void) text_copy(settings->socket, sizeof settings->socket, "none");
    dibs_status s = dibs_open(settings, &c->handle, err);
    if (s == DIBS_OK)
        s = handle_speak_for(c->handle, TEND_PRINCIPAL, "", err);
    if (s == DIBS_OK)
        s = operator_pool_open(c->handle, &c->pool, &c->pool, &differs, err);
    if (s == DIBS_OK)
        s = ledger_care_beside(c->handle->core->ledger, err);
    if (s == DIBS_OK && differs)
        LOG(LOG_WARNING, "the pool is there with other ports or another order, and stays as it is", "pool",
            c->pool.name);
    c->notices = (loop_source){ s == DIBS_OK ? ledger_notices(c->handle->core->ledger) : -1, on_notice };
    return s == DIBS_OK && c->notices.fd >= 0 ? loop_add(c->loop, &c->notices, EPOLLIN, err) : s;
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
    return loop_add(c->loop, &c->web, EPOLLIN, err);
}

static bool is_dead(void *ctx, const char *identity)
{
    const struct controller *c = ctx;

    return leader_is_dead(&c->handle->core->view, identity);
}

static dibs_status open_election(struct controller *c, dibs_err *err)
{
    const char *ns = c->options->ns ? c->options->ns : kubeapi_namespace(c->api);

    leader_name(&c->handle->core->view, c->identity);
    return election_open(c->api, ns, LEASE_NAME, &(struct election_self){ c->identity, is_dead, c },
                         &c->election, err);
}

static dibs_status start(struct controller *c, dibs_err *err)
{
    const char *listen = c->options->listen ? c->options->listen : LISTEN_DEFAULT;
    dibs_status s = operator_pool_parse(&c->options->pool, &c->pool, err);

    if (s == DIBS_OK)
        s = loop_open(&c->loop, err);
    if (s == DIBS_OK)
        s = loop_add_signals(c->loop, &c->signals, on_signal, err);
    if (s == DIBS_OK)
        s = open_api(c, err);
    if (s == DIBS_OK)
        s = open_ledger(c, err);
    if (s == DIBS_OK)
        s = open_election(c, err);
    c->complaints = s == DIBS_OK ? complaints_new() : NULL;
    if (s == DIBS_OK && !c->complaints)
        s = err_set(err, DIBS_FAILURE, "starting: out of memory");
    if (s == DIBS_OK)
        s = plain_open(c->loop, listen,
                       &(struct plain_options){
                           .healthy = is_healthy, .ready = is_ready, .metrics = write_metrics, .ctx = c },
                       &c->plain, err);
    return s;
}

static dibs_status run(struct controller *c, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    LOG(LOG_INFO, "following", "version", dibs_version(), "server", kubeapi_server(c->api), "ledger",
        c->options->settings->ledger, "pool", c->pool.name, "identity", c->identity);
    while (!c->is_stopping && s == DIBS_OK)
        s = turn(c, next_ms(c), err);
    LOG(LOG_INFO, "stopping");
    stop_leading(c);
    int64_t until_ms = clock_monotonic_ms() + RESIGN_MS;
    while (s == DIBS_OK && election_resign(c->election) && clock_monotonic_ms() < until_ms)
        s = loop_turn(c->loop, until(until_ms, clock_monotonic_ms()), err);
    return s;
}

static void end(struct controller *c)
{
    stop_leading(c);
    plain_close(c->plain);
    complaints_free(c->complaints);
    election_close(c->election);
    kubeapi_close(c->api);
    dibs_close(c->handle);
    if (c->signals.fd >= 0)
        (void) close(c->signals.fd);
    loop_close(c->loop);
}

dibs_status controller_run(const struct controller_options *options, dibs_err *err)
{
    struct controller *c = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, DIBS_FAILURE, "starting the controller: out of memory");
    c->options = options;
    c->signals.fd = c->notices.fd = -1;
    dibs_status s = start(c, err);
    if (s == DIBS_OK)
        s = run(c, err);
    end(c);
    free(c);
    return s;
}
