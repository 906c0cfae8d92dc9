/* SPDX-License-Identifier: MIT */
#include "core/hold_report.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/text.h"

#include "base/banned.h"

/* Does the kernel list TCP sockets that are only bound? Bind one as a guard is bound, and look. */
static bool lists_bound_sockets(void)
{
    const int device = KERNEL_GUARD_DEVICE;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof at;
    AUTO(fd_auto) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &device, sizeof device) == 0 &&
           bind(fd, (const struct sockaddr *) &at, sizeof at) == 0 &&
           getsockname(fd, (struct sockaddr *) &at, &len) == 0 &&
           kernel_has_guard(DIBS_TCP, ntohs(at.sin_port));
}

void hold_report(dibs_claim *claim)
{
    bool is_here = claim->netns == 0 || claim->netns == kernel_netns();

    if (claim->hold != DIBS_HOLD_GUARD || !is_here || claim->node[0])
        return;
    for (size_t i = 0; i < claim->n_bindings; i++)
        if (kernel_has_guard(claim->bindings[i].proto, claim->port))
            return;
    if (lists_bound_sockets())
        (void) text_copy(claim->hold_note, sizeof claim->hold_note,
                         "not bound now: its program listens already, or nobody runs who keeps it");
}

void hold_report_enforced(const struct core *core, dibs_claim *claim)
{
    const struct core_options *options = &core->options;

    if (claim->hold != DIBS_HOLD_ENFORCE || claim->node[0] || !options->is_enforced ||
        options->is_enforced(options->enforcer, claim))
        return;
    claim->hold = DIBS_HOLD_NONE;
    (void) text_copy(
        claim->hold_note, sizeof claim->hold_note,
        "not enforced now: the daemon runs without --enforce, or could not do it for this claim");
}
