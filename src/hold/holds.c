/* SPDX-License-Identifier: MIT */
#include "hold/holds.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

enum {
    RETRY_MS = 500,  /* a program that was in the way has ended, or the budget has space again */
    RETRY_MAX = 256, /* guards tried at once: a few milliseconds */
};

/* A claim with the level `guard`. */
struct held {
    struct hash_table_item item; /* first; key: the claim's id */
    struct guard_place place;
    struct guard guard; /* n 0: it waits */
    bool is_confirmed;
};

struct holds {
    struct holds_options options;
    struct hash_table claims;
    size_t n_fds, n_waiting, n_doubtful;
    size_t n_tried; /* of the waiting ones, since the first of them was tried */
    int64_t retry_ms;
    bool enforces;
    holds_keep_fn *keep; /* NULL: no manager */
    void *keep_ctx;
};

dibs_status holds_open(const struct holds_options *options, struct holds **out, dibs_err *err)
{
    struct holds *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "guarding ports: out of memory");
    self->options = *options;
    *out = self;
    return DIBS_OK;
}

static struct held *find(const struct holds *holds, uint64_t claim_id)
{
    return (struct held *) hash_table_first(&holds->claims, claim_id);
}

static void drop(struct holds *holds, struct held *held)
{
    holds->n_fds -= held->guard.n;
    holds->n_waiting -= held->guard.n == 0;
    holds->n_doubtful -= !held->is_confirmed;
    guard_close(&held->guard);
    hash_table_remove(&holds->claims, &held->item);
    free(held);
}

static void drop_item(void *ctx, struct hash_table_item *item)
{
    drop(ctx, (struct held *) item);
}

/* Drop a guard whose claim has ended, or is held in another way. */
static void end(struct holds *holds, struct held *held)
{
    uint64_t claim_id = held->item.hash;
    bool is_kept = holds->keep && held->guard.n > 0;

    drop(holds, held);
    if (is_kept)
        holds->keep(holds->keep_ctx, claim_id, NULL, 0);
}

void holds_close(struct holds *holds)
{
    if (!holds)
        return;
    hash_table_each(&holds->claims, drop_item, holds);
    hash_table_done(&holds->claims);
    free(holds);
}

void holds_enforce(struct holds *holds)
{
    holds->enforces = true;
}

bool holds_enforces(const struct holds *holds)
{
    return holds->enforces;
}

struct holds_counts holds_count(const struct holds *holds)
{
    return (struct holds_counts){ .bound = holds->claims.n - holds->n_waiting, .waiting = holds->n_waiting };
}

static dibs_status check_budget(const struct holds *holds, size_t n, dibs_err *err)
{
    size_t budget = holds->options.budget;

    if (budget == 0 || holds->n_fds + n <= budget)
        return DIBS_OK;
    return err_set(err, DIBS_FAILURE, "all %zu file descriptors for guards are in use", budget);
}

/* Can a guard be had, as far as is known before there is a claim? */
static dibs_status check(const struct holds *holds, const dibs_request *request, dibs_err *err)
{
    dibs_status s = request->mode == DIBS_DECLARED
                        ? err_set(err, DIBS_FAILURE, "a declared port is not exclusive")
                        : guard_check(request->bindings, request->n_bindings, err);

    return s == DIBS_OK ? check_budget(holds, request->n_bindings ? request->n_bindings : 1, err) : s;
}

static dibs_status refuse(dibs_hold hold, const char *why, dibs_err *err)
{
    dibs_status s = err_set(err, DIBS_FAILURE, "the level '%s' cannot be had: %s",
                            hold == DIBS_HOLD_GUARD ? "guard" : "enforce", why);

    if (err)
        err->os_errno = EOPNOTSUPP;
    return s;
}

