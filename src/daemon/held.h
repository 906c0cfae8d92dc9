/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_HELD_H
#define DIBS_DAEMON_HELD_H
/* What a daemon remembers of every claim: as little as is needed to end it in time and to count it. Claims of
 * one process hang together, leases stand in a heap by their end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"
#include "net/portbits.h"

struct held {
    uint64_t id, generation;
    int64_t until_ms; /* of a lease, CLOCK_BOOTTIME */
    uint64_t pidns, start_ticks;
    int32_t pid;
    uint16_t port;
    bool is_static;
    bool is_due;              /* its holder is to be looked at: */
    bool has_died;            /* ... its process, certainly */
    uint8_t holder;           /* dibs_holder */
    uint32_t at;              /* place in the heap, from 1; 0: not there */
    const char *principal;    /* kept once for all */
    const char *pool;         /* the same; "" for a port outside of every pool */
    struct held *next;        /* of the same bucket */
    struct held *more, *less; /* of the same process: the next and the one before */
    struct held *next_owner;  /* of the first of a process: bucket of processes */
};

struct held_table;

dibs_status held_open(struct held_table **out, dibs_err *err);
void held_close(struct held_table *table); /* NULL is fine */

struct held *held_find(struct held_table *table, uint64_t id);
/* Puts the claim in, or brings what is known of it up to date; *was (may be NULL) gets what it was before,
 * id 0: nothing. NULL: no memory. */
struct held *held_put(struct held_table *table, const dibs_claim *claim, struct held *was);
void held_remove(struct held_table *table, struct held *held);

/* The process of a holder; boot_id is that of this boot. */
void held_process(const struct held *held, const char *boot_id, dibs_process *out);
/* The claims of a process, through `more`. */
struct held *held_of(struct held_table *table, const dibs_process *who);
/* The lease that ends first; NULL: there is none. */
struct held *held_first_lease(const struct held_table *table);
/* It is not waited for any more. */
void held_stop_waiting(struct held_table *table, struct held *held);
/* Every claim, in no order; fn must not change the table. */
void held_each(const struct held_table *table, void (*fn)(void *ctx, const struct held *held), void *ctx);
size_t held_count(const struct held_table *table);
/* Ports that some claim of this kind has. */
const struct portbits *held_ports(const struct held_table *table, dibs_kind kind);
#endif
