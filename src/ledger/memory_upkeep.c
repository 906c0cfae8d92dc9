/* SPDX-License-Identifier: MIT */
/* Upkeep of a memory ledger, and what batches with a key were answered with. */
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/memory_records.h"

#include "base/banned.h"

dibs_status memory_answer_get(struct rows *rows, struct row_answer *answer, dibs_err *err)
{
    const struct row_answer *found = memory_get(memory_of(rows), ANSWERS, answer);

    (void) err;
    if (!found)
        return DIBS_NOT_FOUND;
    *answer = *found;
    return DIBS_OK;
}

dibs_status memory_answer_put(struct rows *rows, const struct row_answer *answer, dibs_err *err)
{
    return memory_put(memory_of(rows), ANSWERS, answer, err);
}

static bool is_old_event(const void *ctx, const void *record)
{
    return ((const struct event_record *) record)->event.seq <= *(const uint64_t *) ctx;
}

static bool is_old_answer(const void *ctx, const void *record)
{
    return ((const struct row_answer *) record)->seq <= *(const uint64_t *) ctx;
}

dibs_status memory_forget_answers(struct rows *rows, uint64_t oldest_seq, dibs_err *err)
{
    return memory_sweep(memory_of(rows), ANSWERS, is_old_answer, &oldest_seq, err);
}

static bool is_old_name(const void *ctx, const void *record)
{
    const struct name_record *name = record;

    return name->row.claim_id == 0 && name->row.used_ms < *(const int64_t *) ctx;
}

struct cooled {
    int64_t before_ms, now_ms;
};

static bool is_cooled(const void *ctx, const void *record)
{
    const struct cooled *c = ctx;
    const struct ledger_slot *slot = record;

    return slot->claim_id == 0 && (slot->released_ms < c->before_ms || slot->released_ms > c->now_ms);
}

static bool is_ended(const void *ctx, const void *record)
{
    struct row_claim key = { .claim.id = ((const struct sighting_record *) record)->seen.id };

    return !memory_get(ctx, CLAIMS, &key);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a;
    int64_t y = *(const int64_t *) b;

    return x < y ? 1 : -(x > y);
}

/* When the `kept`-th newest of the remembered names was used; INT64_MIN when there are fewer. */
static dibs_status oldest_name(const struct memory_tables *self, size_t kept, int64_t *out, dibs_err *err)
{
    const struct memory_table *t = &self->table[NAMES];
    size_t n = 0;

    *out = INT64_MIN;
    if (t->n < kept || kept == 0)
        return DIBS_OK;
    AUTO(free_auto) int64_t *used = calloc(t->n, sizeof *used);
    if (!used)
        return err_trouble(err, DIBS_TROUBLE_FULL, "ledger memory: out of memory");
    for (size_t i = 0; i < t->n; i++) {
        const struct name_record *name = t->item[i];

        if (name->row.claim_id == 0)
            used[n++] = name->row.used_ms;
    }
    qsort(used, n, sizeof *used, newest_first);
    if (n >= kept)
        *out = used[kept - 1];
    return DIBS_OK;
}

dibs_status memory_trim(struct rows *rows, uint64_t oldest_seq, size_t names_kept, int64_t cooled_before_ms,
                        const struct instant *now, dibs_err *err)
{
    struct memory_tables *self = memory_of(rows);
    struct cooled cooled = { .before_ms = cooled_before_ms, .now_ms = now->boot_ms };
    int64_t oldest_ms = 0;
    dibs_status s = memory_sweep(self, EVENTS, is_old_event, &oldest_seq, err);

    if (s == DIBS_OK)
        s = memory_forget_answers(rows, oldest_seq, err);
    if (s == DIBS_OK)
        s = oldest_name(self, names_kept, &oldest_ms, err);
    if (s == DIBS_OK)
        s = memory_sweep(self, NAMES, is_old_name, &oldest_ms, err);
    if (s == DIBS_OK)
        s = memory_sweep(self, SLOTS, is_cooled, &cooled, err);
    if (s == DIBS_OK)
        s = memory_sweep(self, SIGHTINGS, is_ended, self, err);
    return s;
}
