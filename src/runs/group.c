/* SPDX-License-Identifier: MIT */
#include "runs/group.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "runs/record.h"
#include "runs/tree.h"

#include "base/banned.h"

static dibs_status find(const struct run_group *group, struct process_view *view, struct process_list *out)
{
    const struct run_root root = { .pid = group->leader, .is_group = true };
    dibs_status s = process_view_load(view, NULL);

    return s == DIBS_OK ? run_tree_find(view, &root, out, NULL) : s;
}

void run_group_free(struct run_group *group)
{
    if (group->asked)
        run_asked_free(group->asked);
    free(group->asked);
    group->asked = NULL;
}

static void ask(struct run_group *group, const struct process_view *view, const struct process_entry *process)
{
    if (!group->asked)
        group->asked = calloc(1, sizeof *group->asked);
    if (group->asked && run_asked_add(group->asked, process))
        (void) process_signal(view, process->pid, process->start_ticks, SIGTERM, NULL);
}

size_t run_group_count(const struct run_group *group)
{
    AUTO(process_list_free) struct process_list tree = { 0 };
    struct process_view view;

    return find(group, &view, &tree) == DIBS_OK ? tree.n : SIZE_MAX;
}

size_t run_group_ask_left(struct run_group *group)
{
    AUTO(process_list_free) struct process_list tree = { 0 };
    struct process_view view;

    if (find(group, &view, &tree) != DIBS_OK)
        return SIZE_MAX;
    for (size_t i = 0; i < tree.n; i++)
        if (!run_tree_has_parent(&tree, &tree.all[i]))
            ask(group, &view, &tree.all[i]);
    return tree.n;
}

void run_group_ask_ignoring(struct run_group *group, int ignored)
{
    AUTO(process_list_free) struct process_list tree = { 0 };
    struct process_view view;

    if (find(group, &view, &tree) != DIBS_OK)
        return;
    for (size_t i = 0; i < tree.n; i++)
        if (process_ignores(tree.all[i].pid, ignored))
            ask(group, &view, &tree.all[i]);
}

size_t run_group_kill(const struct run_group *group)
{
    AUTO(process_list_free) struct process_list tree = { 0 };
    struct process_view view;

    if (find(group, &view, &tree) != DIBS_OK)
        return SIZE_MAX;
    for (size_t i = 0; i < tree.n; i++)
        (void) process_signal(&view, tree.all[i].pid, tree.all[i].start_ticks, SIGKILL, NULL);
    return tree.n;
}

size_t run_count_marked(const char *id)
{
    AUTO(process_list_free) struct process_list list = { 0 };
    struct process_view view;
    size_t n = 0;

    if (process_view_load(&view, NULL) != DIBS_OK ||
        process_list_read(&view, RUN_VARIABLE, id, &list, NULL) != DIBS_OK)
        return SIZE_MAX;
    for (size_t i = 0; i < list.n; i++)
        n += list.all[i].is_marked;
    return n;
}
