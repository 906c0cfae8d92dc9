/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_PROCESS_WATCH_H
#define DIBS_HOST_PROCESS_WATCH_H
/* Report deaths of processes at once: one pidfd for each process, on an event loop.
 *
 * A timer checks the processes without a pidfd (too few descriptors, or their state is unknown) in turn; it
 * does not run while there are none. */
#include <sys/types.h>

#include "base/loop.h"
#include "host/process.h"

/* Descriptors that the default budget leaves for connections and files; of a low limit, half. */
#define WATCH_RESERVE 4096
/* Within this time each process without a pidfd is checked once. */
#define WATCH_ROUND_MS 1000
/* How often one process of unknown state is searched: each search walks over /proc. */
#define WATCH_FAR_MS 2000

struct watch;

struct watch_options {
    struct loop *loop;
    const struct process_view *view; /* borrowed, as the loop is */
    size_t budget;                   /* pidfds; 0: as the limit of the process allows, once it is raised */
    /* Called from within loop_turn(), once for each process, however often it was added; the process is not
     * watched any more. May call watch_add() and watch_drop(). */
    void (*died)(void *ctx, const dibs_process *process);
    void *ctx;
};

dibs_status watch_open(const struct watch_options *options, struct watch **out, dibs_err *err);
void watch_close(struct watch *watch); /* NULL is fine */

/* Count one more claim of this process; died() reports a dead one in the next turn. Fails without memory. */
dibs_status watch_add(struct watch *watch, const dibs_process *process, dibs_err *err);
/* Count one claim less; after the last the process is not watched any more. Ignores unknown processes. */
void watch_drop(struct watch *watch, const dibs_process *process);

uint64_t watch_moment(const struct watch *watch);
/* Return the facts of a process of our own pid namespace that is alive and was watched already at `moment`
 * (from watch_moment()), so that no other process has had its pid since. Facts that it can change (uid,
 * command) are cached from the first call: read them again before refusing something because of them. */
bool watch_knows(struct watch *watch, pid_t pid, uint64_t moment, struct process_facts *out);

struct watch_counts {
    size_t by_pidfd;
    size_t in_turn; /* without a pidfd for lack of descriptors */
    size_t far;     /* their state is unknown */
};
struct watch_counts watch_count(const struct watch *watch);
#endif
