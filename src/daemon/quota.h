/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_QUOTA_H
#define DIBS_DAEMON_QUOTA_H
/* What one user may have of a daemon that serves many: so many claims, so many requests in a second. */
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"

/* Two thirds of the default pool (20000-32767): one user alone cannot exhaust it by mistake. */
#define QUOTA_CLAIMS 8192
/* Half of what the daemon can do on a small machine: one user in a loop leaves room for the others. */
#define QUOTA_REQUESTS_PER_S 20000

struct quota;

struct quota_options {
    uint32_t claims;         /* 0: QUOTA_CLAIMS */
    uint32_t requests_per_s; /* also as many at once; 0: QUOTA_REQUESTS_PER_S */
};

dibs_status quota_open(const struct quota_options *options, struct quota **out, dibs_err *err);
void quota_close(struct quota *quota); /* NULL is fine */

/* Claims are counted for the user of a principal, whatever pid namespace it names. */
/* So many claims more: EXHAUSTED, with nothing changed, when they would be too many. */
dibs_status quota_take(struct quota *quota, const char *principal, uint32_t n, dibs_err *err);
/* They exist already, as at the start: counted, whatever the limit. Fails for want of memory alone. */
dibs_status quota_note(struct quota *quota, const char *principal, uint32_t n, dibs_err *err);
/* So many claims less. */
void quota_give(struct quota *quota, const char *principal, uint32_t n);
uint32_t quota_count(const struct quota *quota, const char *principal);
uint32_t quota_limit(const struct quota *quota); /* of claims */
size_t quota_users(const struct quota *quota);   /* that have a claim */

/* One request of this user at `now_ms` of a clock that never goes back: 0, or in how many milliseconds it may
 * be made. */
int64_t quota_request(struct quota *quota, uint32_t uid, int64_t now_ms);
/* It was as much work as so many more: they are done, and the user's next request waits for them, up to a
 * minute. */
void quota_charge(struct quota *quota, uint32_t uid, uint32_t n, int64_t now_ms);
#endif