static dibs_hold choose_automatic(const struct holds *holds, const dibs_request *request, dibs_err *why)
{
    if (request->mode == DIBS_DECLARED)
        return DIBS_HOLD_AUTO;
    if (holds->enforces)
        return DIBS_HOLD_ENFORCE;
    if (!request->is_reuser)
        return DIBS_HOLD_AUTO;
    if (holds->options.is_brief && request->holder != DIBS_HELD_BY_PROCESS) {
        (void) err_set(why, DIBS_FAILURE, "no daemon runs that would keep it");
        return DIBS_HOLD_NONE;
    }
    return check(holds, request, why) == DIBS_OK ? DIBS_HOLD_GUARD : DIBS_HOLD_NONE;
}

dibs_status holds_choose(const struct holds *holds, const dibs_request *request, dibs_hold *hold,
                         char note[DIBS_HOLD_NOTE_MAX + 1], dibs_err *err)
{
    dibs_err why = { 0 };

    *hold = request->hold;
    switch (request->hold) {
    case DIBS_HOLD_NONE:
    case DIBS_HOLD_FD: break; /* the caller binds the socket itself */
    case DIBS_HOLD_ENFORCE:
        if (!holds->enforces)
            return refuse(DIBS_HOLD_ENFORCE, "it needs a daemon that offers it ('dibs serve --enforce')",
                          err);
        break;
    case DIBS_HOLD_GUARD:
        if (check(holds, request, &why) != DIBS_OK)
            return refuse(DIBS_HOLD_GUARD, why.msg, err);
        break;
    case DIBS_HOLD_AUTO:
        *hold = choose_automatic(holds, request, &why);
        if (*hold == DIBS_HOLD_NONE)
            (void) text_copy(note, DIBS_HOLD_NOTE_MAX + 1, why.msg);
        break;
    }
    return DIBS_OK;
}

static dibs_status bind_all(struct holds *holds, struct held *held, dibs_err *err)
{
    dibs_status s = check_budget(holds, held->place.n_bindings, err);

    if (s == DIBS_OK)
        s = guard_open(&held->place, &held->guard, err);
    if (s != DIBS_OK)
        return s;
    holds->n_fds += held->guard.n;
    holds->n_waiting--;
    if (holds->keep)
        holds->keep(holds->keep_ctx, held->item.hash, held->guard.fd, held->guard.n);
    return DIBS_OK;
}

/* Add a claim that waits for its guard. NULL: out of memory. */
static struct held *add(struct holds *holds, const dibs_claim *claim)
{
    struct held *held = calloc(1, sizeof *held);

    if (!held || !hash_table_add(&holds->claims, &held->item, claim->id)) {
        free(held);
        return NULL;
    }
    held->place = guard_place_of(claim);
    holds->n_waiting++;
    holds->n_doubtful++;
    return held;
}

dibs_status holds_arm(struct holds *holds, const dibs_claim *claim, dibs_err *err)
{
    struct held *held = find(holds, claim->id);

    if (claim->hold != DIBS_HOLD_GUARD || (held && held->guard.n > 0))
        return DIBS_OK;
    if (!held)
        held = add(holds, claim);
    if (!held)
        return err_set(err, DIBS_FAILURE, "guarding port %u: out of memory", claim->port);
    held->place = guard_place_of(claim);
    dibs_status s = bind_all(holds, held, err);
    if (s != DIBS_OK && !held->is_confirmed)
        drop(holds, held);
    return s;
}

/* ---- guards that a manager keeps ---- */

void holds_keep(struct holds *holds, holds_keep_fn *keep, void *ctx)
{
    holds->keep = keep;
    holds->keep_ctx = ctx;
}

void holds_adopt(struct holds *holds, uint64_t claim_id, int fd)
{
    static const dibs_claim nothing;
    struct held *held = find(holds, claim_id);

    if (!held) {
        dibs_claim unknown = nothing;

        unknown.id = claim_id;
        held = add(holds, &unknown); /* its place is not known: port 0 */
    }
    if (!held || held->guard.n == DIBS_BINDINGS_MAX) {
        (void) close(fd);
        return;
    }
    holds->n_waiting -= held->guard.n == 0;
    held->guard.fd[held->guard.n++] = fd;
    holds->n_fds++;
}

