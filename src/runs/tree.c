/* SPDX-License-Identifier: MIT */
#include "runs/tree.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/grow.h"
#include "runs/record.h"

#include "base/banned.h"

static int by_pid(const void *a, const void *b)
{
    const struct process_entry *x = a;
    const struct process_entry *y = b;

    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static struct process_entry *find(const struct process_list *list, pid_t pid)
{
    const struct process_entry wanted = { .pid = pid };

    return list->n ? bsearch(&wanted, list->all, list->n, sizeof *list->all, by_pid) : NULL;
}

static bool is_known(const struct run_root *root, const struct process_entry *process)
{
    const struct process_entry *known = root->known ? find(root->known, process->pid) : NULL;

    return known && known->start_ticks == process->start_ticks;
}

bool run_tree_has_parent(const struct process_list *tree, const struct process_entry *process)
{
    return find(tree, process->ppid) != NULL;
}

/* Mark what descends from members. Each pass marks one generation at least. */
static void mark_descendants(struct process_list *list)
{
    bool is_more = true;

    while (is_more) {
        is_more = false;
        for (size_t i = 0; i < list->n; i++) {
            struct process_entry *p = &list->all[i];
            const struct process_entry *parent = p->is_member ? NULL : find(list, p->ppid);

            if (parent && parent->is_member) {
                p->is_member = true;
                is_more = true;
            }
        }
    }
}

dibs_status run_tree_find(const struct process_view *view, const struct run_root *root,
                          struct process_list *out, dibs_err *err)
{
    AUTO(process_list_free) struct process_list list = { 0 };
    dibs_status s = process_list_read(view, RUN_VARIABLE, root->id, &list, err);
    size_t n = 0;

    if (s != DIBS_OK)
        return s;
    if (list.n > 0)
        qsort(list.all, list.n, sizeof *list.all, by_pid);
    for (size_t i = 0; i < list.n; i++) {
        struct process_entry *p = &list.all[i];

        p->is_member = (p->pid == root->pid && p->start_ticks == root->start_ticks) || p->is_marked ||
                       (root->is_group && p->group == root->pid) || is_known(root, p);
    }
    mark_descendants(&list);
    for (size_t i = 0; i < list.n; i++)
        if (list.all[i].is_member && list.all[i].pid != getpid())
            list.all[n++] = list.all[i];
    list.n = n;
    *out = list;
    list.all = NULL;
    return DIBS_OK;
}

bool run_asked_add(struct run_asked *asked, const struct process_entry *process)
{
    for (size_t i = 0; i < asked->n; i++)
        if (asked->all[i].pid == process->pid && asked->all[i].start_ticks == process->start_ticks)
            return false;
    if (!grow((void **) &asked->all, asked->n, &asked->max, sizeof *asked->all))
        return false;
    asked->all[asked->n++] = *process;
    return true;
}

void run_asked_free(struct run_asked *asked)
{
    free(asked->all);
    *asked = (struct run_asked){ 0 };
}
