/* SPDX-License-Identifier: MIT */
/* Claims ports: list candidates, let the ledger decide, and react to its refusal.
 *
 * A choice escalates only as far as needed: first along the order without the index, then by the index, then
 * by the reloaded index, then over the claims of dead holders. A requested number is tried again only when
 * its blockers are dead. Holders are judged outside the call's own transactions (P9); a group commit
 * may have the group's transaction open meanwhile. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/name_part.h"
#include "base/text.h"
#include "core/attempt.h"
#include "core/cooldown.h"
#include "host/kernel.h"

#include "base/banned.h"

static void attempt_free(struct attempt *a)
{
    if (!a)
        return;
    free(a->aside);
    free(a->drops);
    free(a->freed);
    free(a->ending);
    free(a->proposed_dead);
    free(a->tried);
    free(a->skipped);
    free(a->dead);
    free(a->dead_ports);
    free(a->asks);
    free(a->wants);
    free(a->aligned);
    free(a->candidates);
    free(a);
}
DEFINE_AUTO(struct attempt, attempt_free)

dibs_status core_may_bind(struct core *core, const struct call *call, const dibs_binding *binding,
                          uint16_t port, dibs_err *err)
{
    bool is_ours = call->uid == core->options.uid || call->uid == 0;

    if (is_ours || port >= core_host(core, call)->unprivileged_from)
        return DIBS_OK;
    kernel_probe_why(binding, port, EACCES, err); /* only we may bind it, not the caller */
    return DIBS_DENIED;
}

static bool see_one(void *ctx, const struct kernel_socket *socket)
{
    (void) socket;
    *(bool *) ctx = true;
    return false;
}

/* Is a guard of our own all that is in the way? A guard of a released claim may exist a moment longer. */
static bool is_only_guarded(const struct core *core, const dibs_claim *claim, uint16_t port)
{
    bool is_seen = !core->options.is_guarded || !core->options.is_guarded(core->options.guards, port);

    for (size_t i = 0; i < claim->n_bindings && !is_seen; i++)
        if (kernel_blocking_sockets(0, claim->bindings[i].proto, port, see_one, &is_seen, NULL) != DIBS_OK)
            return false;
    return !is_seen;
}

enum ledger_probe core_probe(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err)
{
    const struct core_probing *probing = ctx;
    struct core *core = probing->core;
    const struct call *call = probing->call;

    if (core_may_bind(core, call, &claim->bindings[0], port, err) != DIBS_OK)
        return LEDGER_PROBE_ABORT;
    /* A NAT rule takes the packets to a port to which no socket is bound. */
    const struct nat_rule *rule = NULL;
    const struct nat_question question = { claim->bindings, claim->n_bindings, port };
    if (nat_find(core->nat, &question, &rule, 1) > 0) {
        core->n_busy++;
        return LEDGER_PROBE_BUSY;
    }
    switch (kernel_probe(claim->bindings, claim->n_bindings, port, err)) {
    case KERNEL_FREE: return LEDGER_PROBE_FREE;
    case KERNEL_BUSY:
        if (is_only_guarded(core, claim, port))
            return LEDGER_PROBE_FREE;
        core->n_busy++;
        return LEDGER_PROBE_BUSY;
    case KERNEL_ABORT: break;
    }
    return LEDGER_PROBE_ABORT;
}

/* ---- prepare ---- */

static bool is_same_source(const struct candidate_source *source, const dibs_pool *pool,
                           struct candidate_kind kind)
{
    return strcmp(source->pool.name, pool->name) == 0 && source->kind.protos == kind.protos &&
           source->kind.is_specific == kind.is_specific;
}

