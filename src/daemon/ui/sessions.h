/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_UI_SESSIONS_H
#define DIBS_DAEMON_UI_SESSIONS_H
/* The one-time tokens and the sessions of the dashboard. Of each secret only the SHA-256 is kept: 128 random
 * bits need no slower digest. Times are CLOCK_BOOTTIME, so that a changed wall clock prolongs nothing. */
#include <stdbool.h>

#include "base/bytes.h"
#include "dibs/status.h"

enum {
    SESSIONS_ID_TEXT = 16,               /* public: it only selects one of few sessions */
    SESSIONS_PROOF_TEXT = 43,            /* 256 bits as base64url */
    SESSIONS_SECRET_TEXT = 32,           /* 128 random bits as hex digits: the address fits into a line */
    SESSIONS_TOKEN_MS = 60000,           /* of a one-time token: a browser starts within it */
    SESSIONS_LIFE_MS = 12 * 3600 * 1000, /* of a session: a long working day */
    SESSIONS_TOKENS_PER_USER = 4,        /* a person opens one page at a time; the oldest one goes */
    SESSIONS_TOKENS_MAX = 64,            /* of all users, within a minute */
    SESSIONS_PER_USER = 8,               /* tabs and browsers of a person; the oldest one goes */
    SESSIONS_MAX = 256,                  /* of all users; each lookup compares with all of them */
    SESSIONS_TEXT_MAX = 160 * (SESSIONS_MAX + 1), /* bytes of the file, which has a line for each */
};

struct sessions;

dibs_status sessions_new(struct sessions **out, dibs_err *err);
void sessions_free(struct sessions *sessions); /* NULL is fine */

/* Make a one-time token of the user. UNAVAILABLE: too many users have one. */
dibs_status sessions_offer(struct sessions *sessions, uint32_t uid, int64_t now_ms,
                           char out[SESSIONS_SECRET_TEXT + 1], dibs_err *err);
/* Return the user of a one-time token; false: it is unknown, used or expired. */
bool sessions_is_offered(const struct sessions *sessions, const char *token, int64_t now_ms, uint32_t *uid);
/* Use up a one-time token for a new session. DENIED: as above. */
dibs_status sessions_begin(struct sessions *sessions, const char *token, int64_t now_ms,
                           char out[SESSIONS_SECRET_TEXT + 1], dibs_err *err);
/* Return the user of a session, and when it ends; false: it is unknown or has ended. */
bool sessions_find(const struct sessions *sessions, const char *session, int64_t now_ms, uint32_t *uid,
                   int64_t *ends_ms);
/* Write the public id of a session. */
void sessions_id(const char *session, char out[SESSIONS_ID_TEXT + 1]);
/* Prove to a page that this server knows its session: base64url(HMAC-SHA256(SHA-256(session), nonce)), where
 * session and nonce are the texts. Also return the user; false: no session has the id. */
bool sessions_prove(const struct sessions *sessions, const char *id, const char *nonce, int64_t now_ms,
                    uint32_t *uid, char out[SESSIONS_PROOF_TEXT + 1]);
/* End one session. */
void sessions_end(struct sessions *sessions, const char *session);
/* End all sessions. */
void sessions_clear(struct sessions *sessions);
/* Return how many sessions there are, or tokens that wait for their page. */
size_t sessions_count(const struct sessions *sessions, int64_t now_ms);
size_t sessions_offered(const struct sessions *sessions, int64_t now_ms);

/* Write the sessions as the text of a file, with the port that their pages use. */
void sessions_format(const struct sessions *sessions, const char *boot_id, uint16_t port, struct bytes *out);
/* Read such a text, of this boot and without the ended ones, in place of all sessions. *port is 0 when none
 * is left. INVALID: it is damaged, and nothing changes. */
dibs_status sessions_parse(struct sessions *sessions, const struct bytes *text, const char *boot_id,
                           int64_t now_ms, uint16_t *port, dibs_err *err);
#endif
