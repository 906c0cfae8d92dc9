/* SPDX-License-Identifier: MIT */
#include "daemon/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/text.h"

#include "base/banned.h"

/* Buckets by id and by process: ids are consecutive, so that a plain remainder spreads them. At 50,000 claims
 * a bucket has three. */
enum { BUCKETS = 16384, TEXT_BUCKETS = 256, HEAP_BEGINS = 64 };

struct text {
    struct text *next;
    char text[];
};

struct held_table {
    struct held *bucket[BUCKETS];
    struct held *owner[BUCKETS];
    struct text *texts[TEXT_BUCKETS]; /* of principals and pools: few, and never dropped */
    struct held **heap;               /* from place 1 */
    size_t n_heap, max_heap;
    size_t n;
    /* By kind: on different addresses a port may have several claims. */
    uint32_t n_on_port[DIBS_STATIC + 1][DIBS_PORT_MAX + 1];
    struct portbits ports[DIBS_STATIC + 1];
};

dibs_status held_open(struct held_table **out, dibs_err *err)
{
    struct held_table *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "watching claims: out of memory");
    *out = self;
    return DIBS_OK;
}

void held_close(struct held_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        struct held *held = table->bucket[i];

        while (held) {
            struct held *next = held->next;

            free(held);
            held = next;
        }
    }
    for (size_t i = 0; i < TEXT_BUCKETS; i++) {
        struct text *text = table->texts[i];

        while (text) {
            struct text *next = text->next;

            free(text);
            text = next;
        }
    }
    free(table->heap);
    free(table);
}

/* The same text is kept once; "" when there is no memory for it. */
static const char *keep_text(struct held_table *table, const char *text)
{
    size_t size = strlen(text) + 1;
    struct text **bucket = &table->texts[hash_fnv1a(HASH_FNV_BASIS, text, size) % TEXT_BUCKETS];

    for (struct text *known = *bucket; known; known = known->next)
        if (strcmp(known->text, text) == 0)
            return known->text;
    struct text *fresh = malloc(sizeof *fresh + size);
    if (!fresh)
        return "";
    fresh->next = *bucket;
    memcpy(fresh->text, text, size);
    *bucket = fresh;
    return fresh->text;
}

/* ---- processes ---- */

static struct held **owner_bucket(struct held_table *table, int32_t pid, uint64_t start_ticks)
{
    uint64_t hash = (uint64_t) pid * 0x9e3779b97f4a7c15u ^ start_ticks;

    return &table->owner[hash % BUCKETS];
}

static bool is_same_owner(const struct held *a, int32_t pid, uint64_t pidns, uint64_t start_ticks)
{
    return a->pid == pid && a->pidns == pidns && a->start_ticks == start_ticks;
}

static struct held **owner_place(struct held_table *table, int32_t pid, uint64_t pidns, uint64_t start_ticks)
{
    struct held **place = owner_bucket(table, pid, start_ticks);

    while (*place && !is_same_owner(*place, pid, pidns, start_ticks))
        place = &(*place)->next_owner;
    return place;
}

struct held *held_of(struct held_table *table, const dibs_process *who)
{
    return *owner_place(table, who->pid, who->pidns, who->start_ticks);
}

static void join_owner(struct held_table *table, struct held *held)
{
    struct held **place = owner_place(table, held->pid, held->pidns, held->start_ticks);
    struct held *first = *place;

    held->next_owner = held->more = held->less = NULL;
    if (!first) {
        *place = held;
        return;
    }
    held->less = first;
    held->more = first->more;
    if (held->more)
        held->more->less = held;
    first->more = held;
}

static void leave_owner(struct held_table *table, struct held *held)
{
    if (held->less) {
        held->less->more = held->more;
    } else { /* the next of the process takes its place in the bucket */
        struct held **place = owner_place(table, held->pid, held->pidns, held->start_ticks);

        if (held->more)
            held->more->next_owner = held->next_owner;
        *place = held->more ? held->more : held->next_owner;
    }
    if (held->more)
        held->more->less = held->less;
    held->more = held->less = held->next_owner = NULL;
}

void held_process(const struct held *held, const char *boot_id, dibs_process *out)
{
    *out = (dibs_process){ .pid = held->pid, .pidns = held->pidns, .start_ticks = held->start_ticks };
    (void) text_copy(out->boot_id, sizeof out->boot_id, boot_id);
}

/* ---- leases ---- */

