/* SPDX-License-Identifier: MIT */
/* Lists the candidates of a round: which ports each want of the batch tries, in which order. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/attempt.h"
#include "core/cooldown.h"
#include "net/bindings.h"

#include "base/banned.h"

static dibs_status read_cursor(struct core *core, const struct call *call, dibs_err *err)
{
    uint64_t seq = 0;

    if (core->has_cursor)
        return DIBS_OK;
    dibs_status s = ledger_tail(core->ledger, call, &seq, &core->cursor, err);
    core->has_cursor = s == DIBS_OK;
    return s;
}

/* Return whether a name's port may be proposed. Not when this call tried it: every round needs something new.
 * A port that was busy for another call counts as free: its server may have ended (INV-7). */
static bool may_choose(const struct attempt *a, const struct candidate_source *source, uint16_t port)
{
    return port != 0 && portbits_has(&source->choosable, port) && !attempt_has(a->tried, port);
}

/* Return whether the index knows the port as cooling; without the index the ledger skips cooling ports. */
static bool is_cooling(const struct attempt *a, const struct candidate_source *source, uint16_t port)
{
    bool is_found = false;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && a->stage != STAGE_BLIND; proto++)
        is_found = is_found ||
                   ((source->kind.protos & 1u << proto) &&
                    cooldown_is_on(a->core, proto, port, a->call.now.boot_ms - source->pool.cooldown_ms));
    return is_found;
}

/* List ports of claims that the batch ends: free for the ledger, but in use a moment ago. */
static size_t list_ending(const struct attempt *a, const struct candidate_source *source, uint16_t *out,
                          size_t max)
{
    struct portbits left = *a->ending;
    size_t n = 0;

    for (size_t i = 0; i < a->batch->n_drops && n < max; i++) {
        uint16_t port = a->batch->drops[i].claim->port;

        if (may_choose(a, source, port) && portbits_has(&left, port)) {
            portbits_remove(&left, port); /* a claim on another address of the port may end, too */
            out[n++] = port;
        }
    }
    return n;
}

static struct candidate_choice choice_of(const struct attempt *a, const struct candidate_source *source,
                                         const dibs_claim *claim)
{
    return (struct candidate_choice){ .source = source,
                                      .claim = claim,
                                      .skipped = a->skipped ? a->skipped : &a->core->foreign.ports,
                                      .cursor = a->core->cursor,
                                      .now_ms = a->call.now.boot_ms,
                                      .enough = 1 };
}

static size_t list_candidates(struct attempt *a, const struct candidate_source *source,
                              const dibs_claim *claim, uint16_t *out, size_t max)
{
    struct candidate_choice choice = choice_of(a, source, claim);
    size_t n = 0;
    size_t n_dead = a->n_dead_ports < max ? a->n_dead_ports : max;

    if (a->batch->n > 1)
        choice.enough = max;
    /* A batch also proposes the free ports, although they were too few. */
    if (a->stage != STAGE_DEAD || a->batch->n > 1)
        n = candidate_ports(a->core, &choice, out, max - n_dead);
    if (a->has_ending)
        n += list_ending(a, source, out + n, max - n_dead - n);
    for (size_t i = 0; i < a->n_dead_ports && n < max; i++)
        if (portbits_has(&source->choosable, a->dead_ports[i]) &&
            !portbits_has(&a->core->foreign.ports, a->dead_ports[i]))
            out[n++] = a->dead_ports[i];
    return n;
}

static bool is_single_choice(const struct ask *ask, const struct candidate_source *source)
{
    return ask->source == source && ask->is_choice && !ask->is_noop && !ask->is_in_run;
}

/* ---- set ports aside for one want ---- */

static void set_aside(struct attempt *a, const struct candidate_source *source, uint16_t port)
{
    for (dibs_proto proto = DIBS_TCP; a->aside && proto <= DIBS_PROTO_MAX; proto++)
        if (source->kind.protos & 1u << proto)
            portbits_add(&a->aside[proto], port);
}

static bool is_set_aside(const struct attempt *a, const struct candidate_source *source, uint16_t port)
{
    for (dibs_proto proto = DIBS_TCP; a->aside && proto <= DIBS_PROTO_MAX; proto++)
        if ((source->kind.protos & 1u << proto) && portbits_has(&a->aside[proto], port))
            return true;
    return false;
}

/* ---- single ports that dibs chooses ---- */

/* The ports of one want: its name's, then one set aside for it alone. 0: none. */
struct proposal {
    uint16_t remembered, preferred, own;
};

/* Return whether the port may be free: the index has no claim there, or the batch ends it. An index that is
 * not up to date does not decide: the claim may have ended (INV-7). */
static bool may_be_free(const struct attempt *a, const struct candidate_source *source, uint16_t port)
{
    if (a->stage < STAGE_RELOADED || source->kind.is_specific || attempt_has(a->freed, port))
        return true;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if ((source->kind.protos & 1u << proto) && portbits_has(&a->core->index.taken[proto], port))
            return a->stage == STAGE_DEAD;
    return true;
}

