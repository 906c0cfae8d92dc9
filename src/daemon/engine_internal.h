/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_ENGINE_INTERNAL_H
#define DIBS_DAEMON_ENGINE_INTERNAL_H
/* Shared by the files of the engine: engine.c runs jobs, claims_feed.c copies all claims, reap.c ends claims
 * of dead holders, node.c is about this host's lease in a cluster. */
#include "base/text.h"
#include "daemon/engine.h"

enum {
    GROUP_MAX = 512,         /* jobs in one commit: about 10 ms of work */
    GROUP_WEIGHT = 1024,     /* claims in one commit, unless a single job has more */
    WRITTEN_MAX = GROUP_MAX, /* changes of a commit that need not be read back */
    GATHER_MS = 1,      /* a commit to a remote ledger waits so long after the last new job for the jobs that
                           shared the commit before */
    FOLLOW_MAX = 256,   /* events per read */
    LOOK_FIRST_MS = 5,  /* first poll after a notice: a commit becomes visible a moment after the write */
    LOOK_LAST_MS = 160, /* last of these polls; the interval doubles each time */
    LOOK_IDLE_MS = 10000,       /* poll interval without notices, for a writer that was stopped in between */
    DUE_MAX = 512,              /* claims judged per turn */
    SCAN_SHARE = 8,             /* pause after a scan of all claims, in multiples of its duration */
    REAP_GONE_FIRST_MS = 200,   /* shortest delay before reaping after another host's lease has expired */
    REAP_GONE_SPREAD_MS = 4000, /* random part of that delay: one host is enough */
    RELOAD_MS = 1000,           /* delay before retrying a failed reload */
    LINGER_MS = 1000,           /* interval between checks of a dead holder whose socket is still bound */
    UPKEEP_EVERY_MS = 600000    /* damage is rare, and writers trim the ledger themselves */
};

/* A change of our own, from its write to its commit. */
struct written {
    dibs_event event;
    dibs_claim claim;
};

/* The daemon's copy of a claim of this host: only the members needed to reap, count and show it. */
struct held {
    struct hash_table_item item; /* first; key: the id */
    uint64_t generation;
    int64_t judge_ms; /* when to judge its holder (CLOCK_BOOTTIME); INT64_MAX: no time is known yet */
    uint64_t pidns, start_ticks;
    int32_t pid;
    uint32_t uid;
    uint16_t port;
    uint8_t holder;                  /* dibs_holder */
    uint8_t protos, protos_anywhere; /* as in struct engine_claim */
    bool is_static;
    bool is_here;      /* made in the daemon's network namespace */
    bool is_watched;   /* engine->watch watches its process */
    bool has_died;     /* that process is dead */
    bool is_lingering; /* the holder is dead, and the claim stays for now */
    char pool[];
};

/* claims_feed.c: load all claims, then follow every change. */
dibs_status engine_load(struct engine *e, dibs_err *err);
/* Load the held claims again, so that their holders are judged again. */
void engine_reload_held(struct engine *e);
dibs_status engine_start_following(struct engine *e, dibs_err *err);
void engine_stop_following(struct engine *e);
/* Forget all claims and their processes. */
void engine_forget_claims(struct engine *e);
/* Reload all claims, if that is needed. */
void engine_reload(struct engine *e);
void engine_follow(struct engine *e);
/* Get a notice of every write, or only when a writer closes the file. */
void engine_notice_writes(struct engine *e, bool is_noticed);
/* Apply the changes of a committed group. */
void engine_follow_group(struct engine *e, const struct ledger_span *span);

/* enforcing.c: give the kernel the present state of a claim, if it enforces claims. */
void engine_enforce_claim(struct engine *e, const dibs_claim *claim);

/* reserving.c: a claim of this port has begun or ended. */
void engine_note_reserved(struct engine *e, uint16_t port);
/* Bring the reserved ports up to date, if something has changed. */
void engine_publish(struct engine *e);

/* node.c */
/* Return the incarnation of this host's lease; 0 when the lease is not certain. */
int64_t engine_certain_lease(const struct engine *e);
void engine_follow_node(struct engine *e);
/* Return the time of the next step (CLOCK_MONOTONIC). */
int64_t engine_node_ms(const struct engine *e);

/* reap.c */
void engine_died(void *ctx, const dibs_process *who);
/* Judge the claim at that time (CLOCK_BOOTTIME), and not before. */
void engine_judge_at(struct engine *e, struct held *held, int64_t at_ms);
/* Do a bounded step of each: reap dead holders and expired leases, maintain the ledger. */
void engine_reap(struct engine *e);
/* Return how long until engine_reap() has a claim to judge; below 0: without limit. */
int64_t engine_reap_ms(const struct engine *e);
#endif
