/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_CONTROLLER_PARTS_H
#define DIBS_OPERATOR_CONTROLLER_PARTS_H
/* The controller from inside. */
#include "base/bytes.h"
#include "base/loop.h"
#include "kubeapi/election.h"
#include "kubeapi/follow.h"
#include "operator/complaints.h"
#include "operator/controller.h"
#include "operator/leader.h"
#include "operator/plain.h"
#include "operator/tend.h"

enum { SOURCES = 14 };

struct controller;

/* One resource that is followed. */
struct source {
    struct controller *controller;
    unsigned number;
    const char *kind;
    struct follow *follow; /* NULL while another one leads */
    bool is_incomplete;    /* something was told that could not be kept */
};

struct controller {
    const struct controller_options *options;
    struct loop *loop;
    dibs *handle;
    dibs_pool pool;
    struct kubeapi *api;
    struct election *election;
    struct census *census; /* these three while we lead */
    struct tend *tend;
    struct source sources[SOURCES];
    struct complaints *complaints;
    struct plain *plain;
    loop_source signals, web, notices;
    char identity[LEADER_NAME_MAX + 1];
    bool is_stopping;
    bool leads;      /* as far as it was told */
    bool is_rebuilt; /* since it leads, the ledger has all that pods have */
    bool is_ledger_well;
    bool is_troubled; /* the Lease cannot be had; that was told */
    bool are_lists_wanted[SOURCES];
    int64_t round_ms;      /* when the next lists may be asked for */
    int64_t asked_ms;      /* when the last ones were; 0: they are complete */
    int64_t pass_ms;       /* when the next pass is due by itself */
    int64_t rest_ms;       /* when the next pass may be at the earliest */
    int64_t begun_ms;      /* the last pass */
    bool is_cut;           /* ... had to stop before it was done */
    uint64_t seen_changes; /* of the census, at the last pass */
    uint64_t n_leads;
    bool is_ledger_changed;
    char trouble[256]; /* of the ledger; "": none */
};

void controller_metrics(struct controller *c, struct bytes *out);
#endif