static dibs_status find_source(struct attempt *a, size_t i, dibs_err *err)
{
    const dibs_request *r = a->asks[i].request;
    dibs_pool pool;
    dibs_status s = core_pool(a->core, &a->call, r->pool, r->ranges, &pool, err);

    if (s != DIBS_OK)
        return s;
    struct candidate_kind kind = candidate_kind_of(&a->wants[i].claim);
    a->asks[i].source = NULL;
    for (size_t n = 0; n < a->n_sources && !a->asks[i].source; n++)
        if (is_same_source(a->sources[n], &pool, kind))
            a->asks[i].source = a->sources[n];
    if (!a->asks[i].source) {
        if (a->n_sources == SOURCES_MAX)
            return err_set(err, DIBS_INVALID, "a batch may use at most %d different pools", SOURCES_MAX);
        a->asks[i].source = candidate_source(a->core, &a->call, &pool, kind);
        if (!a->asks[i].source)
            return err_set(err, DIBS_FAILURE, "claiming: out of memory");
        a->sources[a->n_sources++] = a->asks[i].source;
    }
    a->wants[i].cooldown_ms = pool.cooldown_ms;
    cooldown_remember(a->core, pool.cooldown_ms);
    bool is_member = r->mode == DIBS_RANDOM || dibs_ranges_contain(&pool.ranges, r->port);
    /* A requested pool restricts the port; the default pool does not (K9). */
    bool is_bound = (r->ranges || r->pool) && r->mode != DIBS_DECLARED;
    if (!is_member && is_bound) {
        char text[DIBS_RANGES_TEXT_MAX + 1];

        dibs_ranges_format(&pool.ranges, text);
        return err_set(err, DIBS_INVALID,
                       "port %u is not in the valid range of pool '%s'; valid ports are %.200s", r->port,
                       pool.name, text);
    }
    a->wants[i].within = is_bound ? &a->asks[i].source->pool.ranges : NULL;
    if (is_member)
        (void) text_copy(a->wants[i].claim.pool, sizeof a->wants[i].claim.pool, pool.name);
    return DIBS_OK;
}

/* Look up a name before any probe: its full name, its last port, and whether its holder is alive. */
static dibs_status look_up_name(struct attempt *a, struct core_names *names, size_t i, dibs_err *err)
{
    struct ledger_want *want = &a->wants[i];
    char *name = want->claim.name;
    dibs_claim claim;
    const dibs_request *r = a->asks[i].request;
    dibs_status s = core_name(names, r->name, r->project, name, err);

    if (s != DIBS_OK)
        return s;
    s = ledger_find_name(a->core->ledger, names->call, name, &claim, &want->remembered, err);
    a->asks[i].has_claim = s == DIBS_OK && !attempt_has(a->freed, claim.port);
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK;
    if (s == DIBS_OK && core_judge(a->core, &a->call, NULL, &claim, NULL) == DIBS_DEAD)
        (void) attempt_add_dead(a, &claim);
    return s;
}

static dibs_status refuse_run(dibs_err *err)
{
    return err_set(err, DIBS_INVALID, "a contiguous run has random requests of one pool and kind only");
}

/* Find the runs of the batch. A contiguous batch is one run; otherwise the requests say it. */
static dibs_status find_runs(struct attempt *a, dibs_err *err)
{
    const dibs_batch *batch = a->batch;

    if (!batch->is_contiguous && batch->align > 1)
        return err_set(err, DIBS_INVALID, "an alignment needs a contiguous batch");
    if (batch->align > 1 && batch->n == 1 && a->n_sources == 1) { /* a choice among fewer ports */
        a->aligned = candidate_source_aligned(a->sources[0], batch->align);
        if (!a->aligned)
            return err_set(err, DIBS_FAILURE, "claiming: out of memory");
        a->sources[0] = a->asks[0].source = a->aligned;
    }
    a->wants[0].align = batch->align;
    for (size_t first = 0, n = 1; first < batch->n; first += n) {
        const dibs_request *begin = a->asks[first].request;

        assert(begin);
        uint32_t said = begin->run;

        n = batch->is_contiguous ? batch->n : said > 1 ? said : 1;
        if (n > batch->n - first)
            return err_set(err, DIBS_INVALID, "a run of %zu requests goes over the end of its batch", n);
        for (size_t i = first; n > 1 && i < first + n; i++) {
            const dibs_request *r = &begin[i - first];

            if (r != a->asks[i].request || r->mode != DIBS_RANDOM ||
                a->asks[i].source != a->asks[first].source || r->n_bindings != begin->n_bindings ||
                (i > first && r->run > 1))
                return refuse_run(err);
            a->asks[i].is_in_run = true;
            a->asks[i].run_first = first;
        }
        a->has_run = a->has_run || n > 1;
        a->wants[first].run = (uint32_t) n;
        a->wants[first].claim.run = (uint16_t) n;
    }
    return DIBS_OK;
}

