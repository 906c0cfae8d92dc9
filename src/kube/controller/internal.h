/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_INTERNAL_H
#define DIBS_KUBE_CONTROLLER_INTERNAL_H
/* Internals of the controller. */
#include "base/bytes.h"
#include "base/loop.h"
#include "kube/client/election.h"
#include "kube/client/informer.h"
#include "kube/controller/controller.h"
#include "kube/controller/event_queue.h"
#include "kube/controller/lease_holder.h"
#include "kube/controller/reconcile.h"
#include "server/endpoint.h"
#include "server/runtime.h"

enum { SOURCE_PODS, SOURCE_SERVICES, SOURCE_NAMESPACES, SOURCES = 16 };

struct controller;

/* One watched resource. */
struct source {
    struct controller *controller;
    unsigned number;
    const char *kind;
    struct informer *informer; /* NULL while another controller leads */
    bool is_incomplete;        /* an object could not be stored */
    bool is_wanted;            /* a fresh list is wanted as proof */
};

struct controller {
    const struct controller_options *options;
    struct runtime runtime;
    struct installation installation;
    struct kube_ledger ledger;
    struct kubeapi *api;
    struct election *election;
    struct inventory inventory;
    struct reconciler *reconciler; /* NULL while another controller leads */
    struct source sources[SOURCES];
    struct event_queue events;
    struct endpoint *endpoint;
    loop_source web;
    char identity[LEASE_HOLDER_NAME_MAX + 1];
    bool leads;                            /* as last logged */
    bool is_rebuilt;                       /* since we lead, the ledger has all claims of pods */
    bool is_failing;                       /* the last pass over the ledger failed */
    bool is_troubled;                      /* a failure to read or write the Lease was logged */
    int64_t round_ms;                      /* when the next lists may be requested */
    int64_t asked_ms;                      /* when the last lists were requested; 0: they are complete */
    int64_t pass_ms;                       /* deadline of the next pass */
    int64_t rest_ms;                       /* earliest start of the next pass */
    int64_t begun_ms;                      /* start of the last pass */
    bool is_cut;                           /* the last pass ran out of time */
    uint64_t seen_changes;                 /* inventory.n_changes at the last pass */
    char cluster[INSTALLATION_ID_MAX + 1]; /* the uid of the namespace kube-system; "": not known */
    dibs_err wrong;                        /* why the controller must not work on this ledger */
};

static inline int64_t within(int64_t ms, int64_t least_ms, int64_t most_ms)
{
    return ms < least_ms ? least_ms : ms > most_ms ? most_ms : ms;
}

/* sources.c: begin to list and watch; end it. */
dibs_status sources_open(struct controller *c, dibs_err *err);
void sources_close(struct controller *c);
/* Do what is due. */
void sources_turn(struct controller *c, int64_t now_ms);
/* Return whether every resource that can be listed has been, pods in any case. */
bool sources_are_listed(const struct controller *c);
/* As `is_proven` of struct reconcile_options; `ctx` is the controller. */
bool sources_are_proven(void *ctx, const char *keeper, int64_t since_ms);
/* Request the lists that prove claims unneeded, at a rate that does not load the API server. */
void sources_list_again(struct controller *c, int64_t now_ms);
/* cluster_facts.c: note the uid of the namespace kube-system. */
void controller_note_namespace(struct controller *c, const jsonr_value *object);
/* Check that the ledger serves this cluster, and record it. TAKEN: it serves another one, and the controller
 * stops. */
dibs_status controller_check_cluster(struct controller *c, dibs_err *err);
/* Write the quotas of namespaces into the ledger, unless they are unknown. */
dibs_status controller_write_quotas(struct controller *c, dibs_err *err);
/* claims_page.c: answer GET /claims; `ctx` is the controller. */
void controller_serve_claims(void *ctx, struct http_request *r);
/* Write the metrics; `ctx` is the controller. */
void controller_metrics(void *ctx, struct bytes *out);
#endif
