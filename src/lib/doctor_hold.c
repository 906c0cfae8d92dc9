/* SPDX-License-Identifier: MIT */
/* Which levels of holding this host can give (docs/HOLD.md). */
#include "base/err.h"
#include "hold/confine.h"
#include "hold/enforce_host.h"
#include "hold/guard.h"
#include "lib/doctor.h"

#include "base/banned.h"

static void check_enforcing(struct doctor *d)
{
    dibs_err err = { 0 };

    if (enforce_check_host(&err) == DIBS_OK)
        doctor_say(d, DIBS_FINE, "hold", "",
                   "this kernel can refuse claimed ports to others: 'dibs serve --enforce', as root");
    else
        doctor_say(d, DIBS_NOTE, "hold", "nothing, unless you want 'dibs serve --enforce'",
                   "this host cannot refuse claimed ports to others: %s", err.msg);
}

static void check_guards(struct doctor *d)
{
    const dibs_binding udp = { .proto = DIBS_UDP, .address = { .len = 4 } };
    dibs_err err = { 0 };

    if (guard_check(&udp, 1, &err) == DIBS_OK)
        doctor_say(d, DIBS_FINE, "hold", "", "ports of tcp and udp can have guards: --hold guard");
    else
        doctor_say(d, DIBS_NOTE, "hold", "nothing, unless you want '--hold guard' for udp",
                   "only ports of tcp can have guards: %s", err.msg);
}

void doctor_hold(struct doctor *d)
{
    check_guards(d);
    if (confine_is_possible())
        doctor_say(d, DIBS_FINE, "hold", "", "this kernel can keep a command to its own ports: --confine");
    else
        doctor_say(d, DIBS_NOTE, "hold", "nothing, unless you want 'dibs run --confine'",
                   "this kernel cannot keep a command to its own ports: it needs Landlock of Linux 6.7");
    check_enforcing(d);
}