static dibs_status prepare_drops(struct attempt *a, dibs_err *err)
{
    a->drops = calloc(a->batch->n_drops + 1, sizeof *a->drops);
    a->freed = calloc(1, sizeof *a->freed);
    a->ending = calloc(1, sizeof *a->ending);
    if (!a->drops || !a->freed || !a->ending)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    for (size_t i = 0; i < a->batch->n_drops; i++) {
        const dibs_claim *claim = a->batch->drops[i].claim;

        a->drops[i].seen = (struct ledger_seen){ claim->id, claim->generation, claim->lease_until_ms };
        a->drops[i].stays = a->batch->drops[i].stays;
        a->drops[i].shared_bytes = a->batch->drops[i].shared_bytes;
        /* A request's name never has six parts. */
        if (a->batch->drops[i].frees_name && claim->name[0] &&
            name_part_count(claim->name) <= DIBS_NAME_PARTS_MAX) {
            a->drops[i].frees = claim->name;
            portbits_add(a->freed, claim->port);
        }
        bool is_held = claim->holder != DIBS_HELD_BY_NOBODY;
        if (is_held && claim->life == DIBS_DEAD)
            (void) attempt_add_dead(a, claim);
        if (!a->drops[i].stays && (!is_held || claim->life == DIBS_DEAD)) {
            portbits_add(a->ending, claim->port);
            a->has_ending = true;
        }
    }
    return DIBS_OK;
}

/* Return the first port of the run that the names have or remember, if it may be chosen (INV-7). */
static uint16_t run_base(const struct attempt *a, size_t first)
{
    const struct ledger_want *wants = &a->wants[first];
    const struct portbits *choosable = &a->asks[first].source->choosable;
    uint32_t base = 0;
    bool is_one = true;

    for (size_t i = 0; i < wants->run; i++) {
        uint32_t port = wants[i].remembered;

        if (port == 0)
            continue;
        is_one = is_one && port > i && (base == 0 || base == port - i);
        base = port - (uint32_t) i;
    }
    is_one = is_one && base != 0 && (a->batch->align < 2 || base % a->batch->align == 0);
    for (size_t i = 0; i < wants->run && is_one; i++)
        is_one = base + i <= DIBS_PORT_MAX && portbits_has(choosable, (uint16_t) (base + i));
    return is_one ? (uint16_t) base : 0;
}

dibs_status attempt_look_up_names(struct attempt *a, dibs_err *err)
{
    struct ledger *ledger = a->core->ledger;
    struct call look = a->call;
    struct core_names names = { .core = a->core, .call = &look };
    dibs_status s = DIBS_OK;

    if (a->batch->n > 1 && look.tx)
        ledger_tx_open(look.tx, &look);
    else if (a->batch->n > 1 && !(look.tx = ledger_begin_read(ledger, &look, err)))
        return DIBS_UNAVAILABLE;
    for (size_t i = 0; i < a->batch->n && s == DIBS_OK; i++)
        if (a->wants[i].claim.name[0])
            s = look_up_name(a, &names, i, err);
    if (!a->call.tx)
        ledger_rollback(look.tx);
    return s;
}

