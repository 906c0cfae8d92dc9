/* SPDX-License-Identifier: MIT */
#include "daemon/ui/sessions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/text.h"
#include "codec/json.h"
#include "server/digest.h"

#include "base/banned.h"

#define HEAD "dibs-sessions 1 "
#define NONE SIZE_MAX

enum { SECRET_BYTES = SESSIONS_SECRET_TEXT / 2 };

struct secret {
    uint8_t digest[DIGEST_BYTES]; /* of its text */
    uint32_t uid;
    int64_t ends_ms;
};

/* Secrets of one kind, the oldest first. */
struct secrets {
    struct secret *list;
    size_t n, max, max_per_user;
};

struct sessions {
    struct secrets tokens, open;
    struct secret token_list[SESSIONS_TOKENS_MAX], open_list[SESSIONS_MAX];
};

dibs_status sessions_new(struct sessions **out, dibs_err *err)
{
    struct sessions *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "sessions of the dashboard: out of memory");
    self->tokens = (struct secrets){ self->token_list, 0, SESSIONS_TOKENS_MAX, SESSIONS_TOKENS_PER_USER };
    self->open = (struct secrets){ self->open_list, 0, SESSIONS_MAX, SESSIONS_PER_USER };
    *out = self;
    return DIBS_OK;
}

void sessions_free(struct sessions *sessions)
{
    free(sessions);
}

/* ---- secrets ---- */

static void write_hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        (void) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void drop(struct secrets *all, size_t at)
{
    all->n--;
    memmove(&all->list[at], &all->list[at + 1], (all->n - at) * sizeof *all->list);
}

static void drop_ended(struct secrets *all, int64_t now_ms)
{
    for (size_t i = all->n; i-- > 0;)
        if (all->list[i].ends_ms <= now_ms)
            drop(all, i);
}

static size_t count_living(const struct secrets *all, int64_t now_ms)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n; i++)
        n += all->list[i].ends_ms > now_ms;
    return n;
}

/* Drop the user's oldest one if it has as many as it may have. */
static void make_room(struct secrets *all, uint32_t uid)
{
    size_t n = 0;
    size_t oldest = NONE;

    for (size_t i = all->n; i-- > 0;)
        if (all->list[i].uid == uid) {
            oldest = i;
            n++;
        }
    if (n >= all->max_per_user)
        drop(all, oldest);
}

/* Return all ones if the digests are equal, else 0; reads all bytes in any case. */
static size_t equal_mask(const uint8_t *a, const uint8_t *b)
{
    uint32_t differs = 0;

    for (size_t i = 0; i < DIGEST_BYTES; i++)
        differs |= (uint32_t) (a[i] ^ b[i]);
    return (size_t) 0 - (size_t) ((differs - 1) >> 31);
}

/* Find a secret that has not ended, in constant time for its kind. */
static size_t find(const struct secrets *all, const char *text, int64_t now_ms)
{
    uint8_t digest[DIGEST_BYTES];
    size_t found = NONE;

    if (strlen(text) != SESSIONS_SECRET_TEXT || !digest_sha256(text, SESSIONS_SECRET_TEXT, digest))
        return NONE;
    for (size_t i = 0; i < all->n; i++) {
        size_t mask = equal_mask(all->list[i].digest, digest);

        found = (found & ~mask) | (i & mask);
    }
    return found == NONE || all->list[found].ends_ms <= now_ms ? NONE : found;
}

/* Add a new secret; `out` is its text. */
static dibs_status add(struct secrets *all, uint32_t uid, int64_t ends_ms, char out[SESSIONS_SECRET_TEXT + 1],
                       dibs_err *err)
{
    uint8_t random[SECRET_BYTES];
    struct secret *secret = &all->list[all->n];
    char text[SESSIONS_SECRET_TEXT + 1];

    if (all->n == all->max)
        return err_trouble(err, DIBS_TROUBLE_NONE,
                           "too many users open the dashboard at the moment; try again in a minute");
    if (getrandom(random, sizeof random, 0) != (ssize_t) sizeof random)
        return err_set(err, DIBS_FAILURE, "the kernel gives no random bytes");
    write_hex(random, sizeof random, text);
    *secret = (struct secret){ .uid = uid, .ends_ms = ends_ms };
    if (!digest_sha256(text, SESSIONS_SECRET_TEXT, secret->digest))
        return err_set(err, DIBS_FAILURE, "GnuTLS computes no SHA-256");
    all->n++;
    memcpy(out, text, sizeof text);
    explicit_bzero(random, sizeof random);
    explicit_bzero(text, sizeof text);
    return DIBS_OK;
}

