/* SPDX-License-Identifier: MIT */
/* Checks what this host offers, and what it does not show. */
#include <inttypes.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/text.h"
#include "host/kernel.h"
#include "lib/doctor.h"
#include "net/proto.h"

#include "base/banned.h"

enum { LOW_FILES = 256 };

/* A rule beside the sockets is the third way to use a port, and only root of the network namespace sees it.
 */
static void check_nat(struct doctor *d)
{
    nat_refresh(d->core->nat, d->call.now.boot_ms);
    const struct nat_view view = nat_view(d->core->nat);

    if (view.why)
        doctor_say(d, DIBS_NOTE, "nat",
                   "nothing, unless containers publish ports without a proxy: run a daemon as root",
                   "ports that NAT rules publish are not seen: %s", view.why);
    else if (view.is_cut)
        doctor_say(d, DIBS_WARNING, "nat",
                   "'dibs explain' names a port's rule, if it is one of those that were read",
                   "%zu ports and ranges are published by NAT rules; there are more rules than dibs reads",
                   view.n);
    else
        doctor_say(d, DIBS_FINE, "nat", "", "%zu port%s or range%s published by NAT rules", view.n,
                   TEXT_S(view.n), TEXT_S(view.n));
}

void doctor_check_host(struct doctor *d)
{
    const struct core_host *host = core_host(d->core, &d->call);
    struct rlimit files = { 0 };
    uint32_t reserved = portbits_count(&host->reserved);

    doctor_say(d, host->is_ephemeral_detected ? DIBS_FINE : DIBS_WARNING, "host",
               "make /proc/sys/net/ipv4/ip_local_port_range readable", "ephemeral range %u-%u (%s)",
               host->ephemeral.first, host->ephemeral.last,
               host->is_ephemeral_detected ? "detected" : "could not be read: Linux's default");
    doctor_say(d, DIBS_FINE, "host", "", "%u port%s reserved in ip_local_reserved_ports", reserved,
               TEXT_S(reserved));
    if (!host->has_ipv6)
        doctor_say(d, DIBS_NOTE, "host", "nothing: '*' and 'localhost' mean IPv4 alone here",
                   "this host has no IPv6");
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if (proto_row(proto)->is_optional && !kernel_has_proto(proto))
            doctor_say(d, DIBS_NOTE, "host", "nothing, unless you need it: load its kernel module",
                       "this kernel has no %s", proto_row(proto)->kubernetes);
    if (!d->core->view.is_initial_pidns)
        doctor_say(d, DIBS_NOTE, "host", "nothing: holders outside of this container show as unknown",
                   "this is not the initial pid namespace");
    doctor_hold(d);
    check_nat(d);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        doctor_say(d, files.rlim_cur < LOW_FILES ? DIBS_WARNING : DIBS_FINE, "limit",
                   "raise it with 'ulimit -n'", "%" PRIu64 " open files", (uint64_t) files.rlim_cur);
    doctor_say(d, DIBS_FINE, "limit", "", "%d claims in a batch, %d bindings in a claim, %d bytes in a name",
               DIBS_BATCH_MAX, DIBS_BINDINGS_MAX, DIBS_NAME_MAX);
}