static dibs_status allocate(struct attempt *a, dibs_err *err)
{
    size_t n = a->batch->n;

    a->asks = calloc(n ? n : 1, sizeof *a->asks);
    a->wants = calloc(n ? n : 1, sizeof *a->wants);
    a->candidates = calloc(n == 1 ? SPARE_MAX + 2 : n * (SPARE_MAX + 3) + 1, sizeof *a->candidates);
    a->aside = n > 1 ? calloc(1, ASIDE_BYTES) : NULL;
    if (a->asks && a->wants && a->candidates && (n <= 1 || a->aside))
        return DIBS_OK;
    (void) err_set(err, DIBS_FAILURE, "claiming: out of memory");
    return DIBS_FAILURE;
}

/* Prepare the attempt. Its batch, `used`, leaves out requests that create nothing. */
static dibs_status prepare(struct attempt *a, dibs_batch *used, dibs_err *err)
{
    size_t n = 0;
    dibs_status s = used->n_drops > 0 ? prepare_drops(a, err) : DIBS_OK;

    if (s == DIBS_OK)
        s = allocate(a, err);
    for (size_t i = 0; i < used->n && s == DIBS_OK; i++) {
        a->asks[n] = (struct ask){ 0 };
        a->wants[n] = (struct ledger_want){ 0 };
        s = request_prepare(a->core, &a->call, &used->requests[i], &a->asks[n], &a->wants[n], err);
        if (s == DIBS_OK && !a->asks[n].is_noop)
            s = find_source(a, n++, err);
    }
    if (s == DIBS_OK && n < used->n && used->is_contiguous && used->n > 1)
        s = refuse_run(err);
    used->n = n;
    if (s == DIBS_OK)
        s = find_runs(a, err);
    if (s == DIBS_OK && n > 1)
        s = request_names_differ(a->wants, n, err);
    if (s == DIBS_OK)
        s = attempt_look_up_names(a, err);
    for (size_t i = 0; i < n && s == DIBS_OK && a->has_run; i += a->wants[i].run)
        a->wants[i].run_base = run_base(a, i);
    return s;
}

/* ---- the call ---- */

/* Return whether a single unnamed choice has no candidate: then do not wait for the write lock. */
static bool is_hopeless(struct attempt *a)
{
    if (a->batch->n != 1 || a->batch->key || !a->asks[0].is_choice || a->wants[0].claim.name[0] ||
        a->wants[0].n_candidates > 0)
        return false;
    memset(&a->refusal, 0, sizeof a->refusal);
    return true;
}

/* Hash the requests, so that a reused idempotency key is detected. */
static uint64_t digest_of(const struct attempt *a)
{
    uint64_t hash = HASH_FNV_BASIS;

    for (size_t i = 0; i < a->batch->n; i++) {
        const dibs_request *r = a->asks[i].request;
        const char *const texts[] = { r->name, r->project, r->pool };
        const int64_t numbers[] = { r->mode, r->port,      r->holder, r->pid,    r->ttl_ms,
                                    r->keep, r->is_lookup, r->hold,   r->as_port };

        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            hash = hash_fnv1a(hash, texts[k] ? texts[k] : "", texts[k] ? strlen(texts[k]) + 1 : 1);
        hash = hash_fnv1a(hash, numbers, sizeof numbers);
        for (size_t k = 0; k < r->n_bindings; k++) {
            hash = hash_fnv1a(hash, &r->bindings[k].proto, sizeof r->bindings[k].proto);
            hash = hash_fnv1a(hash, r->bindings[k].address.bytes, r->bindings[k].address.len);
        }
    }
    return hash;
}