/* Propose ports that names had before ports that other names' hashes prefer (INV-7). */
static void propose_named(struct attempt *a, const struct candidate_source *source,
                          struct proposal *proposals)
{
    for (size_t i = 0; i < a->batch->n; i++) {
        uint16_t port = a->wants[i].remembered;

        if (is_single_choice(&a->asks[i], source) && may_choose(a, source, port) &&
            may_be_free(a, source, port) && !is_set_aside(a, source, port)) {
            proposals[i].remembered = port;
            set_aside(a, source, port);
        }
    }
    for (size_t i = 0; i < a->batch->n; i++) {
        const struct ledger_want *want = &a->wants[i];

        /* A name that already has a claim, perhaps outside this pool, needs no other port. */
        if (!is_single_choice(&a->asks[i], source) || !want->claim.name[0] || a->asks[i].has_claim)
            continue;
        uint16_t port = candidate_of_name(&a->call, source, &want->claim);
        if (!may_choose(a, source, port) || is_cooling(a, source, port) || !may_be_free(a, source, port) ||
            is_set_aside(a, source, port) || port == proposals[i].remembered ||
            attempt_has(a->ending, port)) /* ports of ending claims come after free ones */
            continue;
        proposals[i].preferred = port;
        if (!proposals[i].remembered)
            set_aside(a, source, port);
    }
}

/* Return how urgently a want needs a listed port: more without another port, less with a claim. */
static int need_of(const struct ask *ask, const struct proposal *p)
{
    return ask->has_claim ? 2 : p->remembered || p->preferred ? 1 : 0;
}

/* Set listed ports aside for single wants. Return how many are left at the beginning, for all to share. */
static size_t propose_own(struct attempt *a, const struct candidate_source *source,
                          struct proposal *proposals, uint16_t *list, size_t n)
{
    size_t next = 0;
    size_t left = 0;

    for (size_t k = 0; k < n; k++)
        if (!is_set_aside(a, source, list[k]))
            list[left++] = list[k];
    for (int need = 0; need <= 2; need++)
        for (size_t i = 0; i < a->batch->n && next < left; i++)
            if (is_single_choice(&a->asks[i], source) && need_of(&a->asks[i], &proposals[i]) == need)
                proposals[i].own = list[next++];
    memmove(list, list + next, (left - next) * sizeof *list);
    return left - next < SPARE_MAX ? left - next : SPARE_MAX;
}

static void put(uint16_t **to, uint16_t port)
{
    if (port != 0)
        *(*to)++ = port;
}

/* Propose to every want that dibs chooses for: its name's ports, one of its own, and the shared spare ports.
 */
static dibs_status propose_choices(struct attempt *a, const struct candidate_source *source,
                                   uint16_t **buffer, dibs_err *err)
{
    size_t n_choices = 0;
    const struct ledger_want *any = NULL;

    for (size_t i = 0; i < a->batch->n; i++)
        if (is_single_choice(&a->asks[i], source)) {
            any = &a->wants[i];
            n_choices++;
        }
    if (n_choices == 0)
        return DIBS_OK;
    /* Enough to set aside for names, one for each want, and the spare ports. */
    size_t max = n_choices > 1 ? 2 * n_choices + SPARE_MAX : a->stage == STAGE_BLIND ? SPARE_MAX : EXACT_MAX;
    AUTO(free_auto) uint16_t *list = calloc(max, sizeof *list);
    AUTO(free_auto) struct proposal *proposals = calloc(a->batch->n, sizeof *proposals);
    if (!list || !proposals)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    propose_named(a, source, proposals);
    size_t n = list_candidates(a, source, &any->claim, list, max);
    n = propose_own(a, source, proposals, list, n);
    for (size_t i = 0; i < a->batch->n; i++) {
        struct ledger_want *want = &a->wants[i];
        uint16_t *to = *buffer;

        if (!is_single_choice(&a->asks[i], source))
            continue;
        put(&to, proposals[i].remembered);
        put(&to, proposals[i].preferred);
        put(&to, proposals[i].own);
        for (size_t k = 0; k < n; k++)
            put(&to, list[k]);
        want->candidates = *buffer;
        want->n_candidates = (size_t) (to - *buffer);
        want->accepts_cooling = a->stage != STAGE_BLIND;
        *buffer = to;
    }
    return DIBS_OK;
}

struct blocked {
    const struct attempt *a;
    struct portbits ports;
};

/* Return whether the claim ends before the ledger checks its port. */
static bool gives_way(const struct attempt *a, const struct ledger_slot *slot)
{
    if (slot->claim_id == 0 || attempt_is_dead(a, slot->claim_id))
        return true;
    for (size_t i = 0; i < a->batch->n_drops && attempt_has(a->ending, slot->port); i++)
        if (a->drops[i].seen.id == slot->claim_id)
            return !a->drops[i].stays;
    return false;
}

