/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_IN_USE_H
#define DIBS_CORE_IN_USE_H
/* Every use of a port that this host shows: its sockets, and the ports that NAT rules publish. */
#include "core/core.h"
#include "host/kernel.h"

struct in_use {
    struct kernel_socket *sockets;
    const struct nat_rule **rules; /* rules[i]: sockets[i] is no socket, but a port of this rule; else NULL */
    size_t n, max, max_rules;
};

/* List all sockets, then the published ports that are in `ranges`. The rules are valid until the next
 * nat_refresh(). The caller ends it with in_use_done(), also after a failure. */
dibs_status in_use_list(struct core *core, const struct call *call, const dibs_ranges *ranges,
                        struct in_use *out, dibs_err *err);
void in_use_done(struct in_use *in_use);
#endif