static dibs_status rounds(struct attempt *a, dibs_claim *out, dibs_err *err)
{
    const struct ledger_key key = { a->batch->key, a->batch->key ? digest_of(a) : 0 };
    struct core_probing probing = { a->core, &a->call };
    struct ledger_batch batch = {
        .key = a->batch->key ? &key : NULL,
        .wants = a->wants,
        .n = a->batch->n,
        .drops = a->drops,
        .n_drops = a->batch->n_drops,
        .is_dry_run = a->batch->is_dry_run,
        .probe = core_probe,
        .probe_ctx = &probing,
    };
    dibs_status s = DIBS_OK;

    for (; a->round < ROUNDS_MAX; a->round++) {
        bool again = false;

        if (a->round > 0 && !a->call.tx)
            a->call.now = core_now(a->core);
        batch.dead = a->dead;
        batch.n_dead = a->n_dead;
        s = attempt_propose(a, err);
        if (s == DIBS_OK) {
            s = is_hopeless(a) ? DIBS_EXHAUSTED
                               : ledger_claim(a->core->ledger, &a->call, &batch, out, &a->refusal, err);
            attempt_note_foreign(a);
        }
        if (attempt_gives_up(a, s, err))
            continue;
        if ((s != DIBS_TAKEN && s != DIBS_EXHAUSTED) || a->refusal.is_beyond)
            return s;
        dibs_status learned = attempt_react(a, s, &again, err);
        if (learned != DIBS_OK)
            return learned;
        if (!again)
            break;
        if (attempt_is_late(a))
            return err_trouble(err, DIBS_TROUBLE_NONE, "no port could be claimed within the timeout");
    }
    if (s == DIBS_EXHAUSTED) {
        const struct ask *ask = &a->asks[a->refusal.want];
        struct candidate_run run = { .n = ask->is_in_run ? a->wants[ask->run_first].run : 1,
                                     .align = a->batch->align };

        return core_refuse_exhausted(a->core, &a->call, ask->source, run, err);
    }
    return core_refuse(a->core, &a->call, &a->wants[a->refusal.want], &a->refusal, err);
}

static bool has_ipv6(const dibs_claim *claim)
{
    for (size_t i = 0; i < claim->n_bindings; i++)
        if (claim->bindings[i].address.len == 16)
            return true;
    return false;
}

/* Complete the claims, and move each to the index of its request; `n` counts all requests, no-ops too. */
static void answer(struct attempt *a, size_t n, dibs_claim *out)
{
    for (size_t i = a->batch->n; i-- > 0;) {
        size_t place = (size_t) (a->asks[i].request - a->batch->requests);
        dibs_claim *claim = &out[i];

        claim->is_narrowed = a->asks[i].is_narrowed && !has_ipv6(claim);
        claim->life = DIBS_ALIVE;
        if (a->batch->is_dry_run) {
            claim->token[0] = '\0';
            claim->id = claim->was_there ? claim->id : 0;
        } else if (!claim->was_there) {
            core_index_note_claim(a->core, claim);
            a->core->cursor++;
        }
        if (place != i)
            out[place] = *claim;
    }
    for (size_t i = 0; i < n; i++)
        if (core_is_noop(&a->batch->requests[i]))
            memset(&out[i], 0, sizeof out[i]);
}

dibs_status core_claim(struct core *core, const struct call *call, const dibs_batch *batch, dibs_claim *out,
                       dibs_err *err)
{
    AUTO(attempt_free_auto) struct attempt *a = calloc(1, sizeof *a);
    dibs_batch used = *batch;

    if (batch->n == 0 && batch->n_drops == 0)
        return DIBS_OK;
    if (!a)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    a->core = core;
    a->call = *call;
    a->batch = &used;
    if (a->call.deadline_ms == 0)
        a->call.deadline_ms = clock_monotonic_ms() + call->settings->timeout_ms;
    attempt_begin_foreign(a);
    nat_refresh(core->nat, a->call.now.boot_ms);
    dibs_status s = prepare(a, &used, err);
    if (s != DIBS_OK)
        return s;
    s = core_index_follow(core, call, err);
    if (s != DIBS_OK)
        return s;
    a->stage = core->index.is_loaded ? STAGE_INDEX : STAGE_BLIND;
    if ((a->has_run || a->has_ending) && !core->index.is_loaded) {
        /* A run needs the index; ports of ending claims come after free ones, which also needs it. */
        a->stage = STAGE_RELOADED;
        s = core_index_refresh(core, call, err);
        if (s != DIBS_OK)
            return s;
    }
    if (used.n > 0 || used.n_drops > 0)
        s = rounds(a, out, err);
    if (s == DIBS_OK)
        answer(a, batch->n, out);
    return s;
}
