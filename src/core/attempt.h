/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_ATTEMPT_H
#define DIBS_CORE_ATTEMPT_H
/* The state of one claim call: claim.c prepares it and runs its rounds, propose.c lists the candidates of a
 * round, retry.c decides the next round after a refusal, dead_blockers.c finds dead holders. */
#include "core/request.h"

enum {
    ROUNDS_MAX = 2048,      /* transactions of one call; the deadline usually ends it sooner */
    SPARE_MAX = 64,         /* candidates of a batch beyond one for each claim */
    EXACT_MAX = 16,         /* candidates for a single claim once the index is loaded */
    FOREIGN_LAST_MS = 5000, /* how long a port that the probe found busy is skipped */
    ASIDE_BYTES = (DIBS_PROTO_MAX + 1) * sizeof(struct portbits)
};

enum stage { STAGE_BLIND, STAGE_INDEX, STAGE_RELOADED, STAGE_DEAD };

struct attempt {
    struct core *core;
    struct call call; /* its time advances with every round */
    const dibs_batch *batch;
    struct ask *asks;
    struct ledger_want *wants;
    const struct candidate_source *sources[SOURCES_MAX];
    struct candidate_source *aligned; /* of a single aligned port; NULL: not aligned */
    size_t n_sources;
    uint16_t *candidates; /* the candidates of all wants */
    bool has_run;         /* some wants need adjacent ports */
    int round;            /* from 0 */
    enum stage stage;
    bool is_fresh;            /* the index was loaded during this call */
    int n_stale;              /* rounds of a batch that were lost to other processes */
    int n_searches;           /* searches for claims of dead holders */
    bool has_old_busy;        /* an earlier call found ports busy, perhaps for other bindings */
    struct portbits *aside;   /* by protocol: ports set aside for one want; NULL: the batch has one want */
    struct ledger_seen *dead; /* claims of dead holders, ascending by id: the ledger may end them */
    size_t n_dead, max_dead;
    uint16_t *dead_ports; /* candidate ports of those claims; NULL until the search for them */
    size_t n_dead_ports;
    struct ledger_drop *drops;

    bool has_ending;                /* `ending` is not empty */
    struct portbits *freed;         /* ports of claims whose names this batch frees; NULL: it drops none */
    struct portbits *ending;        /* ports of claims that this batch ends; NULL: it drops none */
    struct portbits *proposed_dead; /* dead_ports of all rounds so far; NULL: none */
    struct portbits *tried;   /* ports that this call found refused or busy, not proposed again; NULL: none */
    struct portbits *skipped; /* ports that this round skips; NULL: not computed yet */
    struct ledger_refusal refusal; /* of the last round */
};

/* Return whether the set, which may be NULL, has the port. */
static inline bool attempt_has(const struct portbits *set, uint16_t port)
{
    return set && portbits_has(set, port);
}

/* List the candidates of every want, by the stage of the attempt. */
dibs_status attempt_propose(struct attempt *a, dibs_err *err);
/* Prepare the next round after TAKEN or EXHAUSTED; *again when there is something new to try. */
dibs_status attempt_react(struct attempt *a, dibs_status status, bool *again, dibs_err *err);
/* Give up a preferred port that the caller may not bind (DENIED), so that dibs chooses; or any port whose
 * dead claim the store cannot end (D4). False: not the case. */
bool attempt_gives_up(struct attempt *a, dibs_status status, const dibs_err *err);
bool attempt_is_late(const struct attempt *a);
/* Remember the claim of a dead holder. True when this generation was not known to be dead. */
bool attempt_add_dead(struct attempt *a, const dibs_claim *claim);
bool attempt_is_dead(const struct attempt *a, uint64_t id);
/* Judge all claims on the refused port. *again: all holders are dead; else refusal.blocker is a live one. */
dibs_status attempt_judge_blockers(struct attempt *a, bool *again, dibs_err *err);
/* Fill dead_ports with ports of dead holders; *is_any when there is something new to try. */
dibs_status attempt_find_dead(struct attempt *a, bool *is_any, dibs_err *err);
/* Look up all names in one transaction, before any probe. */
dibs_status attempt_look_up_names(struct attempt *a, dibs_err *err);
/* Forget foreign ports after FOREIGN_LAST_MS. */
void attempt_begin_foreign(struct attempt *a);
/* Remember the busy ports of the last round, also after a success, so that the next claim skips them. */
void attempt_note_foreign(struct attempt *a);
#endif
