/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_TOKENS_H
#define DIBS_DAEMON_TOKENS_H
/* Tokens of callers over TCP: a file of lines "PRINCIPAL TOKEN", where PRINCIPAL is uid:N. Blank lines and
 * lines that begin with '#' are ignored. No message ever shows a token. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"

#define TOKENS_TOKEN_MIN 16 /* bytes; fewer could be guessed */
#define TOKENS_TOKEN_MAX 256
#define TOKENS_MAX 1024 /* every lookup compares with all of them */

struct tokens;

/* Load a file of tokens. INVALID names the line; DENIED: other users could read or change it. */
dibs_status tokens_load(const char *path, struct tokens **out, dibs_err *err);
/* Parse tokens from a text; messages call it `name`. The caller owns *out. */
dibs_status tokens_parse(const char *name, const char *text, size_t len, struct tokens **out, dibs_err *err);
void tokens_free(struct tokens *tokens); /* NULL is fine; overwrites the tokens in memory */

/* Find the user of a token, in constant time. */
bool tokens_find(const struct tokens *tokens, const char *token, size_t len, uint32_t *uid);
#endif
