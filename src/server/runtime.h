/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_RUNTIME_H
#define DIBS_SERVER_RUNTIME_H
/* The main loop of a long-lived process, until SIGTERM or SIGINT: reload at SIGHUP, readiness and watchdog
 * for the service manager, and a bounded time to finish open requests. */
#include <stdbool.h>

#include "base/loop.h"
#include "server/service_manager.h"

struct runtime_hooks {
    void *ctx;
    /* Required. Called once per turn, after the loop has served the ready descriptors. */
    void (*turn)(void *ctx);
    /* Required. Returns how long the loop may wait; below 0: without limit. */
    int64_t (*next_ms)(void *ctx);
    /* Optional. Called at SIGHUP. */
    void (*reload)(void *ctx);
    /* Optional. Called at SIGUSR1: logs statistics. */
    void (*report)(void *ctx);
    /* Required. Called once per turn after SIGTERM: accepts nothing new. False: nothing is pending. */
    bool (*drain)(void *ctx);
    int64_t drain_ms; /* longest time to drain */
};

struct runtime {
    struct loop *loop;
    bool is_stopping;
    bool is_reload_due, is_report_due;
    loop_source signals;
    struct notify notify;
    int64_t watchdog_ms; /* when the next watchdog message is due */
};

/* Open the loop and handle signals. `out` must not move until runtime_close(). */
dibs_status runtime_open(struct runtime *out, dibs_err *err);
void runtime_close(struct runtime *runtime); /* also of a zero or half-open one */
/* Report readiness, then run until a signal, a failure of the loop, or the end of the drain. */
dibs_status runtime_run(struct runtime *runtime, const struct runtime_hooks *hooks, dibs_err *err);

/* Return the smaller of two waits; below 0: without limit. */
static inline int64_t runtime_sooner(int64_t a_ms, int64_t b_ms)
{
    return a_ms < 0 ? b_ms : b_ms < 0 || a_ms < b_ms ? a_ms : b_ms;
}
#endif
