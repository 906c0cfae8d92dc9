/* SPDX-License-Identifier: MIT */
#include "hold/confine.h"

#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

#include "base/banned.h"

/* The kernel's interface, which <linux/landlock.h> of Debian 12 does not have. */
enum {
    ABI_WITH_PORTS = 4,
    CREATE_RULESET_VERSION = 1 << 0,
    RULE_NET_PORT = 2,
    ACCESS_NET_BIND_TCP = 1 << 0,
};
struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
};
struct net_port_attr {
    uint64_t allowed_access;
    uint64_t port; /* in host order; 0: a port of the kernel's choice */
};

bool confine_is_possible(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION) >= ABI_WITH_PORTS;
}

static bool allow(int ruleset, uint16_t port)
{
    const struct net_port_attr rule = { ACCESS_NET_BIND_TCP, port };

    return syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) == 0;
}

int confine_enter(const uint16_t *ports, size_t n)
{
    const struct ruleset_attr attr = { 0, ACCESS_NET_BIND_TCP };
    AUTO(fd_auto) int ruleset = (int) syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);

    if (ruleset < 0 || !allow(ruleset, 0))
        return errno;
    for (size_t i = 0; i < n; i++)
        if (!allow(ruleset, ports[i]))
            return errno;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) == 0)
        return 0;
    if (errno != EPERM || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return errno;
    return syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 ? 0 : errno;
}
