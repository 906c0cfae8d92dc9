/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_UI_ASK_H
#define DIBS_DAEMON_UI_ASK_H
/* Ask a daemon for the address of its dashboard. */
#include "dibs/dibs.h"

struct ui_answer {
    char url[256];
    int64_t expires_ms; /* wall clock */
};
/* Ask the daemon that the settings mean. *is_served is false, and the answer empty, when they mean none.
 * UNAVAILABLE: it does not answer, or has no dashboard. */
dibs_status ui_ask(const dibs_settings *settings, bool *is_served, struct ui_answer *out, dibs_err *err);
#endif
