/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_RUNTIME_H
#define DIBS_SERVER_RUNTIME_H
/* The life of a long-lived process: one event loop until SIGTERM or SIGINT, a reload at SIGHUP, readiness and
 * watchdog for the service manager, and a bounded time to finish open requests. */
#include <stdbool.h>

#include "base/loop.h"
#include "server/service_manager.h"

struct runtime_hooks {
    void *ctx;
    /* Mandatory. Once a turn, after the loop has served the descriptors that were ready. */
    void (*turn)(void *ctx);
    /* Mandatory. How long the loop may wait; below 0: without limit. */
    int64_t (*next_ms)(void *ctx);
    /* Optional. At SIGHUP. */
    void (*reload)(void *ctx);
    /* Optional. At SIGUSR1: log statistics. */
    void (*report)(void *ctx);
    /* Mandatory. Once a turn after SIGTERM: accept nothing new. False: nothing is under way. */
    bool (*drain)(void *ctx);
    int64_t drain_ms; /* at most */
};

struct runtime {
    struct loop *loop;
    bool is_stopping;
    bool is_reload_due, is_report_due;
    loop_source signals;
    struct notify notify;
    int64_t watchdog_ms; /* when the next watchdog message is due */
};

/* Open the loop and take over signals. `out` does not move until runtime_close(). */
dibs_status runtime_open(struct runtime *out, dibs_err *err);
void runtime_close(struct runtime *runtime); /* also of one that is zero or half open */
/* Report readiness, then run until a signal, a failure of the loop, or the end of the drain. */
dibs_status runtime_run(struct runtime *runtime, const struct runtime_hooks *hooks, dibs_err *err);

/* The smaller of two waits; below 0: without limit. */
static inline int64_t runtime_sooner(int64_t a_ms, int64_t b_ms)
{
    return a_ms < 0 ? b_ms : b_ms < 0 || a_ms < b_ms ? a_ms : b_ms;
}
#endif
