/* SPDX-License-Identifier: MIT */
#include "wire/words.h"

#include <stdio.h>
#include <string.h>

#include "wire/wire.h"

#include "base/banned.h"

const char *const words_life[WORDS_LIFE] = {
    [DIBS_ALIVE] = "alive",
    [DIBS_DEAD] = "dead",
    [DIBS_UNKNOWN] = "unknown",
};
const char *const words_kind[WORDS_KIND] = { [DIBS_DYNAMIC] = "dynamic", [DIBS_STATIC] = "static" };
const char *const words_mode[WORDS_MODE] = {
    [DIBS_RANDOM] = "random",
    [DIBS_REQUIRED] = "required",
    [DIBS_PREFERRED] = "preferred",
    [DIBS_DECLARED] = "declared",
};
const char *const words_holder[WORDS_HOLDER] = {
    [DIBS_HELD_BY_PROCESS] = "process", [DIBS_HELD_BY_LEASE] = "lease"
};
const char *const words_scope[WORDS_SCOPE] = { [DIBS_SCOPE_HOST] = "host", [DIBS_SCOPE_CLUSTER] = "cluster" };
const char *const words_relation[WORDS_RELATION] = {
    [DIBS_REL_NONE] = "none",
    [DIBS_REL_SAME_NAME] = "same_name",
    [DIBS_REL_SAME_HOLDER] = "same_holder",
    [DIBS_REL_OWN_WILDCARD] = "own_wildcard",
    [DIBS_REL_OTHER_HOLDER] = "other_holder",
    [DIBS_REL_FOREIGN] = "foreign",
    [DIBS_REL_USES] = "uses",
};
const char *const words_trouble[WORDS_TROUBLE] = {
    [DIBS_TROUBLE_MISSING] = "missing", [DIBS_TROUBLE_UNWRITABLE] = "unwritable",
    [DIBS_TROUBLE_FULL] = "full",       [DIBS_TROUBLE_LOCKED] = "locked",
    [DIBS_TROUBLE_DAMAGED] = "damaged", [DIBS_TROUBLE_NEWER] = "newer",
    [DIBS_TROUBLE_REMOTE] = "remote",
};
const char *const words_reason[WORDS_REASON] = {
    [DIBS_WHY_CLAIMED] = "claimed",     [DIBS_WHY_DECLARED] = "declared",
    [DIBS_WHY_FOREIGN] = "foreign",     [DIBS_WHY_COOLING] = "cooling",
    [DIBS_WHY_EPHEMERAL] = "ephemeral", [DIBS_WHY_RESERVED] = "reserved",
    [DIBS_WHY_BROWSER] = "browser",     [DIBS_WHY_OUTSIDE] = "outside",
    [DIBS_WHY_BAND] = "band",           [DIBS_WHY_PRIVILEGED] = "privileged",
};
const char *const words_severity[WORDS_SEVERITY] = {
    [DIBS_FINE] = "ok",
    [DIBS_NOTE] = "note",
    [DIBS_WARNING] = "warn",
    [DIBS_PROBLEM] = "problem",
};

void words_events(const char *out[WORDS_EVENT])
{
    out[0] = NULL;
    for (unsigned i = DIBS_EV_CLAIMED; i < WORDS_EVENT; i++)
        out[i] = dibs_event_kind_text((dibs_event_kind) i);
}

void words_repairs(const char *out[WORDS_REPAIR])
{
    out[0] = NULL;
    for (unsigned i = DIBS_REPAIR_RESTORED; i < WORDS_REPAIR; i++)
        out[i] = dibs_repair_kind_text((dibs_repair_kind) i);
}

const char *words_at(const char *const *words, size_t n, unsigned value)
{
    return value < n && words[value] ? words[value] : "unknown";
}

const char *wire_life_text(dibs_life life)
{
    return words_at(words_life, WORDS_LIFE, life);
}

const char *wire_scope_text(dibs_scope scope)
{
    return words_at(words_scope, WORDS_SCOPE, scope);
}

const char *wire_reason_text(dibs_reason_kind kind)
{
    return words_at(words_reason, WORDS_REASON, kind);
}

/* What machines branch on. Exhaustive: a new status does not compile without a word. */
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