/* Are the adopted sockets a guard of the claim, as it is now? */
static bool is_guard_of(const struct held *held, const dibs_claim *claim)
{
    bool is_it = held->guard.n == claim->n_bindings;

    for (size_t i = 0; i < held->guard.n && is_it; i++)
        is_it = guard_has(held->guard.fd[i], claim->port);
    return is_it;
}

void holds_follow(struct holds *holds, const dibs_claim *claim)
{
    struct held *held = holds->claims.n > 0 ? find(holds, claim->id) : NULL;

    if (claim->hold != DIBS_HOLD_GUARD) {
        if (held)
            end(holds, held);
        return;
    }
    if (held && held->place.port == 0 && is_guard_of(held, claim))
        held->place = guard_place_of(claim); /* adopted */
    bool is_same = held && held->place.port == claim->port && held->place.netns == claim->netns &&
                   held->place.uid == claim->uid;

    if (held && !is_same) /* its program is in another network namespace, or another user's */
        end(holds, held);
    if (!is_same)
        held = add(holds, claim);
    if (!held)
        return; /* out of memory: 'dibs doctor' compares */
    holds->n_doubtful -= !held->is_confirmed;
    held->is_confirmed = true;
    if (held->guard.n == 0)
        (void) bind_all(holds, held, NULL);
}

void holds_end(struct holds *holds, uint64_t claim_id)
{
    struct held *held = find(holds, claim_id);

    if (held)
        end(holds, held);
}

struct search {
    uint16_t port;
    bool is_found;
};

static void compare_port(void *ctx, struct hash_table_item *item)
{
    const struct held *held = (const struct held *) item;
    struct search *search = ctx;

    search->is_found = search->is_found || (held->guard.n > 0 && held->place.port == search->port);
}

bool holds_port(struct holds *holds, uint16_t port)
{
    struct search search = { .port = port };

    hash_table_each(&holds->claims, compare_port, &search);
    return search.is_found;
}

/* ---- all claims ---- */

static void doubt_item(void *ctx, struct hash_table_item *item)
{
    (void) ctx;
    ((struct held *) item)->is_confirmed = false;
}

void holds_doubt(struct holds *holds)
{
    hash_table_each(&holds->claims, doubt_item, NULL);
    holds->n_doubtful = holds->claims.n;
}

static void drop_unconfirmed(void *ctx, struct hash_table_item *item)
{
    struct held *held = (struct held *) item;

    if (!held->is_confirmed)
        end(ctx, held);
}

void holds_settle(struct holds *holds)
{
    if (holds->n_doubtful > 0)
        hash_table_each(&holds->claims, drop_unconfirmed, holds);
}

struct retry {
    struct holds *holds;
    size_t n, n_skipped;
};

static void retry_item(void *ctx, struct hash_table_item *item)
{
    struct held *held = (struct held *) item;
    struct retry *retry = ctx;

    if (held->guard.n > 0)
        return;
    if (retry->n_skipped < retry->holds->n_tried)
        retry->n_skipped++;
    else if (retry->n < RETRY_MAX && ++retry->n > 0)
        (void) bind_all(retry->holds, held, NULL);
}

void holds_retry(struct holds *holds, int64_t now_ms)
{
    struct retry retry = { .holds = holds };

    if (holds->n_waiting == 0 || now_ms < holds->retry_ms)
        return;
    hash_table_each(&holds->claims, retry_item, &retry);
    holds->n_tried = retry.n == RETRY_MAX ? holds->n_tried + retry.n : 0;
    holds->retry_ms = now_ms + RETRY_MS;
}

int64_t holds_retry_ms(const struct holds *holds)
{
    return holds->n_waiting > 0 ? holds->retry_ms : INT64_MAX;
}

struct visit {
    void (*fn)(void *ctx, uint64_t claim_id);
    void *ctx;
};

static void visit_item(void *ctx, struct hash_table_item *item)
{
    const struct visit *visit = ctx;

    visit->fn(visit->ctx, item->hash);
}

void holds_each(struct holds *holds, void (*fn)(void *ctx, uint64_t claim_id), void *ctx)
{
    struct visit visit = { fn, ctx };

    hash_table_each(&holds->claims, visit_item, &visit);
}
