/* SPDX-License-Identifier: MIT */
#include "runs/stop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "runs/tree.h"

#include "base/banned.h"

enum {
    POLL_MS = 50,
    EMPTY_LOOKS = 6,
    KILL_MS = 5000,  /* for processes to end after SIGKILL */
    RUNNER_MS = 3000 /* for dibs to release the claims of an ended command */
};

struct stopping {
    const struct process_view *view;
    const char *directory;
    struct run_stop *all;
    size_t n;
    struct run_asked asked;
    struct process_list *trees; /* of each run, as of the last look */
    size_t n_ended;             /* processes that ended during the last look */
    dibs_err *err;
};

static void send(const struct stopping *s, struct run_stop *stop, const struct process_entry *p, int sig)
{
    if (process_signal(s->view, p->pid, p->start_ticks, sig, NULL) == DIBS_DENIED)
        stop->why = DIBS_DENIED;
}

/* Send SIGTERM, once. */
static void ask(struct stopping *s, struct run_stop *stop, const struct process_entry *p)
{
    if (run_asked_add(&s->asked, p))
        send(s, stop, p, SIGTERM);
}

static bool is_root(const struct run_record *record, const struct process_entry *p)
{
    return p->pid == record->process.pid && p->start_ticks == record->process.start_ticks;
}

static bool has_runner(const struct stopping *s, const struct run_record *record)
{
    return process_signal(s->view, record->runner.pid, record->runner.start_ticks, 0, NULL) == DIBS_OK;
}

static dibs_status find_tree(const struct stopping *s, const struct run_record *record,
                             const struct process_list *known, struct process_list *out)
{
    const dibs_process *process = &record->process;
    bool is_there = process_is_there(s->view, process->pid, process->start_ticks);
    const struct run_root root = { .pid = process->pid,
                                   .start_ticks = process->start_ticks,
                                   /* Without the leader the group's number may be that of another one. */
                                   .is_group = record->is_group && is_there,
                                   .id = record->id,
                                   .known = known };

    return run_tree_find(s->view, &root, out, s->err);
}

/* Does dibs still look after what the command has left? It reaps the command afterwards. */
static bool is_supervised(const struct stopping *s, const struct run_record *record)
{
    return record->is_group && has_runner(s, record) &&
           process_is_there(s->view, record->process.pid, record->process.start_ticks);
}

/* Ask the command; when it has ended, what it has left: those first that have no parent there, since many
 * programs forward signals to their children. */
static void ask_tree(struct stopping *s, struct run_stop *stop, const struct process_list *tree)
{
    bool has_root = false;

    for (size_t i = 0; i < tree->n; i++)
        has_root = has_root || is_root(stop->record, &tree->all[i]);
    for (size_t i = 0; i < tree->n; i++) {
        const struct process_entry *p = &tree->all[i];
        bool is_left = !has_root && !run_tree_has_parent(tree, p);

        if (is_root(stop->record, p) || (is_left && !is_supervised(s, stop->record)))
            ask(s, stop, p);
    }
}

/* Look at all trees. Returns the number of those with living processes. */
static dibs_status look(struct stopping *s, bool is_kill, size_t *n_living)
{
    *n_living = 0;
    s->n_ended = 0;
    for (size_t i = 0; i < s->n; i++) {
        AUTO(process_list_free) struct process_list tree = { 0 };
        struct run_stop *stop = &s->all[i];
        dibs_status status = find_tree(s, stop->record, &s->trees[i], &tree);

        if (status != DIBS_OK)
            return status;
        s->n_ended += tree.n_ended;
        stop->left = tree.n > 0 ? tree.all[0].pid : 0;
        if (tree.n == 0)
            continue;
        ++*n_living;
        stop->was_running = true;
        stop->was_killed = stop->was_killed || is_kill;
        if (!is_kill)
            ask_tree(s, stop, &tree);
        for (size_t k = 0; k < tree.n && is_kill; k++)
            send(s, stop, &tree.all[k], SIGKILL);
        /* What has left its session and its environment is found by its parent alone, which ends now. */
        process_list_free(&s->trees[i]);
        s->trees[i] = tree;
        tree = (struct process_list){ 0 };
    }
    return DIBS_OK;
}

static void rest(void)
{
    const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };

    (void) nanosleep(&pause, NULL);
}

/* Signal until no process is left, or the time is over. A look misses a process that is forked by one that
 * ends meanwhile: so two looks at which no process of the system ended must find none, or some more. */
static dibs_status end_all(struct stopping *s, bool is_kill, int64_t limit_ms, size_t *n_living)
{
    int64_t end_ms = clock_monotonic_ms() + limit_ms;
    dibs_status status = look(s, is_kill, n_living);

    for (int n_empty = 0; status == DIBS_OK && clock_monotonic_ms() < end_ms;) {
        n_empty = *n_living > 0 ? 0 : n_empty + (s->n_ended > 0 ? 1 : EMPTY_LOOKS / 2);
        if (n_empty >= EMPTY_LOOKS)
            break;
        if (*n_living > 0 && !is_kill)
            rest();
        status = look(s, is_kill, n_living);
    }
    return status;
}

/* Wait until dibs has released the claims of its ended commands. */
static void await_runners(const struct stopping *s)
{
    int64_t end_ms = clock_monotonic_ms() + RUNNER_MS;

    for (size_t i = 0; i < s->n; i++)
        while (run_record_is_there(s->directory, s->all[i].record->id) && has_runner(s, s->all[i].record) &&
               clock_monotonic_ms() < end_ms)
            rest();
}

dibs_status runs_stop(const char *directory, struct run_stop *all, size_t n, dibs_err *err)
{
    struct process_view view;
    struct stopping s = { .view = &view, .directory = directory, .all = all, .n = n, .err = err };
    AUTO(free_auto) struct process_list *trees = calloc(n + 1, sizeof *trees);
    size_t n_living = 0;

    if (!trees)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status status = process_view_load(&view, err);
    if (status != DIBS_OK)
        return status;
    s.trees = trees;
    for (size_t i = 0; i < n; i++) {
        all[i].is_orphan = !has_runner(&s, all[i].record);
        (void) run_record_mark(directory, all[i].record->id, NULL); /* else dibs stops the others, too */
    }
    status = end_all(&s, false, RUN_GRACE_MS, &n_living);
    if (status == DIBS_OK && n_living > 0)
        status = end_all(&s, true, KILL_MS, &n_living);
    if (status == DIBS_OK)
        await_runners(&s);
    for (size_t i = 0; i < n && status == DIBS_OK; i++)
        if (!all[i].left && !has_runner(&s, all[i].record))
            run_record_remove(directory, all[i].record->id);
    for (size_t i = 0; i < n; i++)
        process_list_free(&trees[i]);
    run_asked_free(&s.asked);
    (void) rmdir(directory); /* fails while there are records */
    return status;
}

void runs_prune(const char *directory, size_t limit)
{
    AUTO(free_auto) struct run_record *records = NULL;
    struct process_view view;
    dibs_err err = { 0 };
    struct stopping s = { .view = &view, .directory = directory, .err = &err };
    size_t n = 0;

    if (run_records_list(directory, &records, &n, &err) != DIBS_OK || n <= limit ||
        process_view_load(&view, &err) != DIBS_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        AUTO(process_list_free) struct process_list tree = { 0 };

        if (!has_runner(&s, &records[i]) && find_tree(&s, &records[i], NULL, &tree) == DIBS_OK && tree.n == 0)
            run_record_remove(directory, records[i].id);
    }
}
