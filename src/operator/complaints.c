/* SPDX-License-Identifier: MIT */
#include "operator/complaints.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "kubeapi/event.h"
#include "operator/table.h"

#include "base/banned.h"

struct memory {
    uint64_t hash; /* 0: empty */
    int64_t until_ms;
};

struct complaints {
    struct complaint waiting[COMPLAINTS_WAITING_MAX];
    size_t head, n;
    struct memory told[COMPLAINTS_REMEMBERED];
    size_t n_told;
    int64_t budget_ms; /* an Event costs COMPLAINTS_EVERY_MS of it */
    int64_t filled_ms;
};

struct complaints *complaints_new(void)
{
    struct complaints *all = calloc(1, sizeof *all);

    if (all)
        all->budget_ms = (int64_t) COMPLAINTS_AT_ONCE * COMPLAINTS_EVERY_MS;
    return all;
}

void complaints_free(struct complaints *all)
{
    free(all);
}

/* Was it told within the hour? From now on it was. */
static bool is_known(struct complaints *all, uint64_t hash, int64_t now_ms)
{
    struct memory *m = NULL;

    for (size_t i = 0; i < all->n_told && !m; i++)
        if (all->told[i].hash == hash)
            m = &all->told[i];
    if (m && now_ms < m->until_ms)
        return true;
    if (!m) {
        if (all->n_told == COMPLAINTS_REMEMBERED)
            all->n_told = 0;
        m = &all->told[all->n_told++];
    }
    *m = (struct memory){ hash, now_ms + COMPLAINTS_AGAIN_MS };
    return false;
}

void complaints_add(struct complaints *all, const struct complaint *one, unsigned number, int64_t now_ms)
{
    uint64_t hash = hash_fnv1a(table_hash(one->uid, one->reason), &number, sizeof number);

    if (all->n == COMPLAINTS_WAITING_MAX || is_known(all, hash, now_ms))
        return;
    all->waiting[(all->head + all->n++) % COMPLAINTS_WAITING_MAX] = *one;
}

static void fill(struct complaints *all, int64_t now_ms)
{
    int64_t most_ms = (int64_t) COMPLAINTS_AT_ONCE * COMPLAINTS_EVERY_MS;

    if (all->filled_ms > 0)
        all->budget_ms += now_ms - all->filled_ms;
    if (all->budget_ms > most_ms)
        all->budget_ms = most_ms;
    all->filled_ms = now_ms;
}

void complaints_turn(struct complaints *all, struct kubeapi *api, int64_t now_ms)
{
    fill(all, now_ms);
    while (all->n > 0 && all->budget_ms >= COMPLAINTS_EVERY_MS) {
        const struct complaint *one = &all->waiting[all->head];

        (void) kubeapi_event_send(api, &(struct kubeapi_event){ .api_version = "v1",
                                                                .kind = one->kind,
                                                                .ns = one->ns,
                                                                .name = one->name,
                                                                .uid = one->uid,
                                                                .reason = one->reason,
                                                                .message = one->message,
                                                                .component = "dibs-controller",
                                                                .wall_ms = clock_now(0).wall_ms });
        all->head = (all->head + 1) % COMPLAINTS_WAITING_MAX;
        all->n--;
        all->budget_ms -= COMPLAINTS_EVERY_MS;
    }
}

int64_t complaints_next_ms(const struct complaints *all, int64_t now_ms)
{
    if (all->n == 0)
        return -1;
    int64_t ms = COMPLAINTS_EVERY_MS - all->budget_ms - (now_ms - all->filled_ms);
    return ms > 0 ? ms : 0;
}
