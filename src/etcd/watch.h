/* SPDX-License-Identifier: MIT */
#ifndef DIBS_ETCD_WATCH_H
#define DIBS_ETCD_WATCH_H
/* Changes of a range of keys, as they happen.
 *
 * A watch has a descriptor that becomes readable when there is something to do: in a loop (base/loop.h) or in
 * a thread that polls it. It never waits by itself. When its connection ends it goes on at the next revision
 * with another endpoint, after a pause that grows and is spread. Nothing is left out; after such an
 * interruption the changes of one revision may be told a second time. */
#include "etcd/etcd.h"

struct etcd_watch;

struct etcd_event {
    bool is_delete;
    struct etcd_kv kv; /* of a deletion: key and mod_revision */
    bool has_previous;
    struct etcd_kv previous;
};

struct etcd_watch_options {
    struct etcd_bytes key, end; /* copied */
    int64_t revision;           /* the first one that is told; 0: what comes from now on */
    bool wants_previous;
    /* Changes in their order; none (n 0): a notice that there were none. Everything up to `revision` has been
     * told. Callbacks may call etcd_watch_from(), and nothing else of the watch. */
    void (*changed)(void *ctx, const struct etcd_event *events, size_t n, int64_t revision);
    /* What was before `revision` is gone, and with it changes that were not told. The watch stands still
     * until etcd_watch_from(): read everything, and go on behind that. */
    void (*compacted)(void *ctx, int64_t revision);
    /* Optional. It began to watch (`why` NULL), or was interrupted and will try again. */
    void (*connected)(void *ctx, const dibs_err *why);
    void *ctx;
};

dibs_status etcd_watch_open(const struct etcd_config *config, const struct etcd_watch_options *options,
                            struct etcd_watch **out, dibs_err *err);
void etcd_watch_close(struct etcd_watch *watch); /* NULL is fine */
int etcd_watch_fd(const struct etcd_watch *watch);
void etcd_watch_turn(struct etcd_watch *watch);

/* Goes on from there. */
void etcd_watch_from(struct etcd_watch *watch, int64_t revision);
/* A change of the watched keys is known to have that revision (the caller made it): when it is not told soon,
 * the member that is asked hangs or is cut off, and another one is asked. Without that only a closed
 * connection or etcd's notices, every ten minutes, tell a member that hangs from keys that do not change. */
void etcd_watch_expect(struct etcd_watch *watch, int64_t revision);
/* The same, and the caller knows what it has changed: it is told as a notice, as a rule. */
void etcd_watch_know(struct etcd_watch *watch, int64_t revision);
/* Everything up to it has been told; 0: nothing yet. */
int64_t etcd_watch_revision(const struct etcd_watch *watch);
/* Who is asked, for messages. */
const char *etcd_watch_endpoint(const struct etcd_watch *watch);
#endif
