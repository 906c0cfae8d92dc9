/* SPDX-License-Identifier: MIT */
#include "host/process_watch.h"

#include <errno.h>
#include <search.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/proc_read.h"

#include "base/banned.h"

enum {
    STEP_MS = 50,
    /* Each costs about 10 us; with more than 10,000 processes a round takes longer. */
    STEP_MAX = 512,
    MS_PER_S = 1000,
    NS_PER_MS = 1000000,
};

/* How a process is watched; each place has a list. */
enum place { BY_PIDFD, IN_TURN, FAR, DEAD, N_PLACES };

struct watched {
    loop_source source; /* first: ready() gets a pointer to it; fd is the pidfd or -1 */
    struct watch *watch;
    TAILQ_ENTRY(watched) link;
    enum place place;
    uint32_t n;       /* number of claims */
    pid_t here;       /* its pid in our namespace; 0: unknown */
    bool is_verified; /* the pidfd is certainly that of `process` */
    uint64_t since;   /* number of its pidfd, in order of opening */
    dibs_process process;
    bool is_known; /* `facts` is cached by the first watch_knows(): */
    struct process_facts facts;
};
TAILQ_HEAD(watched_list, watched);

struct watch {
    struct watch_options options;
    loop_source timer;
    int64_t due_ms; /* when the timer fires (CLOCK_MONOTONIC); 0: it does not run */
    int64_t far_due_ms;
    void *by_process; /* tsearch(3) of struct watched */
    struct watched_list list[N_PLACES];
    size_t n[N_PLACES];
    uint64_t n_pidfds; /* pidfds opened so far */
};

static int compare_pids(const void *a, const void *b)
{
    const struct watched *x = a;
    const struct watched *y = b;

    if (x->process.pidns != y->process.pidns)
        return x->process.pidns < y->process.pidns ? -1 : 1;
    return (x->process.pid > y->process.pid) - (x->process.pid < y->process.pid);
}

static int compare_processes(const void *a, const void *b)
{
    const struct watched *x = a;
    const struct watched *y = b;
    int d = compare_pids(a, b);

    if (d != 0)
        return d;
    if (x->process.start_ticks != y->process.start_ticks)
        return x->process.start_ticks < y->process.start_ticks ? -1 : 1;
    return strncmp(x->process.boot_id, y->process.boot_id, sizeof x->process.boot_id);
}

static struct watched *find(const struct watch *watch, const dibs_process *process,
                            int (*compare)(const void *, const void *))
{
    const struct watched key = { .process = *process };
    struct watched **found = tfind(&key, &watch->by_process, compare);

    return found ? *found : NULL;
}

