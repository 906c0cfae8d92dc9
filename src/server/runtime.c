/* SPDX-License-Identifier: MIT */
#include "server/runtime.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "server/log.h"

#include "base/banned.h"

enum {
    TURN_MAX_MS = 60000,
    KEPT_FREE_BYTES = 1 << 20, /* a claim uses about 100 KiB for a moment: returning them to the kernel each
                                  time costs more */
};

static void on_signal(loop_source *source, uint32_t events)
{
    struct runtime *runtime = (struct runtime *) ((char *) source - offsetof(struct runtime, signals));
    struct signalfd_siginfo info;

    (void) events;
    while (read(source->fd, &info, sizeof info) == (ssize_t) sizeof info) {
        if (info.ssi_signo == SIGHUP)
            runtime->is_reload_due = true;
        else if (info.ssi_signo == SIGUSR1)
            runtime->is_report_due = true;
        else
            runtime->is_stopping = true;
    }
}

static dibs_status take_signals(struct runtime *runtime, dibs_err *err)
{
    sigset_t set;

    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGTERM);
    (void) sigaddset(&set, SIGINT);
    (void) sigaddset(&set, SIGHUP);
    (void) sigaddset(&set, SIGUSR1);
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
    runtime->signals = (loop_source){ signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), on_signal };
    if (runtime->signals.fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "waiting for signals");
    return loop_add(runtime->loop, &runtime->signals, EPOLLIN, err);
}

dibs_status runtime_open(struct runtime *out, dibs_err *err)
{
    *out = (struct runtime){ .signals = { .fd = -1 }, .notify = { .fd = -1 } };
    (void) mallopt(M_TRIM_THRESHOLD, KEPT_FREE_BYTES);
    dibs_status s = loop_open(&out->loop, err);
    if (s == DIBS_OK)
        s = notify_open(&out->notify, err);
    return s == DIBS_OK ? take_signals(out, err) : s;
}

void runtime_close(struct runtime *runtime)
{
    if (!runtime->loop)
        return;
    notify_close(&runtime->notify);
    fd_auto(&runtime->signals.fd);
    loop_close(runtime->loop);
    *runtime = (struct runtime){ 0 };
}

static dibs_status turn(struct runtime *runtime, const struct runtime_hooks *hooks, int64_t max_ms,
                        dibs_err *err)
{
    int64_t wait_ms = runtime_sooner(hooks->next_ms(hooks->ctx), max_ms);

    if (runtime->notify.watchdog_ms > 0)
        wait_ms = runtime_sooner(wait_ms, clock_until_ms(runtime->watchdog_ms));
    dibs_status s = loop_turn(runtime->loop, wait_ms, err);
    hooks->turn(hooks->ctx);
    if (runtime->notify.watchdog_ms > 0 && clock_until_ms(runtime->watchdog_ms) == 0) {
        (void) notify_send(&runtime->notify, NOTIFY_WATCHDOG);
        runtime->watchdog_ms = clock_monotonic_ms() + runtime->notify.watchdog_ms / 2;
    }
    return s;
}

static void reload(struct runtime *runtime, const struct runtime_hooks *hooks)
{
    runtime->is_reload_due = false;
    if (!hooks->reload)
        return;
    (void) notify_send(&runtime->notify, NOTIFY_RELOADING);
    hooks->reload(hooks->ctx);
    (void) notify_send(&runtime->notify, NOTIFY_READY);
}

dibs_status runtime_run(struct runtime *runtime, const struct runtime_hooks *hooks, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    (void) notify_send(&runtime->notify, NOTIFY_READY);
    while (!runtime->is_stopping && s == DIBS_OK) {
        s = turn(runtime, hooks, TURN_MAX_MS, err);
        if (runtime->is_reload_due)
            reload(runtime, hooks);
        if (runtime->is_report_due && hooks->report)
            hooks->report(hooks->ctx);
        runtime->is_report_due = false;
    }
    (void) notify_send(&runtime->notify, NOTIFY_STOPPING);
    LOG(LOG_INFO, "stopping");
    int64_t until_ms = clock_monotonic_ms() + hooks->drain_ms;
    while (s == DIBS_OK && hooks->drain(hooks->ctx) && clock_monotonic_ms() < until_ms)
        s = turn(runtime, hooks, clock_until_ms(until_ms), err);
    return s;
}
