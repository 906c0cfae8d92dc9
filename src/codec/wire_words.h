/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CODEC_WIRE_WORDS_H
#define DIBS_CODEC_WIRE_WORDS_H
#include "dibs/dibs.h"

/* The words of an enum, at the places of its values; the rest is NULL. */
struct words {
    const char *at[12];
};
extern const struct words words_life, words_kind, words_mode, words_holder, words_scope, words_relation;
extern const struct words words_trouble, words_reason, words_severity, words_event, words_repair;

/* "unknown" for a value outside of its enum: no reader takes that. */
const char *words_at(const struct words *words, unsigned value);
#endif