static void put_at(struct held_table *table, size_t at, struct held *held)
{
    table->heap[at] = held;
    held->at = (uint32_t) at;
}

static void sift(struct held_table *table, size_t at)
{
    struct held *held = table->heap[at];

    while (at > 1 && table->heap[at / 2]->until_ms > held->until_ms) {
        put_at(table, at, table->heap[at / 2]);
        at /= 2;
    }
    for (size_t child = 2 * at; child <= table->n_heap; child = 2 * at) {
        if (child < table->n_heap && table->heap[child + 1]->until_ms < table->heap[child]->until_ms)
            child++;
        if (table->heap[child]->until_ms >= held->until_ms)
            break;
        put_at(table, at, table->heap[child]);
        at = child;
    }
    put_at(table, at, held);
}

static bool start_waiting(struct held_table *table, struct held *held)
{
    if (table->n_heap + 1 >= table->max_heap) {
        size_t max = table->max_heap ? 2 * table->max_heap : HEAP_BEGINS;
        struct held **larger = realloc(table->heap, max * sizeof(struct held *));

        if (!larger)
            return false;
        table->heap = larger;
        table->max_heap = max;
    }
    put_at(table, ++table->n_heap, held);
    sift(table, held->at);
    return true;
}

void held_stop_waiting(struct held_table *table, struct held *held)
{
    size_t at = held->at;

    if (at == 0)
        return;
    held->at = 0;
    struct held *last = table->heap[table->n_heap--];
    if (last == held)
        return;
    put_at(table, at, last);
    sift(table, at);
}

struct held *held_first_lease(const struct held_table *table)
{
    return table->n_heap > 0 ? table->heap[1] : NULL;
}

/* ---- claims ---- */

static struct held **place_of(struct held_table *table, uint64_t id)
{
    struct held **place = &table->bucket[id % BUCKETS];

    while (*place && (*place)->id != id)
        place = &(*place)->next;
    return place;
}

struct held *held_find(struct held_table *table, uint64_t id)
{
    return *place_of(table, id);
}

static void count_port(struct held_table *table, const struct held *held)
{
    if (table->n_on_port[held->is_static][held->port]++ == 0)
        portbits_add(&table->ports[held->is_static], held->port);
}

static void uncount_port(struct held_table *table, const struct held *held)
{
    if (--table->n_on_port[held->is_static][held->port] == 0)
        portbits_remove(&table->ports[held->is_static], held->port);
}

static void detach(struct held_table *table, struct held *held)
{
    uncount_port(table, held);
    held_stop_waiting(table, held);
    if (held->holder == DIBS_HELD_BY_PROCESS)
        leave_owner(table, held);
}

struct held *held_put(struct held_table *table, const dibs_claim *claim, struct held *was)
{
    struct held **place = place_of(table, claim->id);
    struct held *held = *place;

    if (was)
        *was = held ? *held : (struct held){ 0 };
    if (held) {
        detach(table, held);
    } else {
        held = calloc(1, sizeof *held);
        if (!held)
            return NULL;
        *place = held;
        table->n++;
    }
    held->id = claim->id;
    held->generation = claim->generation;
    held->port = claim->port;
    held->is_static = claim->kind == DIBS_STATIC;
    held->is_due = held->has_died = false;
    held->holder = (uint8_t) claim->holder;
    held->principal = keep_text(table, claim->principal);
    held->pool = keep_text(table, claim->pool);
    held->until_ms = claim->lease_until_ms;
    held->pid = claim->process.pid;
    held->pidns = claim->process.pidns;
    held->start_ticks = claim->process.start_ticks;
    count_port(table, held);
    if (claim->holder == DIBS_HELD_BY_PROCESS)
        join_owner(table, held);
    if (claim->holder == DIBS_HELD_BY_LEASE && !start_waiting(table, held)) {
        held_remove(table, held);
        return NULL;
    }
    return held;
}

void held_remove(struct held_table *table, struct held *held)
{
    struct held **place = place_of(table, held->id);

    detach(table, held);
    *place = held->next;
    table->n--;
    free(held);
}

void held_each(const struct held_table *table, void (*fn)(void *ctx, const struct held *held), void *ctx)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct held *held = table->bucket[i]; held; held = held->next)
            fn(ctx, held);
}

size_t held_count(const struct held_table *table)
{
    return table->n;
}

const struct portbits *held_ports(const struct held_table *table, dibs_kind kind)
{
    return &table->ports[kind];
}
