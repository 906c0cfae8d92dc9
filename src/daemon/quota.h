/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_QUOTA_H
#define DIBS_DAEMON_QUOTA_H
/* Limits of one user of a daemon: claims, and requests per second. */
#include <stddef.h>
#include <stdint.h>

#include "ledger/call.h"

/* Two thirds of the default pool (20000-32767): one user alone cannot exhaust it by mistake. */
#define QUOTA_CLAIMS 8192
/* Half of the capacity of a daemon on a small machine: one user in a loop leaves capacity for the others. */
#define QUOTA_REQUESTS_PER_S 20000

struct quota;

struct quota_options {
    uint32_t claims;         /* 0: QUOTA_CLAIMS */
    uint32_t requests_per_s; /* also as many at once; 0: QUOTA_REQUESTS_PER_S */
};

dibs_status quota_open(const struct quota_options *options, struct quota **out, dibs_err *err);
void quota_close(struct quota *quota); /* NULL is fine */

/* Claims are counted for the user of a principal, whatever pid namespace it names: so many more, so many
 * less, none of any user. They exist: the limit does not matter. */
void quota_note(struct quota *quota, const char *principal, uint32_t n);
void quota_give(struct quota *quota, const char *principal, uint32_t n);
void quota_clear(struct quota *quota);

/* The claims of one job. They count for the jobs after it, before their events come. */
struct quota_use {                     /* zero before the first attempt */
    struct ledger_allowance allowance; /* for the job's call: the rest of the quota */
    uint32_t before, n_made;
};
/* Before each attempt of the job, after it, and when the events were counted or there are none. */
void quota_begin(struct quota *quota, const char *principal, struct quota_use *use);
void quota_made(struct quota *quota, const char *principal, struct quota_use *use);
void quota_end(struct quota *quota, const char *principal, struct quota_use *use);

/* One request of this user at `now_ms`: 0, or in how many milliseconds it may be made. */
int64_t quota_request(struct quota *quota, uint32_t uid, int64_t now_ms);
/* It was as much work as so many more: the user's next request waits for them, up to a minute. */
void quota_charge(struct quota *quota, uint32_t uid, uint32_t n, int64_t now_ms);
#endif
