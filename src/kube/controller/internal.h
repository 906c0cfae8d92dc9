/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_INTERNAL_H
#define DIBS_KUBE_CONTROLLER_INTERNAL_H
/* The controller from inside. */
#include "base/bytes.h"
#include "base/loop.h"
#include "kube/client/election.h"
#include "kube/client/informer.h"
#include "kube/controller/controller.h"
#include "kube/controller/event_queue.h"
#include "kube/controller/leader.h"
#include "kube/controller/reconcile.h"
#include "server/endpoint.h"
#include "server/runtime.h"

enum { SOURCES = 14 };

struct controller;

/* One resource that is followed. */
struct source {
    struct controller *controller;
    unsigned number;
    const char *kind;
    struct informer *informer; /* NULL while another one leads */
    bool is_incomplete;        /* an object could not be stored */
    bool is_wanted;            /* a list that begins from now on */
};

struct controller {
    const struct controller_options *options;
    struct runtime runtime;
    struct kube_ledger ledger;
    struct kubeapi *api;
    struct election *election;
    struct inventory inventory;
    struct reconciler *reconciler; /* NULL while another one leads */
    struct source sources[SOURCES];
    struct event_queue events;
    struct endpoint *endpoint;
    loop_source web;
    char identity[LEADER_NAME_MAX + 1];
    bool leads;      /* as last logged */
    bool is_rebuilt; /* since it leads, the ledger has all that pods have */
    bool is_ledger_well;
    bool is_troubled;      /* the Lease cannot be read or written; that was logged */
    int64_t round_ms;      /* when the next lists may be asked for */
    int64_t asked_ms;      /* when the last ones were; 0: they are complete */
    int64_t pass_ms;       /* when the next pass is due by itself */
    int64_t rest_ms;       /* when the next pass may be at the earliest */
    int64_t begun_ms;      /* the last pass */
    bool is_cut;           /* ... had to stop before it was done */
    uint64_t seen_changes; /* of the inventory, at the last pass */
    uint64_t n_leads;
};

/* Of an endpoint; `ctx` is the controller. */
void controller_metrics(void *ctx, struct bytes *out);
#endif