/* Start the timer if a process has no pidfd. */
static void run_timer(struct watch *watch)
{
    int64_t now_ms = clock_monotonic_ms();
    int64_t due_ms = watch->n[DEAD] > 0      ? now_ms
                     : watch->n[IN_TURN] > 0 ? now_ms + STEP_MS
                                             : watch->far_due_ms;

    /* Leave a running timer alone: if every new process set it again, it would never fire. */
    if (watch->n[DEAD] + watch->n[IN_TURN] + watch->n[FAR] == 0 ||
        (watch->due_ms != 0 && watch->due_ms <= due_ms))
        return;
    struct itimerspec at = {
        .it_value = { .tv_sec = due_ms / MS_PER_S, .tv_nsec = due_ms % MS_PER_S * NS_PER_MS },
    };
    watch->due_ms = due_ms;
    (void) timerfd_settime(watch->timer.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void leave(struct watched *e)
{
    struct watch *watch = e->watch;

    TAILQ_REMOVE(&watch->list[e->place], e, link);
    watch->n[e->place]--;
    if (e->source.fd >= 0) {
        loop_remove(watch->options.loop, &e->source);
        (void) close(e->source.fd);
        e->source.fd = -1;
    }
}

static void enter(struct watched *e, enum place place)
{
    if (place == FAR && e->watch->n[FAR] == 0)
        e->watch->far_due_ms = clock_monotonic_ms() + WATCH_FAR_MS;
    e->place = place;
    TAILQ_INSERT_TAIL(&e->watch->list[place], e, link);
    e->watch->n[place]++;
}

static void forget(struct watched *e)
{
    leave(e);
    (void) tdelete(e, &e->watch->by_process, compare_processes);
    free(e);
}

static void report(struct watched *e)
{
    const struct watch_options *options = &e->watch->options;
    dibs_process process = e->process;

    forget(e); /* first: died() may add it again */
    options->died(options->ctx, &process);
}

static void on_death(loop_source *source, uint32_t events)
{
    (void) events;
    report((struct watched *) source);
}

/* Return the process as one of our own namespace, if its pid here is known: a pid never changes. */
static dibs_process as_seen_here(const struct watched *e)
{
    dibs_process here = e->process;

    here.pidns = e->watch->options.view->pidns;
    here.pid = e->here;
    return here;
}

/* Decide how to watch a process. */
static enum place choose_place(struct watched *e)
{
    struct watch *watch = e->watch;
    const struct process_view *view = watch->options.view;
    AUTO(fd_auto) int fd = -1;

    if (e->here == 0) {
        dibs_life seen = process_judge(view, &e->process, NULL);

        e->here = seen == DIBS_ALIVE ? process_pid_here(view, &e->process) : 0;
        if (e->here == 0)
            return seen == DIBS_DEAD ? DEAD : FAR;
    }
    /* Open the pidfd, then judge, then check that the pidfd is alive: if so, it belongs to the process that
     * we judged. The process with this pid is `process` or a later one, so its death is proof in any case. */
    if (watch->n[BY_PIDFD] < watch->options.budget)
        fd = pidfd_open(e->here, 0);
    dibs_process here = as_seen_here(e);
    dibs_life life = process_judge(view, &here, NULL);
    if (life == DIBS_DEAD || (fd >= 0 && proc_pidfd_ended(fd)))
        return DEAD;
    e->source.fd = fd;
    if (fd < 0 || loop_add(watch->options.loop, &e->source, EPOLLIN, NULL) != DIBS_OK) {
        e->source.fd = -1;
        return IN_TURN;
    }
    e->is_verified = life == DIBS_ALIVE;
    e->since = ++watch->n_pidfds;
    (void) fd_take(&fd);
    return BY_PIDFD;
}

static void settle_again(struct watched *e)
{
    leave(e);
    enter(e, choose_place(e));
}

static void judge_some(struct watch *watch)
{
    size_t n = (watch->n[IN_TURN] * STEP_MS + WATCH_ROUND_MS - 1) / WATCH_ROUND_MS;

    for (size_t i = 0; i < n && i < STEP_MAX && watch->n[IN_TURN] > 0; i++)
        settle_again(TAILQ_FIRST(&watch->list[IN_TURN]));
    int64_t now_ms = clock_monotonic_ms();
    if (watch->n[FAR] > 0 && now_ms >= watch->far_due_ms) {
        settle_again(TAILQ_FIRST(&watch->list[FAR]));
        watch->far_due_ms = now_ms + WATCH_FAR_MS;
    }
}

static void on_timer(loop_source *source, uint32_t events)
{
    struct watch *watch = (struct watch *) ((char *) source - offsetof(struct watch, timer));
    uint64_t n_expired = 0;

    (void) events;
    if (read(source->fd, &n_expired, sizeof n_expired) < 0)
        return; /* the timer was set again in the same turn and will fire */
    watch->due_ms = 0;
    judge_some(watch);
    /* A process that died() adds now is reported in the next turn. */
    for (size_t n = watch->n[DEAD]; n > 0 && watch->n[DEAD] > 0; n--)
        report(TAILQ_FIRST(&watch->list[DEAD]));
    run_timer(watch);
}

static size_t default_budget(size_t others)
{
    struct rlimit limit = { .rlim_cur = 0 };

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit higher = { .rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max };

        if (setrlimit(RLIMIT_NOFILE, &higher) == 0)
            limit = higher;
    }
    rlim_t reserve = limit.rlim_cur / 2 < WATCH_RESERVE ? limit.rlim_cur / 2 : WATCH_RESERVE;
    size_t budget = (size_t) (limit.rlim_cur - reserve);
    return budget > others ? budget - others : 0;
}

dibs_status watch_open(const struct watch_options *options, struct watch **out, dibs_err *err)
{
    AUTO(free_auto) struct watch *self = calloc(1, sizeof *self);
    AUTO(fd_auto) int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

    if (!self)
        return err_set(err, DIBS_FAILURE, "watching processes: out of memory");
    if (fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "watching processes");
    self->options = *options;
    if (options->budget == 0)
        self->options.budget = default_budget(options->reserve);
    for (size_t i = 0; i < N_PLACES; i++)
        TAILQ_INIT(&self->list[i]);
    self->timer = (loop_source){ .fd = fd, .ready = on_timer };
    dibs_status s = loop_add(options->loop, &self->timer, EPOLLIN, err);
    if (s != DIBS_OK)
        return err_wrap(err, s, "watching processes");
    (void) fd_take(&fd);
    *out = TAKE(self);
    return DIBS_OK;
}

void watch_close(struct watch *watch)
{
    if (!watch)
        return;
    for (size_t i = 0; i < N_PLACES; i++)
        while (watch->n[i] > 0)
            forget(TAILQ_FIRST(&watch->list[i]));
    loop_remove(watch->options.loop, &watch->timer);
    (void) close(watch->timer.fd);
    free(watch);
}

dibs_status watch_add(struct watch *watch, const dibs_process *process, dibs_err *err)
{
    struct watched *e = find(watch, process, compare_processes);

    if (e) {
        e->n++;
        return DIBS_OK;
    }
    AUTO(free_auto) struct watched *fresh = calloc(1, sizeof *fresh);
    if (fresh) {
        bool is_ours = process->pidns == watch->options.view->pidns && process->pid > 0;

        *fresh = (struct watched){
            .source = { .fd = -1, .ready = on_death },
            .watch = watch,
            .n = 1,
            .here = is_ours ? process->pid : 0,
            .process = *process,
        };
    }
    if (!fresh || !tsearch(fresh, &watch->by_process, compare_processes))
        return err_set(err, DIBS_FAILURE, "watching process %d: out of memory", (int) process->pid);
    e = TAKE(fresh);
    enter(e, choose_place(e));
    run_timer(watch);
    return DIBS_OK;
}

void watch_drop(struct watch *watch, const dibs_process *process)
{
    struct watched *e = find(watch, process, compare_processes);

    if (e && --e->n == 0)
        forget(e);
}

uint64_t watch_moment(const struct watch *watch)
{
    return watch->n_pidfds;
}

bool watch_knows(struct watch *watch, pid_t pid, uint64_t moment, struct process_facts *out)
{
    const dibs_process process = { .pidns = watch->options.view->pidns, .pid = pid };
    struct watched *e = find(watch, &process, compare_pids);

    if (!e || e->place != BY_PIDFD || !e->is_verified || e->since > moment)
        return false;
    if (!e->is_known)
        e->is_known = process_identify(watch->options.view, pid, &e->facts, NULL) == DIBS_OK;
    /* Check last: the facts belong to this process only if it is still alive. */
    if (!e->is_known || proc_pidfd_ended(e->source.fd))
        return false;
    *out = e->facts;
    return true;
}

struct watch_counts watch_count(const struct watch *watch)
{
    return (struct watch_counts){
        .by_pidfd = watch->n[BY_PIDFD],
        .in_turn = watch->n[IN_TURN],
        .far = watch->n[FAR],
    };
}
