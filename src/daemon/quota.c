/* SPDX-License-Identifier: MIT */
#include "daemon/quota.h"

#include <inttypes.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

enum {
    /* Users with a bucket at the same time. With more users, some get slightly more than their rate. */
    BUCKETS = 1024,
    PROBES = 8,
    MS_PER_S = 1000,
    DEBT_MAX_S = 60, /* longest wait for the cost of a large request */
};

/* A user that has claims, so there are never more accounts than claims. */
struct account {
    char user[DIBS_PRINCIPAL_MAX + 1]; /* first: also the key */
    uint32_t n;
};

/* The budget of a user, in thousandths of a request: a millisecond refills a whole number of them. */
struct bucket {
    int64_t level;
    int64_t at_ms;
    uint32_t uid;
    bool is_used;
};

struct quota {
    struct quota_options options;
    struct subuids owners;
    void *accounts; /* tsearch(3) of struct account */
    struct bucket bucket[BUCKETS];
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

bool quota_follow_owners(struct quota *quota, const char *path)
{
    return subuids_refresh(&quota->owners, path);
}

uint32_t quota_user(const struct quota *quota, uint32_t uid)
{
    return subuids_account(&quota->owners, uid);
}

/* Copy the user: "uid:1000@4026532000.7" counts for uid:1000, as any user can make pid namespaces; and a
 * subordinate uid for its owner. */
static void load_user(const struct quota *quota, char user[DIBS_PRINCIPAL_MAX + 1], const char *principal)
{
    static const char prefix[] = "uid:";
    uint64_t uid = 0;

    (void) text_copy(user, DIBS_PRINCIPAL_MAX + 1, principal);
    user[strcspn(user, "@")] = '\0';
    const char *number = user + sizeof prefix - 1;
    if (quota->owners.n > 0 && strncmp(user, prefix, sizeof prefix - 1) == 0 &&
        text_number(number, strlen(number), UINT32_MAX, &uid))
        (void) snprintf(user, DIBS_PRINCIPAL_MAX + 1, "%s%" PRIu32, prefix,
                        quota_user(quota, (uint32_t) uid));
}

static struct account *find(const struct quota *quota, const char *principal)
{
    char user[DIBS_PRINCIPAL_MAX + 1] = "";

    load_user(quota, user, principal);
    struct account **found = tfind(user, &quota->accounts, compare);

    return found ? *found : NULL;
}

dibs_status quota_open(const struct quota_options *options, struct quota **out, dibs_err *err)
{
    struct quota *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "quota: out of memory");
    self->options = *options;
    if (self->options.claims == 0)
        self->options.claims = QUOTA_CLAIMS;
    if (self->options.requests_per_s == 0)
        self->options.requests_per_s = QUOTA_REQUESTS_PER_S;
    *out = self;
    return DIBS_OK;
}

void quota_close(struct quota *quota)
{
    if (!quota)
        return;
    quota_clear(quota);
    subuids_done(&quota->owners);
    free(quota);
}

void quota_clear(struct quota *quota)
{
    tdestroy(quota->accounts, free);
    quota->accounts = NULL;
}

void quota_note(struct quota *quota, const char *principal, uint32_t n)
{
    struct account *account = find(quota, principal);

    if (n == 0)
        return;
    if (!account) {
        AUTO(free_auto) struct account *fresh = calloc(1, sizeof *fresh);

        if (fresh)
            load_user(quota, fresh->user, principal);
        if (!fresh || !tsearch(fresh, &quota->accounts, compare))
            return; /* out of memory: this user may exceed its quota slightly */
        account = TAKE(fresh);
    }
    account->n += n;
}

void quota_give(struct quota *quota, const char *principal, uint32_t n)
{
    struct account *account = find(quota, principal);

    if (!account)
        return;
    account->n -= n < account->n ? n : account->n;
    if (account->n == 0) {
        (void) tdelete(account, &quota->accounts, compare);
        free(account);
    }
}

void quota_begin(struct quota *quota, const char *principal, struct quota_use *use)
{
    quota_end(quota, principal, use);
    const struct account *account = find(quota, principal);
    use->before = account ? account->n : 0;
    use->allowance = (struct ledger_allowance){ use->before, quota->options.claims };
}

void quota_made(struct quota *quota, const char *principal, struct quota_use *use)
{
    use->n_made = use->allowance.n > use->before ? use->allowance.n - use->before : 0;
    quota_note(quota, principal, use->n_made);
}

void quota_end(struct quota *quota, const char *principal, struct quota_use *use)
{
    quota_give(quota, principal, use->n_made);
    use->n_made = 0;
}

static int64_t full(const struct quota *quota)
{
    return (int64_t) quota->options.requests_per_s * MS_PER_S;
}

static int64_t level_at(const struct quota *quota, const struct bucket *b, int64_t now_ms)
{
    int64_t passed_ms = now_ms > b->at_ms ? now_ms - b->at_ms : 0;
    int64_t rate = quota->options.requests_per_s;

    if (!b->is_used || passed_ms >= (full(quota) - b->level + rate - 1) / rate)
        return full(quota);
    return b->level + passed_ms * rate;
}

/* Return the user's own bucket; if it has none, replace the fullest of a few, whose user loses least. */
static struct bucket *bucket_of(struct quota *quota, uint32_t uid, int64_t now_ms)
{
    struct bucket *best = NULL;

    uid = quota_user(quota, uid);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct bucket *b = &quota->bucket[(uid + i) % BUCKETS];

        if (b->is_used && b->uid == uid)
            return b;
        if (!best || level_at(quota, b, now_ms) > level_at(quota, best, now_ms))
            best = b;
    }
    *best = (struct bucket){ .level = full(quota), .at_ms = now_ms, .uid = uid, .is_used = true };
    return best;
}

int64_t quota_request(struct quota *quota, uint32_t uid, int64_t now_ms)
{
    struct bucket *b = bucket_of(quota, uid, now_ms);
    int64_t rate = quota->options.requests_per_s;

    b->level = level_at(quota, b, now_ms);
    b->at_ms = now_ms;
    if (b->level < MS_PER_S)
        return (MS_PER_S - b->level + rate - 1) / rate;
    b->level -= MS_PER_S;
    return 0;
}

void quota_charge(struct quota *quota, uint32_t uid, uint32_t n, int64_t now_ms)
{
    struct bucket *b = bucket_of(quota, uid, now_ms);
    int64_t least = -DEBT_MAX_S * full(quota);

    b->level = level_at(quota, b, now_ms) - (int64_t) n * MS_PER_S;
    if (b->level < least)
        b->level = least;
    b->at_ms = now_ms;
}
