/* SPDX-License-Identifier: MIT */
/* Calls that wait for a datagram. The notifier answers them when their socket has one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "hold/as/internal.h"

#include "base/banned.h"

/* The kernel's own code: after the signal's handler the call is repeated, or returns EINTR (SA_RESTART). A
 * thread without a signal would see it, as an unknown error. */
#define RESTART_AFTER_SIGNAL 512

/* Return the set of signals in this line of /proc/PID/status. */
static uint64_t signals_at(const char *text, const char *title)
{
    const char *at = strstr(text, title);
    uint64_t set = 0;

    for (at = at ? at + strlen(title) : ""; *at && *at != '\n'; at++)
        set = set << 4 | (uint64_t) (*at <= '9' ? *at - '0' : *at - 'a' + 10);
    return set;
}

enum interrupt { NO_SIGNAL, PERHAPS_A_SIGNAL, A_SIGNAL };

/* Does the thread have a signal that it must handle now? The kernel gives a signal of the whole process to
 * its first thread, unless that one blocks it; then any thread may be meant. */
static enum interrupt find_interrupt(const struct as_request *request)
{
    char path[64];
    char text[4096] = "";
    char first[32];

    (void) snprintf(path, sizeof path, "/proc/%d/status", request->tid);
    (void) snprintf(first, sizeof first, "\nTgid:\t%d\n", request->tid);
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return NO_SIGNAL;
    uint64_t handled = signals_at(text, "\nSigCgt:\t") & ~signals_at(text, "\nSigBlk:\t");
    if (signals_at(text, "\nSigPnd:\t") & handled)
        return A_SIGNAL;
    if (!(signals_at(text, "\nShdPnd:\t") & handled))
        return NO_SIGNAL;
    return strstr(text, first) ? A_SIGNAL : PERHAPS_A_SIGNAL;
}

bool as_waiting_begin(struct as_waiting *waiting, const struct as_request *request)
{
    struct timeval limit = { 0 };
    socklen_t size = sizeof limit;

    *waiting = (struct as_waiting){ .request = *request,
                                    .fd = as_request_socket(request),
                                    .deadline_ms = INT64_MAX };
    if (waiting->fd < 0)
        return false;
    if (getsockopt(waiting->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &size) == 0 &&
        (limit.tv_sec || limit.tv_usec))
        waiting->deadline_ms =
            clock_monotonic_ms() + (int64_t) limit.tv_sec * 1000 + (int64_t) limit.tv_usec / 1000;
    return true;
}

bool as_waiting_ends(struct as_waiting *waiting, struct as_answer *answer)
{
    enum interrupt interrupt = find_interrupt(&waiting->request);

    waiting->n_looks = interrupt == PERHAPS_A_SIGNAL ? waiting->n_looks + 1 : 0;
    if (!as_request_is_valid(&waiting->request) || waiting->n_looks > 1)
        /* Nobody waits any more; or nobody else took the signal, and the kernel knows whether it is for us.
         */
        *answer = AS_CONTINUE;
    else if (interrupt == A_SIGNAL)
        *answer = (struct as_answer){ .value = -RESTART_AFTER_SIGNAL };
    else if (clock_monotonic_ms() >= waiting->deadline_ms)
        *answer = (struct as_answer){ .value = -EAGAIN };
    else
        return false;
    return true;
}
