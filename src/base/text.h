/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_TEXT_H
#define DIBS_BASE_TEXT_H
/* UTF-8, truncation, numbers and percent escapes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return the bytes of the UTF-8 character at p (1 to 4), 0 when it is broken or longer than `left`. */
size_t text_utf8_length(const char *p, size_t left);

/* Copy foreign text for a message or a terminal: control characters and broken bytes become '?', and a text
 * that does not fit ends in "...". Returns `out`, always NUL-terminated. */
const char *text_safe(const char *text, char *out, size_t size);

/* Copy with truncation; `out` is always NUL-terminated. True when all of it fitted. */
bool text_copy(char *out, size_t size, const char *text);

/* Parse all of the `n` bytes as a decimal number of at most `max`: digits only. */
bool text_number(const char *text, size_t n, uint64_t max, uint64_t *out);

/* Decode %XX in place, and '+' as a blank if asked. False for a broken escape, and for %00. */
bool text_percent_decode(char *text, bool plus_is_blank);
#endif
