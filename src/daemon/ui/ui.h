/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_UI_UI_H
#define DIBS_DAEMON_UI_UI_H
/* The dashboard of a daemon: its port, which it claims from its own ledger, and the sessions of its pages,
 * which a file beside the ledger keeps for the next daemon. The API serves the pages. */
#include "daemon/engine.h"
#include "daemon/ui/sessions.h"

enum { UI_SOCKETS_MAX = 2 }; /* 127.0.0.1 and ::1 */

struct ui_options {
    struct engine *engine; /* borrowed */
    bool is_short_lived;   /* it ends with its pages: its sessions have no file */
};

struct ui;

dibs_status ui_open(const struct ui_options *options, struct ui **out, dibs_err *err);
/* End the claim of the port, while the engine is open. The API closes the sockets. NULL is fine. */
void ui_release(struct ui *ui);
void ui_close(struct ui *ui);

/* Has an earlier daemon left sessions whose pages wait for this one? */
bool ui_is_awaited(const struct ui *ui);
/* Claim the port and listen on it: on the one of the sessions that are left, or these end. The caller owns
 * the `*n` sockets; there are none when it listens already. */
dibs_status ui_listen(struct ui *ui, int sockets[UI_SOCKETS_MAX], size_t *n, dibs_err *err);
/* Return the port, or 0. */
uint16_t ui_port(const struct ui *ui);

/* Make an address for one page of the user: "http://127.0.0.1:PORT/#t=TOKEN". */
enum { UI_URL_BYTES = 80 };
dibs_status ui_offer(struct ui *ui, uint32_t uid, char url[UI_URL_BYTES], int64_t *expires_ms, dibs_err *err);
/* Begin the session of a page that a process of user `peer` shows. DENIED: the token is unknown, used,
 * expired, or another user's. */
dibs_status ui_begin(struct ui *ui, const char *token, uint32_t peer, char session[SESSIONS_SECRET_TEXT + 1],
                     uint32_t *uid, dibs_err *err);
/* Find the user of a request's session. DENIED: it is unknown, has ended, or another user's. */
dibs_status ui_find(struct ui *ui, const char *session, uint32_t peer, uint32_t *uid, int64_t *ends_ms,
                    dibs_err *err);
/* As sessions_prove(), to a process of user `peer`. NOT_FOUND: no session of this user has the id. */
dibs_status ui_prove(struct ui *ui, const char *id, const char *nonce, uint32_t peer,
                     char proof[SESSIONS_PROOF_TEXT + 1], dibs_err *err);
void ui_end_session(struct ui *ui, const char *session);
/* Return the clock of the sessions. */
int64_t ui_now_ms(const struct ui *ui);
bool ui_is_short_lived(const struct ui *ui);
/* Has no page asked anything for so long, or can none come any more? `has_pages`: one follows the events. */
bool ui_is_idle(struct ui *ui, int64_t idle_ms, bool has_pages);
#endif