static bool block(void *ctx, const struct ledger_slot *slot)
{
    struct blocked *b = ctx;
    const dibs_binding taken = { slot->proto, slot->address };
    bool is_blocked = false;

    for (size_t i = 0; i < b->a->batch->n && !is_blocked && !gives_way(b->a, slot); i++)
        is_blocked =
            bindings_conflict(b->a->wants[i].claim.bindings, b->a->wants[i].claim.n_bindings, &taken, 1);
    if (is_blocked)
        portbits_add(&b->ports, slot->port);
    return true;
}

/* Return whether the run may start there, as far as is known without the ledger. */
static bool may_run_at(const struct attempt *a, const struct candidate_source *source, size_t base, size_t n)
{
    if (base == 0 || base + n - 1 > DIBS_PORT_MAX || (a->batch->align > 1 && base % a->batch->align != 0))
        return false;
    for (size_t port = base; port < base + n; port++)
        if (!may_choose(a, source, (uint16_t) port) || is_set_aside(a, source, (uint16_t) port))
            return false;
    return true;
}

/* Propose runs: first the run that the names had, then the one that the first name's hash prefers (INV-7),
 * then runs that the index believes free. The index has no addresses, so read the ledger before giving up. */
static dibs_status propose_run(struct attempt *a, size_t first, uint16_t **buffer, dibs_err *err)
{
    struct ledger_want *want = &a->wants[first];
    struct candidate_run run = { .n = want->run, .align = a->batch->align };
    const struct candidate_source *source = a->asks[first].source;
    struct candidate_choice choice = choice_of(a, source, &want->claim);
    struct portbits skipped = a->core->foreign.ports;
    uint16_t *to = *buffer;
    bool is_there = true; /* every name of the run has its claim: no other port is needed */
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < run.n; i++)
        is_there = is_there && a->asks[first + i].has_claim;
    for (dibs_proto proto = DIBS_TCP; a->aside && proto <= DIBS_PROTO_MAX; proto++)
        if (source->kind.protos & 1u << proto)
            portbits_add_all(&skipped, &a->aside[proto]);
    choice.skipped = &skipped;
    uint16_t hashed = want->claim.name[0] ? candidate_of_name(&a->call, source, &want->claim) : 0;
    run.start = hashed; /* if it does not fit there, search from there: the same in every process */
    if (may_run_at(a, source, want->run_base, run.n))
        *to++ = want->run_base;
    if (hashed != want->run_base && a->stage != STAGE_DEAD && may_run_at(a, source, hashed, run.n))
        *to++ = hashed;
    size_t n = candidate_runs(a->core, &choice, run, to, SPARE_MAX);
    if (n == 0) {
        struct blocked b = { .a = a };

        s = ledger_slots(a->core->ledger, &a->call, NULL, block, &b, err);
        portbits_add_all(&skipped, &b.ports);
        run.is_free = true;
        n = candidate_runs(a->core, &choice, run, to, SPARE_MAX);
    }
    want->candidates = *buffer;
    want->n_candidates = n + (size_t) (to - *buffer);
    for (size_t i = 0; i < run.n; i++) {
        a->wants[first + i].accepts_cooling = true;
        if (want->n_candidates > 0 && !is_there)
            set_aside(a, source, (uint16_t) (want->candidates[0] + i));
    }
    *buffer = to + n;
    return s;
}

/* Compute the ports to skip. In the first round of most calls these are only the foreign ports. */
static dibs_status pass_over(struct attempt *a, dibs_err *err)
{
    if (a->round == 0 && !a->has_ending)
        return DIBS_OK;
    if (!a->skipped)
        a->skipped = malloc(sizeof *a->skipped);
    if (!a->skipped)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    *a->skipped = a->core->foreign.ports;
    if (a->tried)
        portbits_add_all(a->skipped, a->tried);
    if (a->has_ending)
        portbits_add_all(a->skipped, a->ending);
    for (size_t i = 0; i < a->n_dead_ports; i++) /* proposed separately */
        portbits_add(a->skipped, a->dead_ports[i]);
    return DIBS_OK;
}

dibs_status attempt_propose(struct attempt *a, dibs_err *err)
{
    uint16_t *buffer = a->candidates;
    dibs_status s = read_cursor(a->core, &a->call, err);

    if (a->aside)
        memset(a->aside, 0, ASIDE_BYTES);
    if (s == DIBS_OK)
        s = pass_over(a, err);
    for (size_t i = 0; i < a->batch->n; i++) /* requested numbers */
        if (!a->asks[i].is_choice)
            set_aside(a, a->asks[i].source, a->asks[i].request->port);
    for (size_t i = 0; i < a->batch->n && s == DIBS_OK && a->has_run; i++)
        if (a->wants[i].run > 1)
            s = propose_run(a, i, &buffer, err);
    for (size_t p = 0; p < a->n_sources && s == DIBS_OK; p++)
        s = propose_choices(a, a->sources[p], &buffer, err);
    return s;
}
