/* SPDX-License-Identifier: MIT */
#include "daemon/tokens.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"

#include "base/banned.h"

/* A principal, a blank, a token and a comment above it for each. */
enum { FILE_MAX = TOKENS_MAX * 512 };

#define PREFIX "uid:"

/* Padded with zeros, which no token has: all are of one length when they are compared. */
struct entry {
    char token[TOKENS_TOKEN_MAX];
    uint32_t uid;
};

struct tokens {
    size_t n;
    struct entry entry[TOKENS_MAX];
};

struct span {
    const char *p;
    size_t n;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes the first word off `rest`; empty when there is none. */
static struct span next_word(struct span *rest)
{
    size_t start = 0;

    while (start < rest->n && is_blank(rest->p[start]))
        start++;
    size_t end = start;
    while (end < rest->n && !is_blank(rest->p[end]))
        end++;
    struct span word = { rest->p + start, end - start };
    *rest = (struct span){ rest->p + end, rest->n - end };
    return word;
}

/* "uid:N" as dibs writes it: another spelling would be another principal. */
static bool parse_principal(struct span word, uint32_t *uid)
{
    const size_t prefix = sizeof PREFIX - 1;
    uint64_t n = 0;

    if (word.n <= prefix || memcmp(word.p, PREFIX, prefix) != 0 ||
        (word.p[prefix] == '0' && word.n > prefix + 1))
        return false;
    if (!text_number(word.p + prefix, word.n - prefix, UINT32_MAX - 1, &n)) /* (uid_t) -1 is no user */
        return false;
    *uid = (uint32_t) n;
    return true;
}

static bool is_token(struct span word)
{
    for (size_t i = 0; i < word.n; i++)
        if (word.p[i] <= ' ' || word.p[i] > '~')
            return false;
    return word.n >= TOKENS_TOKEN_MIN && word.n <= TOKENS_TOKEN_MAX;
}

/* NULL, or an error message for the line. */
static const char *add_line(struct tokens *tokens, struct span line)
{
    struct span principal = next_word(&line);
    struct span token = next_word(&line);
    struct span more = next_word(&line);
    struct entry *e = &tokens->entry[tokens->n];

    if (principal.n == 0 || principal.p[0] == '#')
        return NULL;
    if (tokens->n == TOKENS_MAX)
        return "too many tokens: at most 1024";
    if (!parse_principal(principal, &e->uid))
        return "expected 'uid:N TOKEN', such as 'uid:1000' and a token";
    if (!is_token(token))
        return "expected a token of 16 to 256 printable characters after the principal";
    if (more.n > 0)
        return "there is more on the line than a principal and a token";
    memcpy(e->token, token.p, token.n);
    for (size_t i = 0; i < tokens->n; i++)
        if (memcmp(tokens->entry[i].token, e->token, sizeof e->token) == 0)
            return "the token is there already, on a line above";
    tokens->n++;
    return NULL;
}
_Static_assert(TOKENS_MAX == 1024 && TOKENS_TOKEN_MIN == 16 && TOKENS_TOKEN_MAX == 256,
               "as the messages say");

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    explicit_bzero(tokens, sizeof *tokens);
    free(tokens);
}
DEFINE_AUTO(struct tokens, tokens_free)

dibs_status tokens_parse(const char *name, const char *text, size_t len, struct tokens **out, dibs_err *err)
{
    AUTO(tokens_free_auto) struct tokens *tokens = calloc(1, sizeof *tokens);
    struct span rest = { text, len };

    if (!tokens)
        return err_set(err, DIBS_FAILURE, "tokens file %s: out of memory", name);
    for (unsigned line = 1; rest.n > 0; line++) {
        const char *end = memchr(rest.p, '\n', rest.n);
        size_t n = end ? (size_t) (end - rest.p) : rest.n;
        const char *wrong = add_line(tokens, (struct span){ rest.p, n });

        if (wrong)
            return err_set(err, DIBS_INVALID, "tokens file %s:%u: %s", name, line, wrong);
        n += end ? 1 : 0;
        rest = (struct span){ rest.p + n, rest.n - n };
    }
    *out = TAKE(tokens);
    return DIBS_OK;
}

dibs_status tokens_load(const char *path, struct tokens **out, dibs_err *err)
{
    AUTO(secret_done) struct bytes text = { 0 };
    dibs_status s = secret_read("tokens file", path, FILE_MAX, &text, err);

    return s == DIBS_OK ? tokens_parse(path, text.at, text.n, out, err) : s;
}

/* All ones if all bytes agree, else 0; looks at all of them in any case. */
static uint32_t equal_mask(const char *a, const char *b)
{
    uint32_t differs = 0;

    for (size_t i = 0; i < TOKENS_TOKEN_MAX; i++)
        differs |= (uint32_t) (unsigned char) (a[i] ^ b[i]);
    return (uint32_t) ((differs - 1) >> 31) * UINT32_MAX;
}

bool tokens_find(const struct tokens *tokens, const char *token, size_t len,
                 char principal[DIBS_PRINCIPAL_MAX + 1])
{
    char wanted[TOKENS_TOKEN_MAX] = { 0 };
    uint32_t uid = 0;
    uint32_t found = 0;

    if (len < TOKENS_TOKEN_MIN || len > TOKENS_TOKEN_MAX)
        return false;
    memcpy(wanted, token, len);
    for (size_t i = 0; i < tokens->n; i++) {
        uint32_t mask = equal_mask(tokens->entry[i].token, wanted);

        uid |= tokens->entry[i].uid & mask;
        found |= mask;
    }
    explicit_bzero(wanted, sizeof wanted);
    if (!found)
        return false;
    (void) snprintf(principal, DIBS_PRINCIPAL_MAX + 1, PREFIX "%u", uid);
    return true;
}
