/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WIRE_WORDS_H
#define DIBS_WIRE_WORDS_H
/* The words of each enum, at the place of its value; holes are NULL. */
#include "dibs/dibs.h"

enum {
    WORDS_LIFE = DIBS_UNKNOWN + 1,
    WORDS_KIND = DIBS_STATIC + 1,
    WORDS_MODE = DIBS_DECLARED + 1,
    WORDS_HOLDER = DIBS_HELD_BY_LEASE + 1,
    WORDS_SCOPE = DIBS_SCOPE_CLUSTER + 1,
    WORDS_RELATION = DIBS_REL_USES + 1,
    WORDS_TROUBLE = DIBS_TROUBLE_REMOTE + 1,
    WORDS_REASON = DIBS_WHY_PRIVILEGED + 1,
    WORDS_SEVERITY = DIBS_PROBLEM + 1,
    WORDS_EVENT = DIBS_EV_POOL + 1,
    WORDS_REPAIR = DIBS_REPAIR_REAPED + 1,
};
extern const char *const words_life[WORDS_LIFE];
extern const char *const words_kind[WORDS_KIND];
extern const char *const words_mode[WORDS_MODE];
extern const char *const words_holder[WORDS_HOLDER];
extern const char *const words_scope[WORDS_SCOPE];
extern const char *const words_relation[WORDS_RELATION];
extern const char *const words_trouble[WORDS_TROUBLE];
extern const char *const words_reason[WORDS_REASON];
extern const char *const words_severity[WORDS_SEVERITY];
/* Those that the library has functions for. */
void words_events(const char *out[WORDS_EVENT]);
void words_repairs(const char *out[WORDS_REPAIR]);

/* "unknown" for a value outside of its enum: no reader takes that. */
const char *words_at(const char *const *words, size_t n, unsigned value);
#endif
