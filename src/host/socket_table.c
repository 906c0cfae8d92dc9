/* SPDX-License-Identifier: MIT */
#include "host/socket_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "host/proc_read.h"

#include "base/banned.h"

enum {
    ANCESTORS_MAX = 64,    /* as deep as process trees are */
    SEARCH_ALL_MS = 60000, /* until a socket that has moved to another process is found there */
};

/* ---- sockets ---- */

static int by_port(const void *a, const void *b)
{
    const struct kernel_socket *x = &((const struct table_socket *) a)->socket;
    const struct kernel_socket *y = &((const struct table_socket *) b)->socket;

    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    if (x->uid != y->uid)
        return x->uid < y->uid ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static int by_inode(const void *a, const void *b)
{
    uint64_t x = ((const struct table_socket *) a)->socket.inode;
    uint64_t y = ((const struct table_socket *) b)->socket.inode;

    return x < y ? -1 : x > y;
}

static bool add_socket(void *ctx, const struct kernel_socket *socket)
{
    struct socket_table *table = ctx;

    if (!grow((void **) &table->sockets, table->n, &table->max, sizeof *table->sockets)) {
        table->is_cut = true;
        return false;
    }
    table->sockets[table->n++] = (struct table_socket){ .socket = *socket };
    return true;
}

/* Sort by port, and drop the connected sockets that say nothing more. */
static void tidy(struct socket_table *table)
{
    size_t n = 0;

    if (table->n > 1)
        qsort(table->sockets, table->n, sizeof *table->sockets, by_port);
    for (size_t i = 0; i < table->n; i++) {
        const struct kernel_socket *s = &table->sockets[i].socket;
        const struct kernel_socket *last = n > 0 ? &table->sockets[n - 1].socket : NULL;
        bool is_known = last && last->port == s->port && s->state == KERNEL_CONNECTED &&
                        (last->state != KERNEL_CONNECTED || last->uid == s->uid);

        if (!is_known)
            table->sockets[n++] = table->sockets[i];
    }
    table->is_cut = table->is_cut || n > SOCKET_TABLE_MAX;
    table->n = n < SOCKET_TABLE_MAX ? n : SOCKET_TABLE_MAX;
}

/* ---- processes ---- */

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct table_process *) a)->facts.process.pid;
    pid_t y = ((const struct table_process *) b)->facts.process.pid;

    return x < y ? -1 : x > y;
}

static struct table_process *find(const struct socket_table *table, pid_t pid)
{
    struct table_process key = { .facts.process.pid = pid };

    return pid > 0 && table->n_processes > 0
               ? bsearch(&key, table->processes, table->n_processes, sizeof key, by_pid)
               : NULL;
}

const struct table_process *socket_table_process(const struct socket_table *table, pid_t pid)
{
    return find(table, pid);
}

bool socket_table_descends(const struct socket_table *table, pid_t pid, pid_t ancestor)
{
    const struct table_process *at = find(table, pid);

    for (int i = 0; at && i < ANCESTORS_MAX; i++) {
        if (at->facts.process.pid == ancestor)
            return true;
        const struct table_process *parent = find(table, at->facts.ppid);
        /* A parent is older than its child: else its pid was reused meanwhile. */
        if (parent && parent->facts.process.start_ticks > at->facts.process.start_ticks + 1)
            return false;
        at = parent;
    }
    return false;
}

/* Make the process one with details. They stay while it executes no other program. */
static void load_details(const struct socket_look *look, struct table_process *p)
{
    const struct table_process *was = look->before ? find(look->before, p->facts.process.pid) : NULL;

    if (was && was->is_owner && was->facts.process.start_ticks == p->facts.process.start_ticks &&
        strcmp(was->facts.command, p->facts.command) == 0)
        p->details = was->details;
    else
        process_details(p->facts.process.pid, true, &p->details);
    p->is_owner = true;
}

/* Fill a process; false: it has ended. */
static bool load_process(const struct socket_look *look, pid_t pid, bool is_owner, struct table_process *out)
{
    *out = (struct table_process){ .is_owner = false };
    if (process_identify(look->view, pid, &out->facts, NULL) != DIBS_OK)
        return false;
    if (is_owner)
        load_details(look, out);
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *) a;
    pid_t y = *(const pid_t *) b;

    return x < y ? -1 : x > y;
}

/* Add the living ones of `pids` that the table lacks, and put their parents in the place of the pids. Return
 * how many these are. */
static size_t add_processes(const struct socket_look *look, struct socket_table *table, pid_t *pids, size_t n,
                            bool is_owner)
{
    size_t n_all = table->n_processes;
    size_t n_parents = 0;

    if (n > 1)
        qsort(pids, n, sizeof *pids, compare_pids);
    pid_t last = 0;
    for (size_t i = 0; i < n; i++) {
        pid_t pid = pids[i];
        struct table_process *known = find(table, pid);

        if (known && is_owner && !known->is_owner)
            load_details(look, known);
        bool is_new = !known && pid > 0 && pid != last;
        last = pid;
        if (!is_new ||
            !grow((void **) &table->processes, n_all, &table->max_processes, sizeof *table->processes) ||
            !load_process(look, pid, is_owner, &table->processes[n_all]))
            continue;
        pids[n_parents++] = table->processes[n_all++].facts.ppid;
    }
    table->n_processes = n_all;
    if (n_all > 1)
        qsort(table->processes, n_all, sizeof *table->processes, by_pid);
    return n_parents;
}

/* ---- owners ---- */

