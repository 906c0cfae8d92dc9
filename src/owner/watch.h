/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OWNER_WATCH_H
#define DIBS_OWNER_WATCH_H
/* Who dies, told at once: one pidfd for each process, on a loop.
 *
 * Processes that get no pidfd (more of them than descriptors, or nothing certain to be known of them) are
 * looked at in turn by a timer, which does not run while there are none. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"
#include "owner/owner.h"

/* Descriptors that are left to connections and files when the budget follows the limit of the process; of a
 * low limit, half. */
#define WATCH_RESERVE 4096
/* Within this time each process that has no pidfd is looked at once. */
#define WATCH_ROUND_MS 1000
/* How often one of those is looked for of whom nothing certain is known: each costs a walk over /proc. */
#define WATCH_FAR_MS 2000

struct watch;

struct watch_options {
    struct loop *loop;
    const struct owner_view *view; /* borrowed, as the loop is */
    size_t budget;                 /* pidfds; 0: as the limit of the process allows, once it is raised */
    /* Called from within loop_turn(), once for each process, however often it was added. It is not watched
     * any more then. May call watch_add() and watch_drop(). */
    void (*died)(void *ctx, const dibs_process *who);
    void *ctx;
};

dibs_status watch_open(const struct watch_options *options, struct watch **out, dibs_err *err);
void watch_close(struct watch *watch); /* NULL is fine */

/* One claim more that this process holds. One that is dead already is told by died() in the next turn. Fails
 * for want of memory alone. */
dibs_status watch_add(struct watch *watch, const dibs_process *who, dibs_err *err);
/* One claim less; after the last the process is forgotten. One that is not watched: nothing happens. */
void watch_drop(struct watch *watch, const dibs_process *who);

/* The facts of a process of our own pid namespace that is watched and lives at this moment: `pid` is still
 * that process. What it can change itself (uid, command, network namespace) is as it was when first asked for
 * here: look again before it is refused something because of that. False: nothing is known of it. `netns` is
 * 0 when it cannot be told. */
bool watch_knows(struct watch *watch, pid_t pid, struct owner_facts *out, uint64_t *netns);
/* A moment of the watch, for this: as watch_knows(), and it was watched already at that moment, so that
 * nobody else has had its pid since then. */
uint64_t watch_moment(const struct watch *watch);
bool watch_knew(struct watch *watch, pid_t pid, uint64_t moment, struct owner_facts *out, uint64_t *netns);

struct watch_counts {
    size_t by_pidfd;
    size_t in_turn; /* without a pidfd for want of descriptors */
    size_t far;     /* nothing certain is known of them */
};
struct watch_counts watch_count(const struct watch *watch);
#endif
