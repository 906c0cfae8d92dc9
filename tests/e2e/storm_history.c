/* SPDX-License-Identifier: MIT */
#include "storm_history.h"

#include <fcntl.h>
#include <sys/mman.h>

/* The ways in which a claim may be bound; they conflict in part. */
const struct mix_kind mix_kinds[MIX_KINDS] = {
    { 1, { { DIBS_TCP, { .len = 16 } } } },
    { 1, { { DIBS_TCP, { .len = 4, .bytes = { 127, 0, 0, 1 } } } } },
    { 1, { { DIBS_TCP, { .len = 4, .bytes = { 127, 0, 0, 2 } } } } },
    { 1, { { DIBS_TCP, { .len = 16, .bytes = { [15] = 1 } } } } },
    { 1, { { DIBS_UDP, { .len = 16 } } } },
    { 1, { { DIBS_UDP, { .len = 4, .bytes = { 127, 0, 0, 1 } } } } },
    { 1, { { DIBS_UDP, { .len = 4, .bytes = { 127, 0, 0, 2 } } } } },
    { 2, { { DIBS_TCP, { .len = 16 } }, { DIBS_UDP, { .len = 16 } } } },
    { 2,
      { { DIBS_TCP, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
        { DIBS_TCP, { .len = 16, .bytes = { [15] = 1 } } } } },
};

struct mix *mix_new(size_t n, uint64_t seed)
{
    struct mix *mix = storm_share(sizeof *mix);
    size_t bytes = MIX_RECORDS_MAX * sizeof(struct mix_record);

    if (n < 2 || n > MIX_CLIENTS_MAX)
        storm_die("2 to %d clients", MIX_CLIENTS_MAX);
    mix->n = n;
    mix->seed = seed;
    for (size_t i = 0; i < n; i++) {
        char path[4200];

        (void) snprintf(path, sizeof path, "%s.history.%zu", storm_ledger_path(), i);
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        void *at = MAP_FAILED;
        if (fd >= 0 && ftruncate(fd, (off_t) bytes) == 0)
            at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            storm_die("%s: %s", path, strerror(errno));
        (void) close(fd);
        mix->slots[i].number = (int) i;
        mix->slots[i].records = at;
    }
    return mix;
}

struct mix_record *mix_next(struct mix_slot *slot)
{
    if (slot->n_records == MIX_RECORDS_MAX)
        storm_die("the history of client %d is full", slot->number);
    return &slot->records[slot->n_records++];
}

/* ---- the checker ---- */

/* The certain life of one token: from the answer that brought it to the first moment it may have ended. */
struct life {
    uint64_t token;
    int64_t from_ns, to_ns;
    int slot;
    uint16_t port;
    uint8_t kind;
};

struct lives {
    struct life *item;
    size_t n, max;
    size_t n_done, n_cut; /* records with an answer, and without */
};

static int64_t death_of(const struct mix *mix, int slot, uint32_t incarnation)
{
    int64_t killed = mix->slots[slot].killed_ns[incarnation];

    return killed ? killed : INT64_MAX;
}

static void add_life(struct lives *lives, struct life life)
{
    if (lives->n == lives->max)
        storm_die("too many lives");
    lives->item[lives->n++] = life;
}

static void collect_births(const struct mix *mix, const struct mix_slot *slot, struct lives *lives)
{
    for (size_t i = 0; i < slot->n_records; i++) {
        const struct mix_record *r = &slot->records[i];

        lives->n_done += atomic_load(&r->state) == MIX_DONE;
        lives->n_cut += atomic_load(&r->state) == MIX_BEGUN;
        if (atomic_load(&r->state) != MIX_DONE || r->status != DIBS_OK)
            continue;
        if (r->op == MIX_CLAIM)
            add_life(lives,
                     (struct life){ r->token, r->end_ns,
                                    r->until_ns ? r->until_ns : death_of(mix, slot->number, r->incarnation),
                                    slot->number, r->port, r->kind });
        else if (r->op == MIX_TRANSFER && r->is_heir_sure)
            add_life(lives,
                     (struct life){ r->new_token, r->end_ns, death_of(mix, r->heir_slot, r->heir_incarnation),
                                    r->heir_slot, r->port, r->kind });
    }
}

static int by_token(const void *a, const void *b)
{
    const struct life *x = a;
    const struct life *y = b;

    if (x->token != y->token)
        return x->token < y->token ? -1 : 1;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static struct life *find_life(const struct lives *lives, uint64_t token)
{
    size_t low = 0;
    size_t high = lives->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (lives->item[middle].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lives->n && lives->item[low].token == token ? &lives->item[low] : NULL;
}

/* A name asked for again brings the same token twice: one life. */
static void merge_same(struct lives *lives)
{
    size_t kept = 0;

    for (size_t i = 0; i < lives->n; i++)
        if (kept == 0 || lives->item[kept - 1].token != lives->item[i].token)
            lives->item[kept++] = lives->item[i];
    lives->n = kept;
}

/* Renewals come before the ends: a lease lives as long as the last one says, then the first end cuts it. */
static void apply(const struct mix_slot *slot, const struct lives *lives, bool is_renewal)
{
    for (size_t i = 0; i < slot->n_records; i++) {
        const struct mix_record *r = &slot->records[i];
        bool is_cut = atomic_load(&r->state) == MIX_BEGUN; /* it may have happened */
        struct life *life = r->token ? find_life(lives, r->token) : NULL;

        if (!life || atomic_load(&r->state) == MIX_NONE || r->op == MIX_CLAIM)
            continue;
        if (is_renewal && r->op == MIX_RENEW && !is_cut && r->status == DIBS_OK && r->until_ns > life->to_ns)
            life->to_ns = r->until_ns;
        if (!is_renewal && r->op != MIX_RENEW && (is_cut || r->status == DIBS_OK) &&
            r->start_ns < life->to_ns)
            life->to_ns = r->start_ns;
    }
}

static bool do_conflict(uint8_t a, uint8_t b)
{
    const struct mix_kind *x = &mix_kinds[a];
    const struct mix_kind *y = &mix_kinds[b];

    for (size_t i = 0; i < x->n; i++)
        for (size_t k = 0; k < y->n; k++)
            if (x->bindings[i].proto == y->bindings[k].proto &&
                dibs_address_conflict(&x->bindings[i].address, &y->bindings[k].address))
                return true;
    return false;
}

static int by_port_and_time(const void *a, const void *b)
{
    const struct life *x = a;
    const struct life *y = b;

    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* Against those of the same port that are still alive when it begins; `alive` is compacted on the way. */
static size_t compare(const struct life *life, const struct life **alive, size_t n, size_t *n_beside)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        const struct life *other = alive[i];

        if (other->to_ns <= life->from_ns)
            continue;
        alive[kept++] = other;
        if (!do_conflict(other->kind, life->kind))
            ++*n_beside;
        else
            storm_violation("two at once on port %u: client %d (kind %u, %lld-%lld) and client %d (kind %u, "
                            "%lld-%lld)",
                            life->port, other->slot, other->kind, (long long) other->from_ns,
                            (long long) other->to_ns, life->slot, life->kind, (long long) life->from_ns,
                            (long long) life->to_ns);
    }
    return kept;
}

void mix_check(const struct mix *mix)
{
    enum { ALIVE_MAX = 4096 };
    static const struct life *alive[ALIVE_MAX];
    struct lives lives = { 0 };
    size_t n_alive = 0;
    size_t n_beside = 0;

    for (size_t i = 0; i < mix->n; i++)
        lives.max += mix->slots[i].n_records;
    lives.item = calloc(lives.max + 1, sizeof *lives.item);
    if (!lives.item)
        storm_die("out of memory");
    for (size_t i = 0; i < mix->n; i++)
        collect_births(mix, &mix->slots[i], &lives);
    qsort(lives.item, lives.n, sizeof lives.item[0], by_token);
    merge_same(&lives);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < mix->n; i++)
            apply(&mix->slots[i], &lives, pass == 0);
    qsort(lives.item, lives.n, sizeof lives.item[0], by_port_and_time);
    for (size_t i = 0; i < lives.n; i++) {
        if (i > 0 && lives.item[i - 1].port != lives.item[i].port)
            n_alive = 0;
        n_alive = compare(&lives.item[i], alive, n_alive, &n_beside);
        if (n_alive < ALIVE_MAX && lives.item[i].to_ns > lives.item[i].from_ns)
            alive[n_alive++] = &lives.item[i];
    }
    printf("  %zu calls answered, %zu cut off by SIGKILL, %zu processes killed\n", lives.n_done, lives.n_cut,
           mix->n_killed);
    printf("  %zu claims lived, %zu times one beside another on the same port without conflict\n", lives.n,
           n_beside);
    if (lives.n < 100 || n_beside == 0)
        storm_violation("the storm was too small to show anything");
    free(lives.item);
}
