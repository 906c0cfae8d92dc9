/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_QUOTA_H
#define DIBS_DAEMON_QUOTA_H
/* Limits for each user of a daemon: claims, and requests per second. */
#include <stddef.h>
#include <stdint.h>

#include "host/subuid.h"
#include "ledger/call.h"

/* Two thirds of the default pool (20000-32767): one user cannot exhaust it by mistake. */
#define QUOTA_CLAIMS 8192
/* Half of the capacity of a daemon on a small machine: one user in a loop leaves the rest to the others. */
#define QUOTA_REQUESTS_PER_S 20000

struct quota;

struct quota_options {
    uint32_t claims;         /* 0: QUOTA_CLAIMS */
    uint32_t requests_per_s; /* also the burst; 0: QUOTA_REQUESTS_PER_S */
};

dibs_status quota_open(const struct quota_options *options, struct quota **out, dibs_err *err);
void quota_close(struct quota *quota); /* NULL is fine */

/* Read the file of subordinate uids again if it has changed. True: it has, so count all claims again. */
bool quota_follow_owners(struct quota *quota, const char *path);
/* Return the user for whose limits this uid counts: the owner of a subordinate uid. */
uint32_t quota_user(const struct quota *quota, uint32_t uid);

/* Count existing claims of a principal's user: add, subtract, or reset all. The limit is not checked. */
void quota_note(struct quota *quota, const char *principal, uint32_t n);
void quota_give(struct quota *quota, const char *principal, uint32_t n);
void quota_clear(struct quota *quota);

/* The claims of one job. They count for the jobs after it before their events arrive. */
struct quota_use {                     /* zero before the first attempt */
    struct ledger_allowance allowance; /* rest of the quota, for the job's call */
    uint32_t before, n_made;
};
/* Call these before each attempt of the job, after it, and when its events were counted or there are none. */
void quota_begin(struct quota *quota, const char *principal, struct quota_use *use);
void quota_made(struct quota *quota, const char *principal, struct quota_use *use);
void quota_end(struct quota *quota, const char *principal, struct quota_use *use);

/* Charge one request of this user at `now_ms`. Return 0, or after how many milliseconds it may be made. */
int64_t quota_request(struct quota *quota, uint32_t uid, int64_t now_ms);
/* Charge the cost of `n` more requests: the user's next request waits for them, up to a minute. */
void quota_charge(struct quota *quota, uint32_t uid, uint32_t n, int64_t now_ms);
#endif
