/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_ENGINE_PARTS_H
#define DIBS_DAEMON_ENGINE_PARTS_H
/* What the files of the engine share: engine.c does jobs, follow.c knows every claim, reap.c ends those of
 * the dead. */
#include "base/text.h"
#include "daemon/engine.h"
#include "owner/watch.h"

enum {
    GROUP_MAX = 512,         /* jobs of one commit: some 10 ms of work */
    GROUP_WEIGHT = 1024,     /* claims of one commit, unless a single job has more: others wait for it */
    WRITTEN_MAX = GROUP_MAX, /* changes of a commit that are known without reading them again */
    BEATEN_MAX = 48,         /* attempts of a group where others write, too, before each is tried alone */
    GATHER_MS = 1,           /* without anybody new that a commit to a ledger far away waits for those who
                                shared the last one */
    FOLLOW_MAX = 256,        /* events that are read at once */
    ALONE_SHARE = 9,         /* after a long job others have so many times as long for themselves, */
    ALONE_REST_MS = 5000,    /* ... but this at most */
    LOOK_FIRST_MS = 5,       /* looks after a notice: a commit can be seen a moment after it was written, */
    LOOK_LAST_MS = 160,      /* ... each look twice as long after the one before, */
    LOOK_IDLE_MS = 10000,    /* ... and now and then, for a writer that was stopped in between */
    DUE_MAX = 512,           /* claims of the dead that are looked at in one turn */
    BURY_FIRST_MS = 200,     /* after the end of a host; */
    BURY_SPREAD_MS = 4000,   /* ... hosts wait for so long at random: one of them is enough */
    RELOAD_MS = 1000,        /* after which a reload that failed is tried again */
    LINGER_MS = 1000,        /* after which a dead holder whose socket is bound is looked at again */
    TROUBLE_MS = 5000, /* for which a daemon that could not change its ledger says that it is not ready */
    TELL_MS = 1000,    /* between two lines of the log about the ledger's trouble */
    UPKEEP_EVERY_MS = 600000 /* damage is rare, and what grows is trimmed by the writing itself */
};

/* A change of our own, from its writing until its commit. */
struct written {
    dibs_event event;
    dibs_claim claim;
};

struct ids {
    uint64_t *id;
    size_t n, max;
};

struct job_queue {
    struct job *first;
    struct job **last;
    size_t n;
};

struct engine {
    struct loop *loop;
    dibs *handle;
    struct watch *watch;
    struct kernel_group probes; /* of what jobs probe together */
    size_t n_together;          /* jobs of the last group */
    struct held_table *held;
    struct held_table *was; /* while everything is read anew: what was known before; else NULL */
    struct job_queue queue;
    struct job_queue alone; /* those that take long: one at a time, */
    int64_t alone_ms;       /* ... and the next one not before this */
    uint64_t seq;           /* of the newest event that was told */
    dibs_event *events;
    size_t n_events;
    struct written *written; /* by the transaction under way, WRITTEN_MAX at most */
    size_t n_written;        /* more than that: they are read from the ledger afterwards */
    loop_source notices;     /* inotify on the ledger's directory; fd -1: it has none */
    char *dir;               /* ... which is this one */
    loop_source far;         /* the ledger's own notices; 0: it has none */
    uint64_t n_elsewhere;    /* changes that they have told of */
    size_t last_group;       /* jobs of the last commit to such a ledger, */
    size_t n_gathered;       /* ... those that are here for the next one, */
    int64_t gathered_us;     /* ... and when the last of them came */
    char file[256];          /* the ledger's name there */
    bool has_notice;
    int64_t look_ms;      /* when the ledger is looked at again */
    int64_t look_wait_ms; /* ... and how long that was after the last look */
    int64_t reload_ms;    /* not before this, after one that failed */
    bool needs_reload;    /* the ledger is another one, or has forgotten events that we have not seen */
    size_t pidfds;        /* as of engine_options */
    loop_source timer;    /* for the lease that ends first */
    int64_t timer_ms;     /* what it is set to; 0: nothing */
    struct ids due;       /* claims whose holder has died */
    struct ids lingering;
    int64_t linger_ms; /* when those are looked at again */
    int64_t upkeep_ms;
    dibs_err trouble;     /* of the last attempt to change the ledger; code OK: none */
    int64_t trouble_ms;   /* when that was */
    bool is_trouble_told; /* in the log, */
    int64_t tell_ms;      /* ... and nothing more of it before this */
    int64_t incarnation;  /* of this host in a cluster, as it was told of; 0: none */
    uint64_t n_ended;     /* ... and how many had ended then */
    bool is_doubtful;     /* ... and whether it could not be renewed */
    uint64_t n_gone;      /* other hosts whose lease has ended, as far as that was heeded */
    int64_t bury_ms;      /* when their claims are looked at; 0: there are none */
    int64_t tend_ms;      /* when old versions are looked at */
    int64_t hang_ms;      /* when claims are to hang on the lease, if that has failed */
    int64_t lost_ms;      /* when what others have ended is noted, if that has failed */
    struct engine_counts counts;
    void (*changed)(void *ctx, const dibs_event *event, const struct held *held);
    void (*reset)(void *ctx, const struct held_table *was);
    void *ctx;
};

void engine_note_trouble(struct engine *e, const dibs_err *why);

/* follow.c: every claim that is there; then every change. */
dibs_status engine_load(struct engine *e, dibs_err *err);
/* Those that are held, once more: what is to be thought of them has changed. */
void engine_know_again(struct engine *e);
dibs_status engine_start_following(struct engine *e, dibs_err *err);
void engine_stop_following(struct engine *e);
/* Empty ones, for engine_load(). */
dibs_status engine_open_tables(struct engine *e, dibs_err *err);
/* All that is known anew, if that is needed. */
void engine_reload(struct engine *e);
void engine_follow(struct engine *e);
/* Be told of every write, or only when a writer closes the file. */
void engine_heed_writes(struct engine *e, bool is_heeded);
/* A group of ours was committed. */
void engine_follow_group(struct engine *e, const struct ledger_span *span);

/* node.c: this host among others. */
/* Can its holders count on what they have? They can where there are no others. */
bool engine_is_certain(const struct engine *e);
void engine_mind_node(struct engine *e);
/* When that is to be done next, at the latest (CLOCK_MONOTONIC). */
int64_t engine_node_ms(const struct engine *e);

/* reap.c */
void engine_died(void *ctx, const dibs_process *who);
void engine_add_due(struct engine *e, struct held *held);
/* Leases that have ended, holders that have died, upkeep: a bounded step of each. */
void engine_reap(struct engine *e);
#endif
