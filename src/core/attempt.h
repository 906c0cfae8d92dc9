/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_ATTEMPT_H
#define DIBS_CORE_ATTEMPT_H
/* One call of claim under way: claim.c prepares it and runs its rounds, propose.c plans the candidates of a
 * round, learn.c makes of a refusal what the next round tries, graves.c knows who is dead. */
#include <string.h>

#include "core/request.h"

enum {
    ROUNDS_MAX = 2048,      /* transactions of one call; the deadline is usually sooner */
    PLANS_MAX = 16,         /* different pools (and protocols) in one batch */
    SPARE_MAX = 64,         /* candidates beyond one for each claim */
    EXACT_MAX = 16,         /* candidates for a single claim once the index is loaded */
    REST_MIN = 4,           /* the same, of those that an earlier claim has left */
    AHEAD_WORTH = 16,       /* claims to come that are worth waking who probes ahead */
    AHEAD_MIN = 8,          /* so many should be probed before a claim comes to them; */
    AHEAD_STEP = 12,        /* ... if there are fewer, so many more */
    FOREIGN_LAST_MS = 5000, /* how long a port that the probe found busy is passed over */
    PLANNED_BYTES = (DIBS_SCTP + 1) * sizeof(struct portbits)
};

enum stage { STAGE_BLIND, STAGE_INDEX, STAGE_CAUGHT_UP, STAGE_RELOADED, STAGE_DEAD, STAGE_END };

struct attempt_desk;

struct attempt {
    struct core *core;
    struct attempt_desk *desk; /* where it works; NULL: what it has is allocated */
    const dibs_batch *batch;
    struct ask *asks;
    struct ledger_want *wants;
    struct plan_pool *plans;
    size_t n_plans;
    uint16_t *candidates; /* of all wants */
    bool has_run;         /* some wants are to get adjacent ports */
    enum stage stage;
    bool is_fresh;            /* the index was loaded for this call */
    int n_stale;              /* rounds of a batch that others were faster in */
    int n_searches;           /* for the claims of dead holders */
    bool has_hearsay;         /* an earlier call found ports busy, perhaps for other bindings */
    struct portbits *planned; /* by protocol: meant for one want of this round; NULL: there is but one */
    bool has_freed, has_ending, has_tried, has_proposed_dead; /* the sets below are in use */
    struct ledger_seen *dead;                                 /* ascending by id: may be taken over */
    size_t n_dead, max_dead;
    uint16_t *dead_ports; /* where they are, as far as candidates are wanted; NULL until then */
    size_t n_dead_ports;
    struct ledger_drop *drops;
    struct core_group group; /* of the names looked up so far */
    int64_t deadline_ms;

    /* What is large comes last and is not cleared with the rest: a claim must not pay for what it does not
     * use.
     */
    struct ledger_refusal refusal; /* of the last round */
    struct portbits freed;         /* of claims whose names this batch frees */
    struct portbits ending;        /* of claims that this batch ends */
    struct portbits tried;         /* refused by the ledger or busy in this call: not proposed again */
    struct portbits proposed_dead; /* were in dead_ports in some round */
};

/* What a single claim, the usual case, works with: kept from one to the next, together with the plan, as long
 * as that would be the same. */
struct attempt_desk {
    bool is_taken;
    bool is_planned;
    /* What the plan follows from beside its pool and kind. */
    int64_t host_ms;
    bool allow_ephemeral, is_root, is_elsewhere;
    struct plan_pool plan;
    struct ask ask;
    struct ledger_want want;
    uint16_t candidates[SPARE_MAX + 2];
    /* What was planned last, while claims come together: for the next of them. */
    uint16_t rest[SPARE_MAX];
    size_t first_rest, n_rest;
    size_t told_rest; /* up to here who probes ahead knows them */
    struct attempt attempt;
};

/* The next claim plans for itself, whatever an earlier one has left. */
static inline void attempt_forget_rest(struct core *core)
{
    if (core->desk)
        core->desk->n_rest = 0;
}

/* In a set that is in use? */
static inline bool attempt_has(bool is_used, const struct portbits *set, uint16_t port)
{
    return is_used && portbits_has(set, port);
}
static inline void attempt_note(bool *is_used, struct portbits *set, uint16_t port)
{
    if (!*is_used)
        memset(set, 0, sizeof *set);
    *is_used = true;
    portbits_add(set, port);
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
/* Everybody in the way of the port that was refused: *again when all are dead, some newly so; else
 * refusal.blockers[0] is one who lives. */
dibs_status attempt_judge_blockers(struct attempt *a, bool *again, dibs_err *err);
/* Fills dead_ports with ports of dead holders; *is_any when there is something new to try. */
dibs_status attempt_find_graves(struct attempt *a, bool *is_any, dibs_err *err);
/* Every name's own story before anything is probed, all in one look. */
dibs_status attempt_look_up_names(struct attempt *a, dibs_err *err);
/* Ports that the probe found busy are tried again after a while. */
void attempt_begin_foreign(struct attempt *a, int64_t now_ms);
/* Those of the last round, also when another candidate was had: otherwise every claim would meet them anew.
 */
void attempt_note_foreign(struct attempt *a);
#endif
