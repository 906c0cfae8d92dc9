/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_CLIENT_WATCH_H
#define DIBS_STORE_ETCD_CLIENT_WATCH_H
/* Watch a range of keys. The watch has a descriptor that is readable when it has work. When its connection
 * ends, it continues at the next revision with another endpoint, after a growing pause. No change is lost;
 * the changes of one revision may be reported twice. */
#include "store/etcd/client/etcd.h"

struct etcd_watch;

struct etcd_event {
    bool is_delete;
    struct etcd_kv kv; /* of a deletion: only key and mod_revision */
};

struct etcd_watch_options {
    struct etcd_bytes key, end; /* copied */
    int64_t revision;           /* the first revision to report; 0: from now on */
    /* Reports changes in order; n 0: a notice that there were none. Everything up to `revision` has been
     * reported. Callbacks may call etcd_watch_from(), but no other function of the watch. */
    void (*changed)(void *ctx, const struct etcd_event *events, size_t n, int64_t revision);
    /* Some changes were not reported: etcd compacted revisions before `revision`, or (0) its data was
     * replaced. The watch pauses until etcd_watch_from(): read everything, and continue after that. */
    void (*cut)(void *ctx, int64_t revision);
    /* Optional. The watch started at that endpoint, or was interrupted and will retry. */
    void (*connected)(void *ctx, const char *endpoint, bool is_connected);
    void *ctx;
};

dibs_status etcd_watch_open(const struct etcd_config *config, const struct etcd_watch_options *options,
                            struct etcd_watch **out, dibs_err *err);
void etcd_watch_close(struct etcd_watch *watch); /* NULL is fine */
int etcd_watch_fd(const struct etcd_watch *watch);
void etcd_watch_turn(struct etcd_watch *watch);

/* Continue the watch at that revision. */
void etcd_watch_from(struct etcd_watch *watch, int64_t revision);
/* Expect a change of the caller: if it is not reported soon, the watch moves to another member. */
void etcd_watch_expect(struct etcd_watch *watch, int64_t revision);
#endif
