/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_QUOTE_H
#define DIBS_NET_QUOTE_H
/* Quote foreign text inside a message: cut when long, and harmless on a terminal. */
#include <stddef.h>

/* Enough of a wrong text to recognise it; more would bury the reason. */
#define QUOTE_BYTES 48
/* Each byte may become "\xNN"; "..." and the NUL follow. */
#define QUOTE_SIZE (4 * QUOTE_BYTES + 4)

/* Write the first QUOTE_BYTES of `text` (of `n` bytes), without quotation marks; bytes that are
 * not printable ASCII become \xNN, and a cut shows as "...". Returns `out`. */
const char *quote_bytes(char out[QUOTE_SIZE], const char *text, size_t n);
/* The same for a whole string; NULL counts as empty. */
const char *quote_text(char out[QUOTE_SIZE], const char *text);
#endif
