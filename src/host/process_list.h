/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_PROCESS_LIST_H
#define DIBS_HOST_PROCESS_LIST_H
/* All processes of our pid namespace, to find those that one process has started, and to signal them. */
#include "host/process.h"

struct process_entry {
    pid_t pid, ppid, group;
    uint64_t start_ticks; /* with the pid its identity */
    bool is_marked;       /* `mark` is a word of its environment variable */
    bool is_member;       /* free for the caller */
};
struct process_list {
    struct process_entry *all;
    size_t n, max;
    size_t n_ended; /* processes that ended while they were looked at last: their children may be missing */
};
/* List the living processes; zombies are none. `mark` (NULL: none) is looked up among the words, separated
 * by ':', of `variable` in each environment that we may read. The caller frees the list. */
dibs_status process_list_read(const struct process_view *view, const char *variable, const char *mark,
                              struct process_list *out, dibs_err *err);
void process_list_free(struct process_list *list);
/* Send a signal to exactly this process, never to another one with its pid. NOT_FOUND: it has ended; DENIED:
 * we may not. */
dibs_status process_signal(const struct process_view *view, pid_t pid, uint64_t start_ticks, int sig,
                           dibs_err *err);
/* Is there such a process, living or a zombie? */
bool process_is_there(const struct process_view *view, pid_t pid, uint64_t start_ticks);
/* Does the process ignore the signal? False when unknown. */
bool process_ignores(pid_t pid, int sig);
#endif
