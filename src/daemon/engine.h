/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_ENGINE_H
#define DIBS_DAEMON_ENGINE_H
/* The ledger side of the daemon, in bounded steps: group commit of jobs, reaping of dead holders and expired
 * leases, following other processes' changes by the ledger's events, and maintenance. */
#include "base/hash_table.h"
#include "base/loop.h"
#include "core/core.h"
#include "dibs/dibs.h"
#include "hold/enforce.h"
#include "host/process_watch.h"
#include "lib/handle.h"
#include "net/portbits.h"
#include "server/group_commit.h"
#include "server/service_manager.h"

struct engine_options {
    struct loop *loop;
    const dibs_settings *settings;  /* copied */
    size_t pidfds;                  /* most pidfds; 0: as the limit of descriptors allows */
    bool is_check;                  /* only check that the ledger opens: write nothing */
    bool only_looks;                /* no daemon: reap no claims, maintain nothing */
    const struct activation *given; /* guards of an earlier daemon; NULL: none */
    const struct notify *notify;    /* the manager that keeps guards; NULL: none */
    int64_t node_ttl_ms;            /* TTL of this host's lease on a shared ledger; 0: no lease */
    /* Optional: called for every change, in order, after it is durable. `pool` is the pool of its claim, ""
     * for a port outside of every pool, NULL when unknown. `change` is 1 for a new claim, -1 for its end. */
    void (*changed)(void *ctx, const dibs_event *event, const char *pool, int change);
    /* Optional: called after all claims were read again. After an error it is called again later. */
    dibs_status (*reset)(void *ctx, dibs_err *err);
    void *ctx;
};

struct engine_counts {
    uint64_t reaped;               /* claims of dead holders that were ended */
    uint64_t damaged;              /* damaged records that maintenance found */
    size_t claims;                 /* claims of this host */
    uint64_t unenforced;           /* claims that the kernel could not be given since the start */
    size_t lingering;              /* dead holders whose socket is still bound, or whose state is unknown */
    size_t by_pidfd, in_turn, far; /* watched processes */
};

/* The rest of the daemon reads only the members before `options`. */
struct engine {
    dibs *handle; /* the daemon's own */
    struct core *core;
    struct ledger *ledger;
    struct group_commit *group;
    struct watch *watch; /* all holders */
    struct holds *holds; /* the guards of claims */
    uint64_t seq;        /* newest event that was passed on */

    struct enforce *enforce;       /* set by engine_enforce(); NULL: the kernel enforces nothing */
    bool has_no_cgroups;           /* the last command got none; logged */
    struct engine_options options; /* its settings are valid only during engine_open() */
    const struct notify *notify;   /* keeps guards while the daemon is restarted; NULL: none */
    int64_t began_with;            /* engine_certain_lease() when the group began */
    struct hash_table claims;      /* struct held by id */
    dibs_event *events;
    size_t n_events;
    struct written *written; /* changes of the current transaction, at most WRITTEN_MAX */
    size_t n_written;        /* may exceed WRITTEN_MAX: then the ledger is read afterwards */
    loop_source notices;     /* inotify on the ledger's directory; fd -1: none */
    char *dir;               /* the ledger's directory */
    loop_source far;         /* the ledger's own notices; fd 0: none */
    uint64_t n_elsewhere;    /* changes that these notices have counted */
    char file[256];          /* the ledger's file name in `dir` */
    bool has_notice;
    int64_t look_ms;      /* when to poll the ledger next */
    int64_t look_wait_ms; /* interval before that poll */
    int64_t reload_ms;    /* earliest retry of a failed reload */
    bool needs_reload;    /* the ledger was replaced, or has trimmed events that we have not seen */
    int64_t judge_ms;     /* earliest time at which a claim is judged (CLOCK_BOOTTIME) */
    int64_t scan_us;      /* earliest time of the next scan of all claims */
    dibs_process *died;   /* dead processes for the next scan */
    size_t n_died, max_died;
    int64_t upkeep_ms;
    size_t n_damaged;        /* damaged records at the last maintenance */
    int64_t incarnation;     /* last logged incarnation of this host's lease; 0: none */
    uint64_t n_ended;        /* leases of this host that had ended when it was logged */
    bool is_uncertain;       /* the last logged state: the lease could not be renewed */
    uint64_t n_gone;         /* expired leases of other hosts */
    int64_t reap_gone_ms;    /* when to reap the claims of those hosts; 0: nothing to reap */
    int64_t compact_ms;      /* when to check for old versions to compact */
    int64_t node_ms;         /* when to retry a failed step of node.c */
    struct reserve *reserve; /* set by engine_reserve(); NULL: no ports are published */
    uint64_t netns;          /* network namespace of the daemon */
    dibs_range ephemeral;    /* when ports were reserved last */
    int64_t reserve_ms;      /* when to reserve again; 0: now */
    bool has_unreserved;     /* that has failed, and was logged */
    struct engine_counts counts;
};

/* Open the ledger, load the index and watch all holders. UNAVAILABLE as dibs_open(). */
dibs_status engine_open(const struct engine_options *options, struct engine **out, dibs_err *err);
void engine_close(struct engine *engine); /* NULL is fine; queued jobs are answered UNAVAILABLE */

/* Publish claimed ports of the ephemeral range from now on. `reserve` is borrowed until engine_close(). */
struct reserve;
void engine_reserve(struct engine *engine, struct reserve *reserve);

/* Let the kernel enforce all claims from now on. `enforce` is borrowed until engine_close(). */
dibs_status engine_enforce(struct engine *engine, struct enforce *enforce, dibs_err *err);

/* If the kernel enforces claims and the claim's process is a child of `parent`, give it a cgroup of its own.
 */
void engine_isolate(struct engine *engine, pid_t parent, const dibs_claim *claim);

/* Let a child of `parent`, in a cgroup of its own, use these numbers. UNAVAILABLE: the kernel does not
 * enforce claims; DENIED: it is no child, or it may still gain rights. */
dibs_status engine_number(struct engine *engine, pid_t parent, pid_t pid, struct numbers *numbers,
                          char *cgroup, dibs_err *err);

/* Do everything that is queued or due; called once per loop turn. */
void engine_turn(struct engine *engine);
/* Return how long the loop may wait; below 0: without limit. */
int64_t engine_next_ms(const struct engine *engine);

/* What the engine's copy has of a claim of this host. */
struct engine_claim {
    uint64_t id;
    uint64_t pidns, start_ticks; /* of a process holder */
    int32_t pid;
    uint32_t uid;
    uint16_t port;
    uint8_t holder;          /* dibs_holder */
    uint8_t protos;          /* bit (1 << proto) for each protocol */
    uint8_t protos_anywhere; /* of these, the ones on every address */
};
void engine_each_claim(struct engine *engine, void (*fn)(void *ctx, const struct engine_claim *claim),
                       void *ctx);

/* Return the ports that this host has claimed, by kind of claim. */
void engine_ports(struct engine *engine, struct portbits out[DIBS_STATIC + 1]);
const struct engine_counts *engine_count(struct engine *engine);
#endif
