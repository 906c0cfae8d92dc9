/* SPDX-License-Identifier: MIT */
/* End the claims of dead holders. Reported deaths and expired leases only select the claims to judge; core
 * decides (INV-5): a socket that is still bound keeps its claim. All are judged before one short transaction
 * ends the dead ones (P9). A scan of 50,000 claims takes about a millisecond. */
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/grow.h"
#include "daemon/engine_internal.h"

#include "base/banned.h"

void engine_judge_at(struct engine *e, struct held *held, int64_t at_ms)
{
    held->judge_ms = at_ms;
    if (at_ms < e->judge_ms)
        e->judge_ms = at_ms;
}

void engine_died(void *ctx, const dibs_process *who)
{
    struct engine *e = ctx;

    if (grow((void **) &e->died, e->n_died, &e->max_died, sizeof *e->died))
        e->died[e->n_died++] = *who;
    else
        e->needs_reload = true; /* out of memory: the reload watches all processes again */
}

int64_t engine_reap_ms(const struct engine *e)
{
    int64_t rest_us = e->scan_us - clock_monotonic_us();
    int64_t rest_ms = rest_us > 0 ? rest_us / 1000 + 1 : 0;

    if (e->n_died > 0)
        return rest_ms;
    if (e->judge_ms == INT64_MAX)
        return -1;
    int64_t wait_ms = e->judge_ms - core_now(e->core).boot_ms;
    return wait_ms > rest_ms ? wait_ms : rest_ms;
}

struct scan {
    struct engine *engine;
    int64_t now_ms;
    size_t n;
    struct held *due[DUE_MAX];
};

static int compare_processes(const void *a, const void *b)
{
    const dibs_process *x = a;
    const dibs_process *y = b;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->start_ticks != y->start_ticks)
        return x->start_ticks < y->start_ticks ? -1 : 1;
    return x->pidns < y->pidns ? -1 : x->pidns > y->pidns;
}

static void scan_one(void *ctx, struct hash_table_item *item)
{
    struct scan *scan = ctx;
    struct engine *e = scan->engine;
    struct held *held = (struct held *) item;
    const dibs_process who = { .pid = held->pid, .pidns = held->pidns, .start_ticks = held->start_ticks };

    if (held->is_watched && e->n_died > 0 &&
        bsearch(&who, e->died, e->n_died, sizeof *e->died, compare_processes)) {
        held->is_watched = false; /* the watch has dropped the dead process */
        held->has_died = true;
        held->judge_ms = 0;
    }
    if (held->judge_ms > scan->now_ms || scan->n == DUE_MAX)
        engine_judge_at(e, held, held->judge_ms);
    else
        scan->due[scan->n++] = held;
}

static void find_due(struct engine *e, struct scan *scan)
{
    int64_t began_us = clock_monotonic_us();

    if ((e->n_died == 0 && scan->now_ms < e->judge_ms) || began_us < e->scan_us)
        return;
    e->judge_ms = INT64_MAX;
    if (e->n_died > 1)
        qsort(e->died, e->n_died, sizeof *e->died, compare_processes);
    hash_table_each(&e->claims, scan_one, scan);
    e->n_died = 0;
    int64_t now_us = clock_monotonic_us();
    e->scan_us = now_us + SCAN_SHARE * (now_us - began_us);
}

/* Keep the claim of a dead holder for now. All lingering claims are judged again at the same time. */
static void linger(struct engine *e, struct held *held, int64_t now_ms)
{
    held->is_lingering = true;
    engine_judge_at(e, held, (now_ms / LINGER_MS + 1) * LINGER_MS);
}

/* Read the claim and judge its holder. */
static bool is_dead(struct engine *e, const struct call *reading, struct core_sockets *sockets,
                    struct held *held, dibs_claim *claim)
{
    int64_t now_ms = reading->now.boot_ms;
    dibs_status s = ledger_find_id(e->ledger, reading, held->item.hash, claim, NULL);

    held->is_lingering = false;
    held->judge_ms = INT64_MAX;
    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && claim->generation != held->generation))
        return false; /* the event of its change has not been read yet */
    dibs_life life = s != DIBS_OK     ? DIBS_UNKNOWN
                     : held->has_died ? core_judge_without_holder(e->core, sockets, claim, NULL)
                                      : core_judge(e->core, reading, sockets, claim, NULL);
    if (life == DIBS_DEAD)
        return true;
    if (s == DIBS_OK && claim->holder == DIBS_HELD_BY_LEASE && claim->lease_until_ms > now_ms)
        engine_judge_at(e, held, claim->lease_until_ms);
    else
        linger(e, held, now_ms);
    return false;
}