/* ---- tokens and sessions ---- */

dibs_status sessions_offer(struct sessions *sessions, uint32_t uid, int64_t now_ms,
                           char out[SESSIONS_SECRET_TEXT + 1], dibs_err *err)
{
    drop_ended(&sessions->tokens, now_ms);
    make_room(&sessions->tokens, uid);
    return add(&sessions->tokens, uid, now_ms + SESSIONS_TOKEN_MS, out, err);
}

bool sessions_is_offered(const struct sessions *sessions, const char *token, int64_t now_ms, uint32_t *uid)
{
    size_t at = find(&sessions->tokens, token, now_ms);

    if (at == NONE)
        return false;
    *uid = sessions->tokens.list[at].uid;
    return true;
}

dibs_status sessions_begin(struct sessions *sessions, const char *token, int64_t now_ms,
                           char out[SESSIONS_SECRET_TEXT + 1], dibs_err *err)
{
    size_t at = find(&sessions->tokens, token, now_ms);

    if (at == NONE)
        return err_set(err, DIBS_DENIED, "this address was used already, or is older than a minute");
    uint32_t uid = sessions->tokens.list[at].uid;
    drop(&sessions->tokens, at);
    drop_ended(&sessions->open, now_ms);
    make_room(&sessions->open, uid);
    return add(&sessions->open, uid, now_ms + SESSIONS_LIFE_MS, out, err);
}

bool sessions_find(const struct sessions *sessions, const char *session, int64_t now_ms, uint32_t *uid,
                   int64_t *ends_ms)
{
    size_t at = find(&sessions->open, session, now_ms);

    if (at == NONE)
        return false;
    *uid = sessions->open.list[at].uid;
    *ends_ms = sessions->open.list[at].ends_ms;
    return true;
}

/* The id is the beginning of the digest's digest. */
static void id_of(const uint8_t digest[DIGEST_BYTES], char out[SESSIONS_ID_TEXT + 1])
{
    uint8_t twice[DIGEST_BYTES] = { 0 };

    (void) digest_sha256(digest, DIGEST_BYTES, twice);
    write_hex(twice, SESSIONS_ID_TEXT / 2, out);
}

void sessions_id(const char *session, char out[SESSIONS_ID_TEXT + 1])
{
    uint8_t digest[DIGEST_BYTES] = { 0 };

    (void) digest_sha256(session, strlen(session), digest);
    id_of(digest, out);
}

bool sessions_prove(const struct sessions *sessions, const char *id, const char *nonce, int64_t now_ms,
                    uint32_t *uid, char out[SESSIONS_PROOF_TEXT + 1])
{
    const struct secrets *open = &sessions->open;
    char proof[SESSIONS_PROOF_TEXT + 2]; /* with the '=' that fills it up */
    char text[SESSIONS_ID_TEXT + 1];
    uint8_t bytes[DIGEST_BYTES];
    size_t at = 0;

    for (; at < open->n; at++) {
        id_of(open->list[at].digest, text);
        if (strcmp(text, id) == 0)
            break;
    }
    if (at == open->n || open->list[at].ends_ms <= now_ms ||
        !digest_hmac(open->list[at].digest, nonce, strlen(nonce), bytes))
        return false;
    base64_encode(bytes, sizeof bytes, proof);
    for (size_t i = 0; i < SESSIONS_PROOF_TEXT; i++)
        out[i] = (char) (proof[i] == '+' ? '-' : proof[i] == '/' ? '_' : proof[i]);
    out[SESSIONS_PROOF_TEXT] = '\0';
    *uid = open->list[at].uid;
    return true;
}

void sessions_end(struct sessions *sessions, const char *session)
{
    size_t at = find(&sessions->open, session, INT64_MIN);

    if (at != NONE)
        drop(&sessions->open, at);
}

void sessions_clear(struct sessions *sessions)
{
    sessions->open.n = 0;
}

size_t sessions_count(const struct sessions *sessions, int64_t now_ms)
{
    return count_living(&sessions->open, now_ms);
}

