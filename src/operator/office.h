/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_OFFICE_H
#define DIBS_OPERATOR_OFFICE_H
/* Where reviews meet the ledger: those that have come together are decided in one commit, each with its own
 * outcome, and are answered when it is durable (INV-2). Any number of such processes may share a ledger. */
#include "base/loop.h"
#include "operator/admission.h"
#include "operator/pool.h"

struct office;
struct office_job {
    struct office_job *next;
    struct admission admission;
    int64_t deadline_ms;                   /* CLOCK_MONOTONIC; who asked has given up by then */
    int64_t early_ms, again_ms;            /* the office's own: until when it may wait, and from when on */
    void (*done)(struct office_job *self); /* the verdict is there */
};

struct office_options {
    struct loop *loop;
    const dibs_settings *settings; /* copied; the ledger itself is used, never a daemon */
    dibs_pool pool;                /* made if it is missing; what is stored wins */
    bool needs_rebuilt;            /* nothing is claimed before a controller has rebuilt the ledger */
    struct admission_options admission;
};

dibs_status office_open(const struct office_options *options, struct office **out, dibs_err *err);
void office_close(struct office *office); /* NULL is fine; what is queued is refused */
void office_queue(struct office *office, struct office_job *job);
/* Once a turn of the loop: everything that is queued. */
void office_turn(struct office *office);
/* How long the loop may wait; below 0: for ever, nothing is queued. */
int64_t office_next_ms(const struct office *office);
/* UNAVAILABLE: why nothing can be claimed now. */
dibs_status office_check(struct office *office, dibs_err *err);
dibs *office_handle(const struct office *office);
const dibs_pool *office_pool(const struct office *office);

struct office_counts {
    uint64_t commits, jobs;
    uint64_t beaten; /* commits that others came before */
    uint64_t failed; /* reviews that the ledger had no answer for */
};
const struct office_counts *office_count(const struct office *office);
#endif
