/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_TEXT_H
#define DIBS_BASE_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at p (1 to 4), 0 when it is broken or longer than `left`. */
size_t text_utf8_length(const char *p, size_t left);

/* Foreign text for a message: control characters and broken bytes become '?', and what does not fit
 * ends in "...". Returns `out`, always NUL-terminated. */
const char *text_safe(const char *text, char *out, size_t size);

/* Copy with truncation; `out` is always NUL-terminated. True when all of it fitted. */
bool text_copy(char *out, size_t size, const char *text);

/* The whole of `n` bytes as a decimal number of at most `max`: digits only. */
bool text_number(const char *text, size_t n, uint64_t max, uint64_t *out);

/* %XX becomes that byte, in place; '+' a blank where forms write one so. False for a broken escape, and for
 * %00, which would end the text early. */
bool text_percent_decode(char *text, bool plus_is_blank);
#endif
