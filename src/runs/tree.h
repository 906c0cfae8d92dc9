/* SPDX-License-Identifier: MIT */
#ifndef DIBS_RUNS_TREE_H
#define DIBS_RUNS_TREE_H
/* The processes that a command of `dibs run` has started. */
#include "host/process_list.h"

struct run_root {
    pid_t pid;
    uint64_t start_ticks;
    bool is_group;  /* it leads a process group of its own, and is a living process or an unreaped one */
    const char *id; /* processes with this id in their environment belong to it, too; NULL: not looked for */
    const struct process_list *known; /* its tree a moment ago, whose parents may have ended; NULL: none */
};
/* List the living processes of the tree by pid: the root, its process group, processes with its id, those
 * that are known, and whatever descends from these. dibs itself is never one. The caller frees the list. */
dibs_status run_tree_find(const struct process_view *view, const struct run_root *root,
                          struct process_list *out, dibs_err *err);
/* Processes that have received a signal, each of which gets it once. Zero: none. */
struct run_asked {
    struct process_entry *all;
    size_t n, max;
};
/* Add the process. False: it is there already, or there is no memory. */
bool run_asked_add(struct run_asked *asked, const struct process_entry *process);
void run_asked_free(struct run_asked *asked);

/* Is the parent of this process in the list? */
bool run_tree_has_parent(const struct process_list *tree, const struct process_entry *process);
#endif
