/* SPDX-License-Identifier: MIT */
#include "daemon/tokens.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"

#include "base/banned.h"

/* Space for a principal, a blank, a token and a comment line per token. */
enum { FILE_MAX = TOKENS_MAX * 512 };

#define PREFIX "uid:"

/* Padded with zeros, so that all comparisons have the same length; no token contains a zero. */
struct entry {
    char token[TOKENS_TOKEN_MAX];
    uint32_t uid;
};

struct tokens {
    size_t n;
    struct entry entry[TOKENS_MAX];
};

/* Parse "uid:N" as dibs writes it: another spelling would be another principal. */
static bool parse_principal(const char *word, uint32_t *uid)
{
    const char *number = word + sizeof PREFIX - 1;
    uint64_t n = 0;

    if (strncmp(word, PREFIX, sizeof PREFIX - 1) != 0 || (number[0] == '0' && number[1]) ||
        !text_number(number, strlen(number), UINT32_MAX - 1, &n)) /* (uid_t) -1 is no user */
        return false;
    *uid = (uint32_t) n;
    return true;
}

static bool is_token(const char *word)
{
    size_t n = 0;

    while (word[n] > ' ' && word[n] <= '~')
        n++;
    return !word[n] && n >= TOKENS_TOKEN_MIN && n <= TOKENS_TOKEN_MAX;
}

/* Add the token of a line, which is modified. Return NULL or an error message. */
static const char *add_line(struct tokens *tokens, char *line)
{
    char *rest = NULL;
    const char *principal = strtok_r(line, " \t", &rest);
    const char *token = principal ? strtok_r(NULL, " \t", &rest) : NULL;
    struct entry *e = &tokens->entry[tokens->n];

    if (!principal || principal[0] == '#')
        return NULL;
    if (tokens->n == TOKENS_MAX)
        return "too many tokens: at most 1024";
    if (!parse_principal(principal, &e->uid))
        return "expected 'uid:N TOKEN', such as 'uid:1000' and a token";
    if (!token || !is_token(token))
        return "expected a token of 16 to 256 printable characters after the principal";
    if (strtok_r(NULL, " \t", &rest))
        return "there is more on the line than a principal and a token";
    memcpy(e->token, token, strlen(token));
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
    AUTO(secret_done) struct bytes copy = { 0 };
    char *rest = bytes_reserve(&copy, len + 1);

    if (!tokens || !rest)
        return err_set(err, DIBS_FAILURE, "tokens file %s: out of memory", name);
    memcpy(rest, text, len);
    rest[len] = '\0';
    if (strlen(rest) != len)
        return err_set(err, DIBS_INVALID, "tokens file %s: there is a NUL byte in it", name);
    for (unsigned line = 1; rest; line++) {
        const char *wrong = add_line(tokens, strsep(&rest, "\n"));

        if (wrong)
            return err_set(err, DIBS_INVALID, "tokens file %s:%u: %s", name, line, wrong);
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

/* Return all ones if all bytes are equal, else 0; reads all bytes in any case. */
static uint32_t equal_mask(const char *a, const char *b)
{
    uint32_t differs = 0;

    for (size_t i = 0; i < TOKENS_TOKEN_MAX; i++)
        differs |= (uint32_t) (unsigned char) (a[i] ^ b[i]);
    return (uint32_t) ((differs - 1) >> 31) * UINT32_MAX;
}

bool tokens_find(const struct tokens *tokens, const char *token, size_t len, uint32_t *uid)
{
    char wanted[TOKENS_TOKEN_MAX] = { 0 };
    uint32_t which = 0;
    uint32_t found = 0;

    if (len < TOKENS_TOKEN_MIN || len > TOKENS_TOKEN_MAX)
        return false;
    memcpy(wanted, token, len);
    for (size_t i = 0; i < tokens->n; i++) {
        uint32_t mask = equal_mask(tokens->entry[i].token, wanted);

        which |= tokens->entry[i].uid & mask;
        found |= mask;
    }
    explicit_bzero(wanted, sizeof wanted);
    if (found)
        *uid = which;
    return found;
}
