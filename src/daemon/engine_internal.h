/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_ENGINE_INTERNAL_H
#define DIBS_DAEMON_ENGINE_INTERNAL_H
/* Shared by the files of the engine: engine.c runs jobs, claims_feed.c follows every claim, reap.c ends
 * claims of dead holders, node.c is about this host among others. */
#include "base/text.h"
#include "daemon/engine.h"

enum {
    GROUP_MAX = 512,          /* jobs of one commit: some 10 ms of work */
    GROUP_WEIGHT = 1024,      /* claims of one commit, unless a single job has more: others wait for it */
    WRITTEN_MAX = GROUP_MAX,  /* changes of a commit that are known without reading them again */
    GATHER_MS = 1,            /* without anybody new that a commit to a ledger far away waits for those who
                                 shared the last one */
    FOLLOW_MAX = 256,         /* events that are read at once */
    LOOK_FIRST_MS = 5,        /* looks after a notice: a commit can be seen a moment after it was written, */
    LOOK_LAST_MS = 160,       /* ... each look twice as long after the one before, */
    LOOK_IDLE_MS = 10000,     /* ... and now and then, for a writer that was stopped in between */
    DUE_MAX = 512,            /* claims that are judged in one turn */
    SCAN_SHARE = 8,           /* after a scan of all claims there is none for so many times as long */
    REAP_GONE_FIRST_MS = 200, /* after the end of a host; */
    REAP_GONE_SPREAD_MS = 4000, /* ... hosts wait for so long at random: one of them is enough */
    RELOAD_MS = 1000,           /* after which a reload that failed is tried again */
    LINGER_MS = 1000,           /* after which a dead holder whose socket is bound is looked at again */
    UPKEEP_EVERY_MS = 600000    /* damage is rare, and what grows is trimmed by the writing itself */
};

/* A change of our own, from its writing until its commit. */
struct written {
    dibs_event event;
    dibs_claim claim;
};

/* The daemon's copy of a claim of this host: only what is needed to end it in time and to count it. */
struct held {
    struct hash_table_item item; /* first; by the id */
    uint64_t generation;
    int64_t judge_ms; /* when its holder is judged, CLOCK_BOOTTIME; INT64_MAX: at no time that is known yet */
    uint64_t pidns, start_ticks;
    int32_t pid;
    uint16_t port;
    bool is_static;
    bool is_watched;   /* its process, by engine->watch */
    bool has_died;     /* ... and that is dead */
    bool is_lingering; /* the holder is dead, and the claim stays for now */
    char pool[];
};

/* claims_feed.c: load every claim, then follow every change. */
dibs_status engine_load(struct engine *e, dibs_err *err);
/* Load the held claims again: whether their holders live has to be judged again. */
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
/* Follow the changes of a group of jobs that was committed. */
void engine_follow_group(struct engine *e, const struct ledger_span *span);

/* node.c: this host among others. */
/* The incarnation of this host's lease while that is certain; else 0. */
int64_t engine_certain_lease(const struct engine *e);
void engine_follow_node(struct engine *e);
/* The latest time of the next step (CLOCK_MONOTONIC). */
int64_t engine_node_ms(const struct engine *e);

/* reap.c */
void engine_died(void *ctx, const dibs_process *who);
/* Judge the claim at that time (CLOCK_BOOTTIME), and no more at an earlier one. */
void engine_judge_at(struct engine *e, struct held *held, int64_t at_ms);
/* Do a bounded step of each: end claims of dead holders and ended leases, upkeep. */
void engine_reap(struct engine *e);
/* How long until engine_reap() has a claim to judge; below 0: for ever. */
int64_t engine_reap_ms(const struct engine *e);
#endif
