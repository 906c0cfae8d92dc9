/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "codec/wire.h"

#include "base/banned.h"

const struct words words_life = { {
    [DIBS_ALIVE] = "alive",
    [DIBS_DEAD] = "dead",
    [DIBS_UNKNOWN] = "unknown",
} };
const struct words words_kind = { { [DIBS_DYNAMIC] = "dynamic", [DIBS_STATIC] = "static" } };
const struct words words_mode = { {
    [DIBS_RANDOM] = "random",
    [DIBS_REQUIRED] = "required",
    [DIBS_PREFERRED] = "preferred",
    [DIBS_DECLARED] = "declared",
} };
const struct words words_holder = { { [DIBS_HELD_BY_PROCESS] = "process", [DIBS_HELD_BY_LEASE] = "lease" } };
const struct words words_hold = { {
    [DIBS_HOLD_AUTO] = "auto",
    [DIBS_HOLD_NONE] = "none",
    [DIBS_HOLD_GUARD] = "guard",
    [DIBS_HOLD_FD] = "fd",
    [DIBS_HOLD_ENFORCE] = "enforce",
} };
const struct words words_scope = { { [DIBS_SCOPE_HOST] = "host", [DIBS_SCOPE_CLUSTER] = "cluster" } };
const struct words words_relation = { {
    [DIBS_REL_NONE] = "none",
    [DIBS_REL_SAME_NAME] = "same_name",
    [DIBS_REL_SAME_HOLDER] = "same_holder",
    [DIBS_REL_OWN_WILDCARD] = "own_wildcard",
    [DIBS_REL_OTHER_HOLDER] = "other_holder",
    [DIBS_REL_FOREIGN] = "foreign",
    [DIBS_REL_USES] = "uses",
    [DIBS_REL_NAT] = "nat",
} };
const struct words words_trouble = { {
    [DIBS_TROUBLE_MISSING] = "missing",
    [DIBS_TROUBLE_UNWRITABLE] = "unwritable",
    [DIBS_TROUBLE_FULL] = "full",
    [DIBS_TROUBLE_LOCKED] = "locked",
    [DIBS_TROUBLE_DAMAGED] = "damaged",
    [DIBS_TROUBLE_NEWER] = "newer",
    [DIBS_TROUBLE_REMOTE] = "remote",
} };
const struct words words_reason = { {
    [DIBS_WHY_CLAIMED] = "claimed",
    [DIBS_WHY_DECLARED] = "declared",
    [DIBS_WHY_FOREIGN] = "foreign",
    [DIBS_WHY_COOLING] = "cooling",
    [DIBS_WHY_EPHEMERAL] = "ephemeral",
    [DIBS_WHY_RESERVED] = "reserved",
    [DIBS_WHY_BROWSER] = "browser",
    [DIBS_WHY_OUTSIDE] = "outside",
    [DIBS_WHY_BAND] = "band",
    [DIBS_WHY_PRIVILEGED] = "privileged",
    [DIBS_WHY_UNUSABLE] = "unusable",
    [DIBS_WHY_NAT] = "nat",
} };
const struct words words_severity = { {
    [DIBS_FINE] = "ok",
    [DIBS_NOTE] = "note",
    [DIBS_WARNING] = "warn",
    [DIBS_PROBLEM] = "problem",
} };

const struct words words_event = { {
    [DIBS_EV_CLAIMED] = "claimed",
    [DIBS_EV_RELEASED] = "released",
    [DIBS_EV_RENEWED] = "renewed",
    [DIBS_EV_TRANSFERRED] = "transferred",
    [DIBS_EV_REAPED] = "reaped",
    [DIBS_EV_UNHELD] = "unheld",
    [DIBS_EV_REPAIRED] = "repaired",
    [DIBS_EV_LEAKED] = "leaked",
    [DIBS_EV_QUARANTINED] = "quarantined",
    [DIBS_EV_POOL] = "pool",
} };
const struct words words_repair = { {
    [DIBS_REPAIR_RESTORED] = "restored",
    [DIBS_REPAIR_DUPLICATE] = "duplicate",
    [DIBS_REPAIR_OUTSIDE] = "out-of-range",
    [DIBS_REPAIR_SUSPECT] = "suspect",
    [DIBS_REPAIR_LEAK] = "leak",
    [DIBS_REPAIR_FULL] = "not-restored",
    [DIBS_REPAIR_UNCLAIMED] = "unclaimed",
    [DIBS_REPAIR_REAPED] = "reaped",
} };

const char *dibs_event_kind_text(dibs_event_kind kind)
{
    return words_at(&words_event, kind);
}

const char *dibs_repair_kind_text(dibs_repair_kind kind)
{
    return words_at(&words_repair, kind);
}

const char *words_at(const struct words *words, unsigned value)
{
    return value < sizeof words->at / sizeof *words->at && words->at[value] ? words->at[value] : "unknown";
}

const char *wire_hold_text(const dibs_claim *claim)
{
    return words_at(&words_hold, claim->hold == DIBS_HOLD_AUTO ? DIBS_HOLD_NONE : claim->hold);
}

/* Return a word for programs. Exhaustive: a new status does not compile without one. */
const char *wire_code_text(dibs_status code)
{
    switch (code) {
    case DIBS_OK: return "ok";
    case DIBS_FAILURE: return "failure";
    case DIBS_INVALID: return "invalid";
    case DIBS_TAKEN: return "taken";
    case DIBS_EXHAUSTED: return "exhausted";
    case DIBS_NOT_FOUND: return "not_found";
    case DIBS_UNAVAILABLE: return "unavailable";
    case DIBS_DENIED: return "denied";
    }
    return "failure";
}

void wire_band_text(int32_t band, char out[16])
{
    if (band == DIBS_BAND_AUTO)
        (void) snprintf(out, 16, "auto");
    else if (band == 0)
        (void) snprintf(out, 16, "off");
    else
        (void) snprintf(out, 16, "%d", band);
}

bool wire_band_read(const char *text, int32_t *out)
{
    uint16_t number = 0;

    if (strcmp(text, "auto") == 0)
        *out = DIBS_BAND_AUTO;
    else if (strcmp(text, "off") == 0)
        *out = 0;
    else if (dibs_port_parse(text, &number, NULL) == DIBS_OK)
        *out = number;
    else
        return false;
    return true;
}

const char *wire_verdict_text(const dibs_port_report *report)
{
    if (report->can_claim && report->can_choose)
        return "can be claimed";
    if (report->can_claim)
        return "can be claimed by number, but dynamic choice does not take it";
    return "cannot be claimed";
}
