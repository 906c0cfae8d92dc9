/* SPDX-License-Identifier: MIT */
/* The resources that the controller watches, and the lists that prove claims unneeded. */
#include <string.h>

#include "base/clock.h"
#include "kube/controller/internal.h"
#include "server/log.h"

#include "base/banned.h"

enum {
    ROUND_LEAST_MS = 500, /* between two rounds of lists: ten times the last round, within these bounds */
    ROUND_MOST_MS = 30000,
    ROUND_TIMES = 10,
};

static const struct {
    const char *kind, *group, *version, *plural;
} resources[SOURCES] = {
    [SOURCE_PODS] = { "Pod", "", "v1", "pods" },
    [SOURCE_SERVICES] = { "Service", "", "v1", "services" },
    [SOURCE_NAMESPACES] = { "Namespace", "", "v1", "namespaces" },
    { "ReplicationController", "", "v1", "replicationcontrollers" },
    { "StatefulSet", "apps", "v1", "statefulsets" },
    { "Deployment", "apps", "v1", "deployments" },
    { "ReplicaSet", "apps", "v1", "replicasets" },
    { "DaemonSet", "apps", "v1", "daemonsets" },
    { "Job", "batch", "v1", "jobs" },
    /* Other projects' resources use the version that the API server prefers. */
    { "JobSet", "jobset.x-k8s.io", NULL, "jobsets" },
    { "LeaderWorkerSet", "leaderworkerset.x-k8s.io", NULL, "leaderworkersets" },
    { "RoleBasedGroup", "workloads.x-k8s.io", NULL, "rolebasedgroups" },
    { "RoleInstanceSet", "workloads.x-k8s.io", NULL, "roleinstancesets" },
    { "RoleInstance", "workloads.x-k8s.io", NULL, "roleinstances" },
    { "InstanceSet", "workloads.x-k8s.io", NULL, "instancesets" },
    { "Instance", "workloads.x-k8s.io", NULL, "instances" },
};

static void on_news(void *ctx, enum informer_news what, const jsonr_value *object)
{
    struct source *s = ctx;
    struct inventory *inventory = &s->controller->inventory;

    switch (what) {
    case INFORMER_LISTING:
        s->is_incomplete = false;
        inventory_begin(inventory, s->number);
        break;
    case INFORMER_CHANGED:
        if (s->number == SOURCE_NAMESPACES)
            controller_note_namespace(s->controller, object);
        if (!inventory_put(inventory, s->number, s->kind, object))
            s->is_incomplete = true;
        break;
    case INFORMER_GONE: inventory_drop(inventory, object); break;
    case INFORMER_LISTED:
        if (s->is_incomplete) {
            LOG(LOG_ERROR, "out of memory: objects are missing, so no claim ends", "kind", s->kind);
            break;
        }
        inventory_end(inventory, s->number);
        s->controller->pass_ms = 0; /* the new list may prove that claims are unneeded */
        break;
    }
}

static void on_trouble(void *ctx, const dibs_err *why)
{
    struct source *s = ctx;

    if (why)
        LOG(LOG_WARNING, "cannot watch objects; the claims that they keep stay", "kind", s->kind, "why",
            why->msg);
    else
        LOG(LOG_INFO, "watching objects again", "kind", s->kind);
}

/* Return whether a complete list began at `since_ms` or later; otherwise note that one is wanted. */
static bool is_listed(struct source *s, int64_t since_ms)
{
    const struct informer_status *status = informer_status(s->informer);

    if (s->is_incomplete || (status->state != INFORMER_KNOWN && status->state != INFORMER_ABSENT))
        return false;
    s->is_wanted = s->is_wanted || status->listed_ms < since_ms;
    return status->listed_ms >= since_ms;
}

/* Return whether the keeper is of that kind. */
static bool is_of_kind(const char *keeper, const char *kind)
{
    size_t n = strlen(kind);

    return strncmp(keeper, kind, n) == 0 && (keeper[n] == '/' || !keeper[n]);
}

bool sources_are_proven(void *ctx, const char *keeper, int64_t since_ms)
{
    struct controller *c = ctx;
    bool is_proven = true;

    for (unsigned i = 0; i < SOURCES; i++) {
        bool keeps = keeper ? !*keeper || is_of_kind(keeper, c->sources[i].kind) : i == SOURCE_SERVICES;

        if (keeps || i == SOURCE_PODS)
            is_proven = is_listed(&c->sources[i], since_ms) && is_proven;
    }
    return is_proven;
}

void sources_close(struct controller *c)
{
    for (size_t i = 0; i < SOURCES; i++) {
        informer_close(c->sources[i].informer);
        c->sources[i] = (struct source){ 0 };
    }
}

dibs_status sources_open(struct controller *c, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (unsigned i = 0; i < SOURCES && s == DIBS_OK; i++) {
        c->sources[i] = (struct source){ .controller = c, .number = i, .kind = resources[i].kind };
        s = informer_open(c->api,
                          &(struct informer_options){ .group = resources[i].group,
                                                      .version = resources[i].version,
                                                      .plural = resources[i].plural,
                                                      .news = on_news,
                                                      .trouble = on_trouble,
                                                      .ctx = &c->sources[i] },
                          &c->sources[i].informer, err);
    }
    return s;
}

bool sources_are_listed(const struct controller *c)
{
    /* A resource that cannot be listed, because its API server is broken, keeps only its own claims alive. */
    for (size_t i = 0; i < SOURCES; i++) {
        const struct informer_status *status = informer_status(c->sources[i].informer);

        if (status->state == INFORMER_BEGINNING && !status->is_in_trouble)
            return false;
    }
    return informer_status(c->sources[SOURCE_PODS].informer)->state == INFORMER_KNOWN;
}

void sources_list_again(struct controller *c, int64_t now_ms)
{
    if (c->asked_ms != 0 || now_ms < c->round_ms)
        return;
    for (size_t i = 0; i < SOURCES; i++) {
        if (!c->sources[i].is_wanted)
            continue;
        c->sources[i].is_wanted = false;
        informer_list_again(c->sources[i].informer);
        c->asked_ms = now_ms;
    }
}

static void wait_for_lists(struct controller *c, int64_t now_ms)
{
    if (c->asked_ms == 0)
        return;
    for (size_t i = 0; i < SOURCES; i++)
        if (informer_is_listing(c->sources[i].informer))
            return;
    c->round_ms = now_ms + within((now_ms - c->asked_ms) * ROUND_TIMES, ROUND_LEAST_MS, ROUND_MOST_MS);
    c->asked_ms = 0;
}

void sources_turn(struct controller *c, int64_t now_ms)
{
    for (size_t i = 0; i < SOURCES; i++)
        informer_turn(c->sources[i].informer, now_ms);
    wait_for_lists(c, clock_monotonic_ms());
}
