/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_PROCESS_WATCH_H
#define DIBS_HOST_PROCESS_WATCH_H
/* Report deaths of processes at once: one pidfd for each process, on an event loop.
 *
 * A timer checks in turn the processes without a pidfd (too few descriptors, or unknown state); it runs only
 * while there are any. */
#include <sys/types.h>

#include "base/loop.h"
#include "host/process.h"

/* Descriptors that the default budget leaves for connections and files; half of a low limit. */
#define WATCH_RESERVE 4096
/* Each process without a pidfd is checked once in this time. */
#define WATCH_ROUND_MS 1000
/* How often a process of unknown state is searched for; each search walks over /proc. */
#define WATCH_FAR_MS 2000

struct watch;

struct watch_options {
    struct loop *loop;
    const struct process_view *view; /* borrowed, as is the loop */
    size_t budget;                   /* most pidfds; 0: as the raised limit of descriptors allows */
    size_t reserve;                  /* so many descriptors are left then for another use */
    /* Called from loop_turn() once per process, however often it was added; the process is not watched any
     * more. May call watch_add() and watch_drop(). */
    void (*died)(void *ctx, const dibs_process *process);
    void *ctx;
};

dibs_status watch_open(const struct watch_options *options, struct watch **out, dibs_err *err);
void watch_close(struct watch *watch); /* NULL is fine */

/* Add a claim of this process; died() reports a dead one in the next turn. Fails only without memory. */
dibs_status watch_add(struct watch *watch, const dibs_process *process, dibs_err *err);
/* Remove a claim; after the last one the process is not watched any more. Ignores unknown processes. */
void watch_drop(struct watch *watch, const dibs_process *process);

uint64_t watch_moment(const struct watch *watch);
/* Return the facts of a process of our own pid namespace that is alive and was already watched at `moment`
 * (from watch_moment()), so that its pid was not reused since. Facts that can change (uid, command) are
 * cached from the first call: read them again before refusing something because of them. */
bool watch_knows(struct watch *watch, pid_t pid, uint64_t moment, struct process_facts *out);

struct watch_counts {
    size_t by_pidfd;
    size_t in_turn; /* without a pidfd for lack of descriptors */
    size_t far;     /* of unknown state */
};
struct watch_counts watch_count(const struct watch *watch);
#endif
