/* SPDX-License-Identifier: MIT */
/* The words for events and findings. */
#include "dibs/dibs.h"

#include "base/banned.h"

const char *dibs_event_kind_text(dibs_event_kind kind)
{
    switch (kind) {
    case DIBS_EV_CLAIMED: return "claimed";
    case DIBS_EV_RELEASED: return "released";
    case DIBS_EV_RENEWED: return "renewed";
    case DIBS_EV_TRANSFERRED: return "transferred";
    case DIBS_EV_REAPED: return "reaped";
    case DIBS_EV_UNHELD: return "unheld";
    case DIBS_EV_REPAIRED: return "repaired";
    case DIBS_EV_LEAKED: return "leaked";
    case DIBS_EV_QUARANTINED: return "quarantined";
    case DIBS_EV_POOL: return "pool";
    }
    return "unknown";
}

const char *dibs_repair_kind_text(dibs_repair_kind kind)
{
    switch (kind) {
    case DIBS_REPAIR_RESTORED: return "restored";
    case DIBS_REPAIR_DUPLICATE: return "duplicate";
    case DIBS_REPAIR_OUTSIDE: return "out-of-range";
    case DIBS_REPAIR_SUSPECT: return "suspect";
    case DIBS_REPAIR_LEAK: return "leak";
    case DIBS_REPAIR_FULL: return "not-restored";
    case DIBS_REPAIR_UNCLAIMED: return "unclaimed";
    case DIBS_REPAIR_REAPED: return "reaped";
    }
    return "unknown";
}
