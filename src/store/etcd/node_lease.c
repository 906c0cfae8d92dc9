/* SPDX-License-Identifier: MIT */
/* The lease of this host: the key c/l/NODE exists while it lives, and claims on cluster-scope ports are
 * attached to it.
 *
 * A thread renews it with its own client, so that lease and commits do not wait for each other. The
 * incarnation of a host is the revision in which c/l/NODE was created. A restarted daemon continues the
 * incarnation of its own boot; it waits for the end of that of another boot, which may be another machine. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "store/etcd/block.h"
#include "store/etcd/etcd_store.h"

#include "base/banned.h"

enum {
    RENEW_SHARE = 3,   /* renew after a third of the TTL */
    RETRY_SHARE = 12,  /* retry after a twelfth of it */
    MARGIN_SHARE = 10, /* a tenth is not relied on: clocks run at different rates */
    CALL_LEAST_MS = 500,
    OTHER_BOOT_MORE_MS = 3000, /* wait beyond the TTL: etcd removes expired leases with a delay */
    OTHER_BOOT_POLL_MS = 200,
};

struct etcdstore_lease {
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Guarded by the lock: */
    bool is_ending;
    uint64_t n_wanted, n_checked; /* checks of the lease that were asked for, and done */
    int64_t incarnation;          /* 0: the lease has ended, and there is no new one yet */
    int64_t until_ms;             /* CLOCK_BOOTTIME: no other node may consider it ended before this time */
    uint64_t n_ended;             /* incarnations that have ended */
    char trouble[256];
    /* Used by the thread only, once it runs: */
    struct etcd *etcd;
    struct etcdstore_key key;
    const char *node;
    struct node_boot boot;
    int64_t ttl_s;
    int64_t id;
    int notice;
};

static struct etcd_call call_within(const struct etcdstore_lease *self)
{
    int64_t ms = self->ttl_s * 1000 / RENEW_SHARE;

    return (struct etcd_call){ .deadline_ms =
                                   clock_monotonic_ms() + (ms > CALL_LEAST_MS ? ms : CALL_LEAST_MS) };
}

/* ---- state for other threads ---- */

static void notify(const struct etcdstore_lease *self)
{
    const uint64_t one = 1;

    if (self->notice >= 0 && write(self->notice, &one, sizeof one) < 0)
        return; /* the eventfd is readable already */
}

static void note_life(struct etcdstore_lease *self, int64_t incarnation, int64_t asked_boot_ms, int64_t ttl_s)
{
    (void) pthread_mutex_lock(&self->lock);
    bool is_new = self->incarnation != incarnation;
    self->incarnation = incarnation;
    self->until_ms = asked_boot_ms + ttl_s * 1000 - ttl_s * 1000 / MARGIN_SHARE;
    self->trouble[0] = '\0';
    (void) pthread_mutex_unlock(&self->lock);
    self->ttl_s = ttl_s;
    if (is_new)
        notify(self);
}

static void note_end(struct etcdstore_lease *self)
{
    (void) pthread_mutex_lock(&self->lock);
    bool is_new = self->incarnation != 0;
    self->n_ended += is_new;
    self->incarnation = 0;
    self->until_ms = 0;
    (void) pthread_mutex_unlock(&self->lock);
    self->id = 0;
    if (is_new)
        notify(self);
}

static void note_trouble(struct etcdstore_lease *self, const dibs_err *err)
{
    (void) pthread_mutex_lock(&self->lock);
    (void) text_safe(err->msg, self->trouble, sizeof self->trouble);
    (void) pthread_mutex_unlock(&self->lock);
}

/* Fill in incarnation, margin_ms, n_ended and trouble. */
static void get_state(struct etcdstore_lease *lease, struct ledger_lease *out)
{
    (void) pthread_mutex_lock(&lease->lock);
    int64_t margin_ms = lease->until_ms - clock_now(0).boot_ms;
    out->incarnation = lease->incarnation;
    out->margin_ms = lease->incarnation != 0 && margin_ms > 0 ? margin_ms : 0;
    out->n_ended = lease->n_ended;
    memcpy(out->trouble, lease->trouble, sizeof out->trouble);
    (void) pthread_mutex_unlock(&lease->lock);
}

void etcdstore_lease_state(const struct etcd_store *self, struct ledger_lease *out)
{
    *out = (struct ledger_lease){ .is_cluster = true,
                                  .is_member = self->lease != NULL,
                                  .n_lost = self->n_lost,
                                  .n_gone = self->n_gone,
                                  .is_unattached = self->is_unattached };
    if (self->lease)
        get_state(self->lease, out);
}

void etcdstore_lease_recheck(struct etcdstore_lease *lease)
{
    (void) pthread_mutex_lock(&lease->lock);
    lease->n_wanted++;
    (void) pthread_cond_signal(&lease->wake);
    (void) pthread_mutex_unlock(&lease->lock);
}