/* Leave in `scan` the claims whose holders are dead, and in `seen` the evidence. */
static void judge_due(struct engine *e, const struct call *call, struct scan *scan, struct ledger_seen *seen)
{
    struct call reading = *call;
    size_t n = 0;
    /* Without memory the sockets of each port are read separately. */
    AUTO(free_auto) struct core_sockets *sockets = scan->n > 1 ? calloc(1, sizeof *sockets) : NULL;

    if (scan->n > 1)
        reading.tx = ledger_begin_read(e->ledger, call, NULL); /* NULL: separate reads */
    for (size_t i = 0; i < scan->n; i++) {
        dibs_claim claim;

        if (!is_dead(e, &reading, sockets, scan->due[i], &claim))
            continue;
        seen[n] = (struct ledger_seen){ claim.id, claim.generation, claim.lease_until_ms };
        scan->due[n++] = scan->due[i];
    }
    scan->n = n;
    ledger_rollback(reading.tx);
}

/* Apply the ends of the reaped claims: the index must know at once that those ports cool down (INV-8). Each
 * claim has written one change; more belong to a failed attempt. */
static void follow_reaped(struct engine *e, size_t n, int64_t now_ms)
{
    if (e->n_written != n || n > WRITTEN_MAX) {
        engine_follow(e);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (e->written[i].event.kind == DIBS_EV_REAPED)
            core_index_note_end(e->core, &e->written[i].claim, now_ms);
    engine_follow_group(e, &(struct ledger_span){ .before = e->written[0].event.seq - 1,
                                                  .after = e->written[n - 1].event.seq });
}

static void upkeep(struct engine *e, const struct call *call)
{
    size_t damaged = 0;

    if (clock_monotonic_ms() < e->upkeep_ms)
        return;
    e->upkeep_ms = clock_monotonic_ms() + UPKEEP_EVERY_MS;
    if (ledger_upkeep(e->ledger, call, &damaged, NULL) == DIBS_OK) {
        e->counts.damaged += damaged > e->n_damaged ? damaged - e->n_damaged : 0;
        e->n_damaged = damaged;
    }
    engine_follow(e);
}

/* End the claims in one transaction; if that fails, each alone, because one damaged record must not keep the
 * others (INV-6). Judge those that stay later: the ledger may be locked or full. */
static size_t end_due(struct engine *e, const struct call *call, struct scan *scan,
                      const struct ledger_seen *seen)
{
    struct ledger_ending all = { seen, scan->n, LEDGER_END_REAP };
    dibs_err err = { 0 };
    size_t n = 0;
    size_t ended = 0;

    if (ledger_end(e->ledger, call, &all, &ended, &err) == DIBS_OK)
        return ended;
    group_commit_note_failure(e->group, &err);
    for (size_t i = 0; i < scan->n; i++, ended = 0) {
        struct ledger_ending one = { &seen[i], 1, LEDGER_END_REAP };

        if (scan->n > 1 && clock_monotonic_ms() < call->deadline_ms &&
            ledger_end(e->ledger, call, &one, &ended, NULL) == DIBS_OK)
            n += ended;
        else
            linger(e, scan->due[i], call->now.boot_ms);
    }
    return n;
}

void engine_reap(struct engine *e)
{
    struct ledger_seen seen[DUE_MAX];
    const struct call call = handle_call(e->handle);
    int64_t now_ms = call.now.boot_ms;
    struct scan scan = { .engine = e, .now_ms = now_ms };
    size_t ended = 0;

    if (e->options.only_looks) {
        e->n_died = 0;
        e->judge_ms = INT64_MAX;
        return;
    }
    find_due(e, &scan);
    if (scan.n > 0)
        judge_due(e, &call, &scan, seen);
    e->n_written = 0;
    if (scan.n > 0)
        ended = end_due(e, &call, &scan, seen);
    e->counts.reaped += ended;
    if (ended > 0)
        follow_reaped(e, ended, now_ms);
    upkeep(e, &call);
}
