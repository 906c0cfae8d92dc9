/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_REMOTE_H
#define DIBS_LIB_REMOTE_H
/* The library's functions over the Unix socket of a daemon.
 *
 * One connection, kept alive; each verb ends within the settings' timeout, whatever the other end does. A
 * request whose answer is lost is sent again within that time: the daemon may have been restarted. A claim
 * carries a key, so that a request that is sent twice claims once. */
#include "base/auto.h"
#include "core/core.h"

struct remote;

/* Find the daemon that the settings mean; false: none, the ledger itself. *is_named: a setting names it. */
bool remote_find(const dibs_settings *settings, char out[DIBS_SETTING_VALUE_MAX + 1], bool *is_named);

/* Connect. UNAVAILABLE, with what to do, when no daemon answers there. `settings` are borrowed for as long as
 * it is open. */
dibs_status remote_open(const char *path, bool is_named, const dibs_settings *settings, struct remote **out,
                        dibs_err *err);
void remote_close(struct remote *r); /* NULL is fine */
DEFINE_AUTO(struct remote, remote_close)

struct wire_daemon;
dibs_status remote_daemon(struct remote *r, struct wire_daemon *out, dibs_err *err);
/* The principal that the daemon sees; "" when it does not answer. Asked once. */
const char *remote_principal(struct remote *r);
/* Why the daemon works without its ledger; false when it does not. Asked each time. */
bool remote_degraded(struct remote *r, char *why, size_t size);
/* Of this host, which is the daemon's too. */
int64_t remote_boot_ms(void);

/* As dibs_claim_ports(); arguments have been checked. */
dibs_status remote_claim(struct remote *r, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
/* Send the request, and read a list of exactly `n` claims. */
struct exchange;
dibs_status remote_ask_claims(struct exchange *exchange, size_t n, dibs_claim *out, dibs_err *err);
extern const struct exchange_type remote_claims;
#endif