/* Take over the owners that the earlier table has. */
static void take_known(const struct socket_table *before, struct socket_table *table)
{
    AUTO(free_auto) struct table_socket *sorted = calloc(before->n + 1, sizeof *sorted);

    if (!sorted || before->n == 0)
        return;
    memcpy(sorted, before->sockets, before->n * sizeof *sorted);
    qsort(sorted, before->n, sizeof *sorted, by_inode);
    for (size_t i = 0; i < table->n; i++) {
        const struct table_socket *was =
            bsearch(&table->sockets[i], sorted, before->n, sizeof *sorted, by_inode);

        table->sockets[i].is_searched = was && was->is_searched;
        table->sockets[i].pid = was ? was->pid : 0;
    }
}

/* Search again for sockets of processes that have ended. */
static void drop_ended(const struct socket_table *before, struct socket_table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        struct table_socket *s = &table->sockets[i];
        const struct table_process *was = find(before, s->pid);
        const struct table_process *now = find(table, s->pid);

        if (s->pid != 0 &&
            (!was || !now || was->facts.process.start_ticks != now->facts.process.start_ticks)) {
            s->pid = 0;
            s->is_searched = false;
        }
    }
}

/* Processes with claims are searched first for sockets on their own ports, and last for others. */
static void split_holders(const struct socket_look *look, const struct portbits *ports, pid_t *first,
                          pid_t *last, struct kernel_suspects *out)
{
    *out = (struct kernel_suspects){ .first = first, .last = last };
    for (size_t i = 0; i < look->n_holders; i++)
        if (portbits_has(ports, look->holders[i].port))
            first[out->n_first++] = look->holders[i].pid;
        else
            last[out->n_last++] = look->holders[i].pid;
}

/* Search the owners of the sockets that are not known yet. */
static dibs_status search(const struct socket_look *look, struct socket_table *table, dibs_err *err)
{
    AUTO(free_auto) struct kernel_socket *wanted = calloc(table->n + 1, sizeof *wanted);
    AUTO(free_auto) uint64_t *inodes = calloc(table->n + 1, sizeof *inodes);
    AUTO(free_auto) pid_t *pids = calloc(table->n + 1, sizeof *pids);
    AUTO(free_auto) size_t *at = calloc(table->n + 1, sizeof *at);
    AUTO(free_auto) pid_t *holders = calloc(2 * look->n_holders + 1, sizeof *holders);
    AUTO(free_auto) struct portbits *ports = calloc(1, sizeof *ports);
    struct kernel_suspects suspects;
    size_t n = 0;

    if (!wanted || !inodes || !pids || !at || !holders || !ports)
        return err_set(err, DIBS_FAILURE, "looking at sockets: out of memory");
    for (size_t i = 0; i < table->n; i++)
        if (!table->sockets[i].is_searched && table->sockets[i].socket.state != KERNEL_CONNECTED) {
            wanted[n] = table->sockets[i].socket;
            portbits_add(ports, wanted[n].port);
            at[n++] = i;
        }
    if (n == 0)
        return DIBS_OK;
    kernel_settle(look->inventory, 0, wanted, n);
    for (size_t i = 0; i < n; i++)
        inodes[i] = wanted[i].inode;
    split_holders(look, ports, holders, holders + look->n_holders, &suspects);
    kernel_socket_owners(inodes, pids, n, &suspects);
    for (size_t i = 0; i < n; i++) {
        table->sockets[at[i]].pid = pids[i];
        table->sockets[at[i]].is_searched = inodes[i] != 0;
    }
    return DIBS_OK;
}

/* Add the owners of sockets, then generation by generation their ancestors. */
static dibs_status load_owners(const struct socket_look *look, struct socket_table *table, dibs_err *err)
{
    AUTO(free_auto) pid_t *pids = calloc(table->n + 1, sizeof *pids);
    size_t n = 0;

    if (!pids)
        return err_set(err, DIBS_FAILURE, "looking at sockets: out of memory");
    for (size_t i = 0; i < table->n; i++)
        if (table->sockets[i].pid != 0)
            pids[n++] = table->sockets[i].pid;
    n = add_processes(look, table, pids, n, true);
    for (int i = 0; n > 0 && i < ANCESTORS_MAX; i++)
        n = add_processes(look, table, pids, n, false);
    return DIBS_OK;
}

/* ---- the table ---- */

static dibs_status take(const struct socket_look *look, struct socket_table *table, dibs_err *err)
{
    const struct socket_table *before = look->before;
    bool is_helped = before && table->taken_ms - before->searched_all_ms < SEARCH_ALL_MS;
    dibs_status s = kernel_blocking_sockets(0, look->proto, 0, add_socket, table, err);

    if (s != DIBS_OK)
        return s;
    tidy(table);
    table->searched_all_ms = is_helped ? before->searched_all_ms : table->taken_ms;
    if (is_helped) {
        take_known(before, table);
        s = load_owners(look, table, err);
        drop_ended(before, table);
    }
    if (s == DIBS_OK)
        s = search(look, table, err);
    return s == DIBS_OK ? load_owners(look, table, err) : s;
}

dibs_status socket_table_take(const struct socket_look *look, struct socket_table *out, dibs_err *err)
{
    struct socket_table table = { .proto = look->proto,
                                  .taken_ms = clock_monotonic_ms(),
                                  .shows_processes = proc_may_inspect_all() && proc_shows_every_process() };
    dibs_status s = take(look, &table, err);

    if (s != DIBS_OK) {
        socket_table_done(&table);
        return s;
    }
    *out = table;
    return DIBS_OK;
}

void socket_table_done(struct socket_table *table)
{
    free(table->sockets);
    free(table->processes);
    *table = (struct socket_table){ 0 };
}