size_t sessions_offered(const struct sessions *sessions, int64_t now_ms)
{
    return count_living(&sessions->tokens, now_ms);
}

/* ---- the file: "dibs-sessions 1 BOOT_ID PORT", then a line "UID ENDS_MS DIGEST" for each session ---- */

void sessions_format(const struct sessions *sessions, const char *boot_id, uint16_t port, struct bytes *out)
{
    char line[160];

    (void) snprintf(line, sizeof line, HEAD "%s %u\n", boot_id, port);
    bytes_add_text(out, line);
    for (size_t i = 0; i < sessions->open.n; i++) {
        const struct secret *secret = &sessions->open.list[i];
        int n = snprintf(line, sizeof line, "%" PRIu32 " %" PRId64 " ", secret->uid, secret->ends_ms);

        write_hex(secret->digest, DIGEST_BYTES, line + n);
        bytes_add_text(out, line);
        bytes_add_text(out, "\n");
    }
}

static bool read_digest(const char *text, size_t n, uint8_t out[DIGEST_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        const char *digit = memchr(digits, text[i], sizeof digits - 1);

        if (!digit)
            return false;
        out[i / 2] = (uint8_t) (out[i / 2] << 4 | (digit - digits));
    }
    return true;
}

/* Take the word before the next `end`, which must be there. */
static bool take_word(const char **at, const char *stop, char end, const char **word, size_t *n)
{
    const char *found = memchr(*at, end, (size_t) (stop - *at));

    if (!found)
        return false;
    *word = *at;
    *n = (size_t) (found - *at);
    *at = found + 1;
    return true;
}

static bool read_line(const char **at, const char *stop, struct secret *out)
{
    const char *word = NULL;
    size_t n = 0;
    uint64_t number = 0;

    if (!take_word(at, stop, ' ', &word, &n) || !text_number(word, n, UINT32_MAX - 1, &number))
        return false; /* (uid_t) -1 is no user */
    *out = (struct secret){ .uid = (uint32_t) number };
    if (!take_word(at, stop, ' ', &word, &n) || !text_number(word, n, INT64_MAX, &number))
        return false;
    out->ends_ms = (int64_t) number;
    return take_word(at, stop, '\n', &word, &n) && n == (size_t) 2 * DIGEST_BYTES &&
           read_digest(word, n, out->digest);
}

/* Read the first line. *is_ours: it is of this boot. */
static bool read_head(const char **at, const char *stop, const char *boot_id, bool *is_ours, uint64_t *port)
{
    const char *word = NULL;
    size_t n = 0;

    if ((size_t) (stop - *at) < sizeof HEAD || memcmp(*at, HEAD, sizeof HEAD - 1) != 0)
        return false;
    *at += sizeof HEAD - 1;
    if (!take_word(at, stop, ' ', &word, &n))
        return false;
    *is_ours = n == strlen(boot_id) && memcmp(word, boot_id, n) == 0;
    return take_word(at, stop, '\n', &word, &n) && text_number(word, n, UINT16_MAX, port) && *port > 0;
}

dibs_status sessions_parse(struct sessions *sessions, const struct bytes *text, const char *boot_id,
                           int64_t now_ms, uint16_t *port, dibs_err *err)
{
    struct secret found[SESSIONS_MAX];
    const char *at = text->at;
    const char *stop = at + text->n;
    uint64_t used_port = 0;
    bool is_ours = false;
    size_t n_found = 0;

    if (!read_head(&at, stop, boot_id, &is_ours, &used_port))
        return err_set(err, DIBS_INVALID, "line 1 is not that of a sessions file");
    for (size_t line = 2; at < stop; line++) {
        struct secret secret;

        if (!read_line(&at, stop, &secret))
            return err_set(err, DIBS_INVALID, "line %zu is damaged", line);
        if (line - 1 > SESSIONS_MAX)
            return err_set(err, DIBS_INVALID, "more than %d sessions", SESSIONS_MAX);
        /* A later end than any session can have is no end that we wrote. */
        if (is_ours && secret.ends_ms > now_ms && secret.ends_ms - now_ms <= SESSIONS_LIFE_MS)
            found[n_found++] = secret;
    }
    memcpy(sessions->open.list, found, n_found * sizeof *found);
    sessions->open.n = n_found;
    *port = n_found > 0 ? (uint16_t) used_port : 0;
    return DIBS_OK;
}
