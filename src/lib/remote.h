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

/* The verbs of dibs.h; arguments have been checked. Outputs are written only on success. */
dibs_status remote_claim(struct remote *r, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
dibs_status remote_release(struct remote *r, const dibs_which *which, unsigned flags, size_t *n,
                           dibs_err *err);
dibs_status remote_claim_on_hosts(struct remote *r, const dibs_request *request,
                                  const struct core_hosts *hosts, dibs_claim *out, dibs_err *err);
dibs_status remote_release_on_hosts(struct remote *r, const dibs_which *which, const struct core_hosts *hosts,
                                    size_t *n, dibs_err *err);
dibs_status remote_renew(struct remote *r, const dibs_which *which, int64_t ttl_ms, dibs_claim *out,
                         dibs_err *err);
dibs_status remote_transfer(struct remote *r, const dibs_which *which, const dibs_heir *heir, dibs_claim *out,
                            dibs_err *err);
dibs_status remote_claim_find(struct remote *r, const dibs_which *which, dibs_claim *out, dibs_err *err);
dibs_status remote_name(struct remote *r, const char *name, const char *project, char out[DIBS_NAME_MAX + 1],
                        dibs_err *err);
dibs_status remote_list(struct remote *r, const dibs_filter *filter, dibs_claim_fn fn, void *ctx,
                        dibs_err *err);
dibs_status remote_events(struct remote *r, const dibs_event_query *query, dibs_event_fn fn, void *ctx,
                          dibs_err *err);
dibs_status remote_node_list(struct remote *r, dibs_node_fn fn, void *ctx, dibs_err *err);
dibs_status remote_node_remove(struct remote *r, const char *name, unsigned flags, size_t *n, dibs_err *err);
dibs_status remote_pool_get(struct remote *r, const char *name, dibs_pool *out, dibs_err *err);
dibs_status remote_pool_put(struct remote *r, const dibs_pool *pool, dibs_err *err);
dibs_status remote_pool_remove(struct remote *r, const char *name, dibs_err *err);
dibs_status remote_pool_list(struct remote *r, dibs_pool_fn fn, void *ctx, dibs_err *err);
dibs_status remote_pool_usage(struct remote *r, const char *name, dibs_pool_usage *out, dibs_err *err);
dibs_status remote_explain(struct remote *r, const dibs_port_question *question, dibs_port_report *out,
                           dibs_err *err);
dibs_status remote_assert(struct remote *r, const dibs_which *which, dibs_socket *out, dibs_err *err);
dibs_status remote_reap(struct remote *r, struct core_reaping *reaping, dibs_err *err);
dibs_status remote_repair(struct remote *r, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                          dibs_err *err);
dibs_status remote_export(struct remote *r, const char *pool, const struct core_range_export *out,
                          dibs_err *err);
dibs_status remote_import(struct remote *r, const char *pool, const dibs_range_snapshot *snapshot,
                          size_t *n_claimed, dibs_err *err);
dibs_status remote_restore(struct remote *r, const dibs_snapshot *snapshot, size_t *n_restored,
                           dibs_err *err);
dibs_status remote_doctor(struct remote *r, bool fix, dibs_finding_fn fn, void *ctx, dibs_err *err);
#endif
