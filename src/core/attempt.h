/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_ATTEMPT_H
#define DIBS_CORE_ATTEMPT_H
/* One call of claim under way: claim.c prepares it and runs its rounds, propose.c plans the candidates of a
 * round, retry.c decides after a refusal what the next round tries, dead_blockers.c finds dead holders. */
#include "core/request.h"

enum {
    ROUNDS_MAX = 2048,      /* transactions of one call; the deadline is usually sooner */
    SPARE_MAX = 64,         /* candidates beyond one for each claim */
    EXACT_MAX = 16,         /* candidates for a single claim once the index is loaded */
    FOREIGN_LAST_MS = 5000, /* how long a port that the probe found busy is passed over */
    PLANNED_BYTES = (DIBS_PROTO_MAX + 1) * sizeof(struct portbits)
};

enum stage { STAGE_BLIND, STAGE_INDEX, STAGE_RELOADED, STAGE_DEAD };

struct attempt {
    struct core *core;
    struct call call; /* of which the time goes on with every round */
    const dibs_batch *batch;
    struct ask *asks;
    struct ledger_want *wants;
    const struct plan_pool *plans[PLANS_MAX];
    struct plan_pool *aligned; /* the plan of a run of one with an alignment; NULL: there is none */
    size_t n_plans;
    uint16_t *candidates; /* of all wants */
    bool has_run;         /* some wants are to get adjacent ports */
    int round;            /* from 0 */
    enum stage stage;
    bool is_fresh;            /* the index was loaded for this call */
    int n_stale;              /* rounds of a batch that others were faster in */
    int n_searches;           /* for the claims of dead holders */
    bool has_old_busy;        /* an earlier call found ports busy, perhaps for other bindings */
    struct portbits *planned; /* by protocol: meant for one want of this round; NULL: there is but one */
    struct ledger_seen *dead; /* ascending by id: may be taken over */
    size_t n_dead, max_dead;
    uint16_t *dead_ports; /* where they are, as far as candidates are wanted; NULL until then */
    size_t n_dead_ports;
    struct ledger_drop *drops;

    bool has_ending;                /* something is in `ending` */
    struct portbits *freed;         /* of claims whose names this batch frees; NULL: it drops none */
    struct portbits *ending;        /* of claims that this batch ends; NULL: likewise */
    struct portbits *proposed_dead; /* were in dead_ports in some round; NULL: no round had them */
    struct portbits *tried;  /* refused by the ledger or busy in this call: not proposed again; NULL: none */
    struct portbits *beside; /* what the plan of this round passes over; NULL: not made yet */
    struct ledger_refusal refusal; /* of the last round */
};

/* In a set that may be NULL? */
static inline bool attempt_has(const struct portbits *set, uint16_t port)
{
    return set && portbits_has(set, port);
}

/* Candidates for every want, by the stage that the attempt has reached. */
dibs_status attempt_plan(struct attempt *a, dibs_err *err);
/* After TAKEN or EXHAUSTED: *again when another round makes sense. */
dibs_status attempt_react(struct attempt *a, dibs_status status, bool *again, dibs_err *err);
/* A preferred port that may not be bound (a privileged one) cannot be had, like one that is taken. A batch
 * without requests is denied what it drops. */
bool attempt_gives_up(struct attempt *a, dibs_status status);
bool attempt_is_late(const struct attempt *a);
/* True when this generation was not known to be dead yet. */
bool attempt_add_dead(struct attempt *a, const dibs_claim *claim);
bool attempt_is_dead(const struct attempt *a, uint64_t id);
/* Judge all claims in the way of the refused port: *again when all holders are dead, some newly so; else
 * refusal.blocker has a holder that lives. */
dibs_status attempt_judge_blockers(struct attempt *a, bool *again, dibs_err *err);
/* Fills dead_ports with ports of dead holders; *is_any when there is something new to try. */
dibs_status attempt_find_dead(struct attempt *a, bool *is_any, dibs_err *err);
/* Look up all names before anything is probed, in one transaction. */
dibs_status attempt_look_up_names(struct attempt *a, dibs_err *err);
/* Ports that the probe found busy are tried again after a while. */
void attempt_begin_foreign(struct attempt *a);
/* Note the busy ports of the last round, also after a success: else every claim would probe them again. */
void attempt_note_foreign(struct attempt *a);
#endif
