/* SPDX-License-Identifier: MIT */
#ifndef DIBS_RUNS_GROUP_H
#define DIBS_RUNS_GROUP_H
/* The process group of a command, while its leader is a child of dibs, living or not yet reaped. */
#include <stddef.h>
#include <sys/types.h>

struct run_asked;
struct run_group {
    pid_t leader;
    struct run_asked *asked; /* processes that have received SIGTERM; NULL: none */
};
void run_group_free(struct run_group *group);

/* Return the number of living processes of the group and of what descends from them; SIZE_MAX: unknown. */
size_t run_group_count(const struct run_group *group);
/* Send SIGTERM, once, to the processes of the group whose parents are not in it: these are left by a leader
 * that has ended. Their children get it from them, or when they have ended. Returns as run_group_count(). */
size_t run_group_ask_left(struct run_group *group);
/* Send SIGTERM, once, to the processes of the group that ignore this signal. */
void run_group_ask_ignoring(struct run_group *group, int ignored);
/* Send SIGKILL to all. Returns as run_group_count(). */
size_t run_group_kill(const struct run_group *group);
/* Return how many processes have this id in their environment; SIZE_MAX: unknown. */
size_t run_count_marked(const char *id);
#endif
