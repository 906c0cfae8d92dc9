/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_TEXT_H
#define DIBS_BASE_TEXT_H
/* UTF-8, truncation, numbers and percent escapes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return the length of the UTF-8 character at p (1 to 4); 0: invalid, or longer than `left`. */
size_t text_utf8_length(const char *p, size_t left);

/* Copy foreign text for a message or a terminal: control characters and invalid bytes become '?', and a text
 * that does not fit ends in "...". Returns `out`, always NUL-terminated. */
const char *text_safe(const char *text, char *out, size_t size);

/* The ending of a plural: "%zu claim%s", n, TEXT_S(n). */
#define TEXT_S(n) ((n) == 1 ? "" : "s")

/* Copy with truncation; `out` is always NUL-terminated. True: all of it fits. */
bool text_copy(char *out, size_t size, const char *text);

/* Parse all `n` bytes as a decimal number of at most `max`: digits only. */
bool text_number(const char *text, size_t n, uint64_t max, uint64_t *out);

/* Return whether this is a boot id as the kernel writes it. */
bool text_is_boot_id(const char *text);

/* Decode %XX in place, and '+' as a blank if asked. False for an invalid escape and for %00. */
bool text_percent_decode(char *text, bool plus_is_blank);
#endif