dibs_status etcdstore_lease_rejoin(struct etcdstore_lease *lease, int64_t deadline_ms, dibs_err *err)
{
    struct timespec at = { .tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000 };
    int rc = 0;

    (void) pthread_mutex_lock(&lease->lock);
    uint64_t wanted = ++lease->n_wanted;
    (void) pthread_cond_broadcast(&lease->wake);
    while (rc == 0 && lease->n_checked < wanted)
        rc = pthread_cond_timedwait(&lease->wake, &lease->lock, &at);
    bool is_joined = rc == 0 && lease->incarnation != 0;
    (void) pthread_mutex_unlock(&lease->lock);
    return is_joined ? DIBS_OK
                     : err_set(err, DIBS_UNAVAILABLE,
                               "etcd's data was replaced, and this host has no lease in it yet; try again");
}

/* ---- joining ---- */

struct found {
    int64_t lease, incarnation; /* 0: none */
    bool is_ours;               /* created by this boot */
};

static dibs_status read_lease_key(struct etcdstore_lease *self, struct found *out, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    struct etcd_call call = call_within(self);
    struct etcd_op op = etcdstore_read_op(&self->key);
    dibs_status s = etcd_do(self->etcd, &call, &op, &answer, err);

    *out = (struct found){ 0 };
    if (s != DIBS_OK || answer.result.n_kvs != 1)
        return s;
    const struct etcd_kv *kv = &answer.result.kvs[0];
    struct node_boot boot;
    *out = (struct found){ .lease = kv->lease, .incarnation = kv->create_revision };
    out->is_ours = unpack_boot(kv->value, &boot) && strcmp(boot.id, self->boot.id) == 0;
    return DIBS_OK;
}

static dibs_status renew(struct etcdstore_lease *self, int64_t incarnation, dibs_err *err)
{
    struct etcd_call call = call_within(self);
    int64_t ttl_s = 0;
    dibs_status s = etcd_lease_renew(self->etcd, &call, self->id, &ttl_s, err);

    if (s == DIBS_OK)
        note_life(self, incarnation, call.asked_boot_ms, ttl_s);
    return s;
}

/* Create a lease and the key. LOCKED: another process has put the key. */
static dibs_status make(struct etcdstore_lease *self, dibs_err *err)
{
    AUTO(etcd_answer_done) struct etcd_answer answer = { 0 };
    AUTO(bytes_done) struct bytes value = { 0 };
    struct etcd_call call = call_within(self);
    int64_t id = 0;
    int64_t ttl_s = 0;
    dibs_status s = etcd_lease_grant(self->etcd, &call, self->ttl_s, &id, &ttl_s, err);

    if (s != DIBS_OK)
        return s;
    pack_boot(&value, &self->boot);
    if (value.is_lost)
        return err_set(err, DIBS_FAILURE, "joining the cluster: out of memory");
    struct etcd_compare none = etcdstore_same(&self->key, 0);
    struct etcd_op put = etcdstore_put_op(&self->key, &value);
    put.lease = id;
    struct etcd_txn txn = { .compares = &none, .n_compares = 1, .then = &put, .n_then = 1 };
    struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };
    int64_t asked_boot_ms = call.asked_boot_ms;
    call = call_within(self);
    s = etcd_do(self->etcd, &call, &op, &answer, err);
    if (s == DIBS_OK && answer.result.succeeded) {
        self->id = id;
        note_life(self, answer.revision, asked_boot_ms, ttl_s);
        return DIBS_OK;
    }
    /* If the Txn was done after all, the key is deleted with its lease. */
    call = call_within(self);
    (void) etcd_lease_revoke(self->etcd, &call, id, NULL);
    return s != DIBS_OK ? s
                        : err_trouble(err, DIBS_TROUBLE_LOCKED, "another process joins the cluster as '%s'",
                                      self->node);
}

/* Try once to continue or create the lease. TAKEN: a host of another boot has the name now. */
static dibs_status join(struct etcdstore_lease *self, dibs_err *err)
{
    struct found found = { 0 };
    dibs_status s = DIBS_OK;

    for (int i = 0; i < STORE_TRIES_MAX; i++) {
        s = read_lease_key(self, &found, err);
        if (s == DIBS_OK && found.incarnation != 0 && !found.is_ours)
            return err_set(
                err, DIBS_TAKEN,
                "another machine is called '%s' in the cluster, and lives; set 'node' to tell them apart",
                self->node);
        bool is_there = found.incarnation != 0 && found.lease != 0;
        if (s == DIBS_OK && is_there)
            self->id = found.lease;
        if (s == DIBS_OK)
            s = is_there ? renew(self, found.incarnation, err) : make(self, err);
        if (s != DIBS_NOT_FOUND && !(s == DIBS_UNAVAILABLE && err->trouble == DIBS_TROUBLE_LOCKED))
            break; /* else it has ended, or was created, in between */
    }
    return s;
}

