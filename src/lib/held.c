/* SPDX-License-Identifier: MIT */
#include "lib/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "hold/enforced_mark.h"
#include "hold/holds.h"
#include "lib/verb.h"

#include "base/banned.h"

typedef char hold_note[DIBS_HOLD_NOTE_MAX + 1];

/* A batch whose requests have their level. */
struct held_batch {
    dibs_batch batch;
    const dibs_request *asked; /* as the caller gave them */
    dibs_request *requests;
    hold_note *notes;
};

bool held_is_asked(const dibs_batch *batch)
{
    bool is_asked = false;

    for (size_t i = 0; i < batch->n; i++)
        is_asked = is_asked || batch->requests[i].hold == DIBS_HOLD_GUARD ||
                   batch->requests[i].hold == DIBS_HOLD_ENFORCE;
    return is_asked;
}

static bool is_plain(const dibs_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        if (batch->requests[i].hold != DIBS_HOLD_AUTO || batch->requests[i].is_reuser)
            return false;
    return true;
}

static bool is_guarded(void *ctx, uint16_t port)
{
    return holds_port(ctx, port);
}

void handle_guard(dibs *handle, struct holds *holds)
{
    handle->to->holds = holds;
    handle->to->core->options.is_guarded = is_guarded;
    handle->to->core->options.guards = holds;
}

/* Return the guards of this process; the first call makes them. */
static dibs_status find_holds(dibs *handle, struct holds **out, dibs_err *err)
{
    const struct connection *to = handle->to;
    struct holds *made = NULL;

    if (!to->holds && to->is_server)
        return err_set(err, DIBS_FAILURE, "this process holds no ports for others");
    dibs_status s = to->holds ? DIBS_OK : holds_open(&(struct holds_options){ .is_brief = true }, &made, err);
    if (s == DIBS_OK && made)
        handle_guard(handle, made);
    *out = to->holds;
    return s;
}

static dibs_status choose(struct held_batch *held, const struct holds *holds, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < held->batch.n && s == DIBS_OK; i++) {
        held->requests[i] = held->asked[i];
        s = holds_choose(holds, &held->asked[i], &held->requests[i].hold, held->notes[i], err);
    }
    return s;
}

/* End the claims that the call has made. */
static void undo(dibs *handle, const dibs_claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (claims[i].was_there || !claims[i].token[0])
            continue;
        (void) core_release(CORE(handle), &(dibs_which){ .token = claims[i].token },
                            DIBS_RELEASE_FORCE | DIBS_RELEASE_UNKEEP, NULL, NULL);
        holds_end(handle->to->holds, claims[i].id);
    }
}

/* Arm the guards. *failed is the request whose guard could not be bound. A claim that exists already keeps
 * its level all the same when its port is in use, by its program as a rule: its guard follows. */
static dibs_status arm(struct held_batch *held, struct holds *holds, const dibs_claim *claims, size_t *failed,
                       dibs_err *err)
{
    for (size_t i = 0; i < held->batch.n; i++) {
        dibs_status s = claims[i].hold == DIBS_HOLD_GUARD ? holds_arm(holds, &claims[i], err) : DIBS_OK;

        if (s == DIBS_TAKEN && claims[i].was_there) {
            holds_follow(holds, &claims[i]);
        } else if (s != DIBS_OK) {
            *failed = i;
            return s;
        }
    }
    return DIBS_OK;
}

/* Claim, then arm. When an automatic guard cannot be bound, claim again without it: at most once per request.
 */
static dibs_status claim_and_arm(dibs *handle, struct held_batch *held, struct holds *holds, dibs_claim *out,
                                 dibs_err *err)
{
    for (size_t tries = 0; tries <= held->batch.n; tries++) {
        size_t failed = 0;
        dibs_status s = core_claim(CORE(handle), &held->batch, out, err);

        if (s != DIBS_OK || held->batch.is_dry_run)
            return s;
        s = arm(held, holds, out, &failed, err);
        if (s == DIBS_OK)
            break;
        undo(handle, out, held->batch.n);
        if (held->asked[failed].hold != DIBS_HOLD_AUTO)
            return err_wrap(err, s, "the level 'guard' cannot be had");
        held->requests[failed].hold = DIBS_HOLD_NONE;
        (void) text_copy(held->notes[failed], sizeof held->notes[failed], err->msg);
    }
    for (size_t i = 0; i < held->batch.n; i++)
        (void) text_copy(out[i].hold_note, sizeof out[i].hold_note, held->notes[i]);
    return DIBS_OK;
}

/* A claim that was there keeps the level `enforce` in the ledger, also while no daemon enforces it. */
static void note_unenforced(const dibs *handle, dibs_claim *claims, size_t n)
{
    const struct holds *holds = handle->to->holds;

    for (size_t i = 0; i < n; i++)
        if (claims[i].was_there && claims[i].hold == DIBS_HOLD_ENFORCE && !(holds && holds_enforces(holds)) &&
            !enforced_mark_is_taken(handle->to->settings.ledger))
            claims[i].hold = DIBS_HOLD_NONE;
}

static dibs_status claim_held(dibs *handle, struct held_batch *held, dibs_claim *out, dibs_err *err)
{
    struct holds *holds = NULL;
    AUTO(free_auto) dibs_request *requests = calloc(held->batch.n, sizeof *requests);
    AUTO(free_auto) hold_note *notes = calloc(held->batch.n, sizeof *notes);

    if (!requests || !notes)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    held->batch.requests = held->requests = requests;
    held->notes = notes;
    dibs_status s = find_holds(handle, &holds, err);
    if (s == DIBS_OK)
        s = choose(held, holds, err);
    return s == DIBS_OK ? claim_and_arm(handle, held, holds, out, err) : s;
}

dibs_status held_claim(dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    struct held_batch held = { .batch = *batch, .asked = batch->requests };

    /* A daemon that enforces does so for every claim, asked or not. */
    bool is_plainly = is_plain(batch) && !(handle->to->holds && holds_enforces(handle->to->holds));
    dibs_status s =
        is_plainly ? core_claim(CORE(handle), batch, out, err) : claim_held(handle, &held, out, err);
    if (s == DIBS_OK)
        note_unenforced(handle, out, batch->n);
    return s;
}

struct settling {
    const dibs *handle;
    struct holds *holds;
};

static void settle_one(void *ctx, uint64_t claim_id)
{
    const struct settling *settling = ctx;
    const struct call call = handle_call(settling->handle);
    dibs_claim claim;
    dibs_status s = ledger_find_id(handle_ledger(settling->handle), &call, claim_id, &claim, NULL);

    if (s == DIBS_OK)
        holds_follow(settling->holds, &claim);
    else if (s == DIBS_NOT_FOUND)
        holds_end(settling->holds, claim_id);
}

void held_settle(const dibs *handle)
{
    struct settling settling = { handle, handle->to->holds };

    if (settling.holds && !handle->to->is_server)
        holds_each(settling.holds, settle_one, &settling);
}
