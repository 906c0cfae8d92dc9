/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TEST_PROCESS_H
#define DIBS_TEST_PROCESS_H
/* Processes as host/process.h sees them. */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/process.h"
#include "support/t.h"

struct process_view here(void);
struct process_facts facts_of(const struct process_view *view, pid_t pid);

#define ASSERT_LIFE(view, who, life, text)                              \
    do {                                                                \
        const char *why_ = "";                                          \
        assert_int_equal(process_judge((view), (who), &why_), (life));  \
        if (!strstr(why_, (text)))                                      \
            fail_msg("the reason is \"%s\", not \"%s\"", why_, (text)); \
    } while (0)

/* The letter of /proc/PID/stat; '?' when there is none. */
char state_of(pid_t pid);

/* Ticks since the host began, as start times are counted. */
uint64_t ticks_now(const struct process_view *view);
#endif