/* Join at the start. After a reboot the lease of our previous boot may still exist. */
static dibs_status join_patiently(struct etcdstore_lease *self, dibs_err *err)
{
    dibs_status s = join(self, err);
    int64_t until_ms = clock_monotonic_ms() + self->ttl_s * 1000 + OTHER_BOOT_MORE_MS;

    while (s == DIBS_TAKEN && clock_monotonic_ms() < until_ms) {
        (void) nanosleep(&(struct timespec){ .tv_nsec = OTHER_BOOT_POLL_MS * 1000000L }, NULL);
        s = join(self, err);
    }
    return s;
}

/* Renew, check or replace the lease. Return the time until the next call. */
static int64_t keep(struct etcdstore_lease *self, bool needs_revalidation)
{
    dibs_err err = { 0 };
    struct ledger_lease now = { 0 };
    struct found found = { 0 };
    dibs_status s = DIBS_OK;

    get_state(self, &now);
    if (needs_revalidation) /* a key can be deleted without its lease */
        s = read_lease_key(self, &found, &err);
    if (now.incarnation == 0 || (needs_revalidation && s == DIBS_OK && found.incarnation != now.incarnation))
        s = DIBS_NOT_FOUND;
    else if (s == DIBS_OK)
        s = renew(self, now.incarnation, &err);
    if (s == DIBS_NOT_FOUND) {
        note_end(self);
        s = join(self, &err);
    }
    if (s == DIBS_OK)
        return self->ttl_s * 1000 / RENEW_SHARE;
    note_trouble(self, &err);
    return self->ttl_s * 1000 / RETRY_SHARE;
}

static void wait_ms(struct etcdstore_lease *self, int64_t ms)
{
    struct timespec at = { 0 };

    (void) clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + ms % 1000 * 1000000;
    at.tv_sec += ms / 1000 + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    while (!self->is_ending && self->n_wanted == self->n_checked &&
           pthread_cond_timedwait(&self->wake, &self->lock, &at) == 0) {
    }
}

static void *keep_alive(void *arg)
{
    struct etcdstore_lease *self = arg;
    int64_t ms = self->ttl_s * 1000 / RENEW_SHARE;

    (void) pthread_mutex_lock(&self->lock);
    for (wait_ms(self, ms); !self->is_ending; wait_ms(self, ms)) {
        uint64_t wanted = self->n_wanted;
        bool needs_revalidation = wanted != self->n_checked;

        (void) pthread_mutex_unlock(&self->lock);
        ms = keep(self, needs_revalidation);
        (void) pthread_mutex_lock(&self->lock);
        self->n_checked = wanted;
        (void) pthread_cond_broadcast(&self->wake);
    }
    (void) pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void init_locks(struct etcdstore_lease *self)
{
    pthread_condattr_t attr;

    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_mutex_init(&self->lock, NULL);
    (void) pthread_cond_init(&self->wake, &attr);
    (void) pthread_condattr_destroy(&attr);
}

DEFINE_AUTO(struct etcdstore_lease, etcdstore_lease_close)

dibs_status etcdstore_lease_open(const struct etcd_store *store, int64_t ttl_ms, const char *boot_id,
                                 struct etcdstore_lease **out, dibs_err *err)
{
    AUTO(etcdstore_lease_close_auto) struct etcdstore_lease *self = calloc(1, sizeof *self);
    dibs_err local = { 0 };

    if (!self)
        return err_set(err, DIBS_FAILURE, "joining the cluster: out of memory");
    init_locks(self);
    self->key = etcdstore_named_key(store, 'l', store->node);
    self->node = store->node;
    self->notice = store->lease_notice;
    self->ttl_s = (ttl_ms + 999) / 1000;
    (void) text_copy(self->boot.id, sizeof self->boot.id, boot_id);
    dibs_status s = etcd_open(&store->config, &self->etcd, err);
    if (s == DIBS_OK)
        s = join_patiently(self, err ? err : &local);
    if (s != DIBS_OK)
        return s;
    int rc = pthread_create(&self->thread, NULL, keep_alive, self);
    self->has_thread = rc == 0;
    if (rc != 0)
        return err_os(err, DIBS_FAILURE, rc, "joining the cluster: starting a thread");
    *out = TAKE(self);
    return DIBS_OK;
}

void etcdstore_lease_close(struct etcdstore_lease *lease)
{
    if (!lease)
        return;
    if (lease->has_thread) {
        (void) pthread_mutex_lock(&lease->lock);
        lease->is_ending = true;
        (void) pthread_cond_signal(&lease->wake);
        (void) pthread_mutex_unlock(&lease->lock);
        (void) pthread_join(lease->thread, NULL);
    }
    etcd_close(lease->etcd);
    (void) pthread_cond_destroy(&lease->wake);
    (void) pthread_mutex_destroy(&lease->lock);
    free(lease);
}
