/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_ENGINE_H
#define DIBS_DAEMON_ENGINE_H
/* The ledger's side of the daemon, in bounded steps: group commit of jobs, reaping of dead holders and ended
 * leases, following other processes' changes through the ledger's events, upkeep. */
#include "base/hash_table.h"
#include "base/loop.h"
#include "core/core.h"
#include "dibs/dibs.h"
#include "host/process_watch.h"
#include "lib/handle.h"
#include "net/portbits.h"
#include "server/group_commit.h"

struct engine_options {
    struct loop *loop;
    const dibs_settings *settings; /* copied */
    size_t pidfds;                 /* at most; 0: as the limit of descriptors allows */
    int64_t node_ttl_ms;           /* of the lease of this host, where it shares a ledger; 0: it has none */
    /* Optional: called for every change, in order, after it is durable. `pool` is that of its claim, "" for a
     * port outside of every pool; NULL: it is not known. `change` is 1 for a new claim, -1 for its end. */
    void (*changed)(void *ctx, const dibs_event *event, const char *pool, int change);
    /* Optional: called after all claims were read again. Not OK: this is repeated later. */
    dibs_status (*reset)(void *ctx, dibs_err *err);
    void *ctx;
};

struct engine_counts {
    uint64_t reaped;               /* claims whose holder was found dead */
    uint64_t damaged;              /* records that upkeep found damaged */
    size_t claims;                 /* of this host */
    size_t lingering;              /* dead holders whose socket is still bound, or that cannot be judged */
    size_t by_pidfd, in_turn, far; /* processes watched */
};

/* The rest of the daemon reads the first members. */
struct engine {
    dibs *handle; /* of the daemon itself */
    struct core *core;
    struct ledger *ledger;
    struct group_commit *group;
    struct watch *watch; /* of all holders */
    uint64_t seq;        /* of the newest event that was passed on */

    struct engine_options options; /* its settings only during engine_open() */
    int64_t began_with;            /* engine_certain_lease() when the group began */
    struct hash_table claims;      /* of struct held */
    dibs_event *events;
    size_t n_events;
    struct written *written; /* by the transaction under way, WRITTEN_MAX at most */
    size_t n_written;        /* more than that: they are read from the ledger afterwards */
    loop_source notices;     /* inotify on the ledger's directory; fd -1: it has none */
    char *dir;               /* ... which is this one */
    loop_source far;         /* the ledger's own notices; 0: it has none */
    uint64_t n_elsewhere;    /* changes that these notices were about */
    char file[256];          /* the ledger's name there */
    bool has_notice;
    int64_t look_ms;      /* when the ledger is looked at again */
    int64_t look_wait_ms; /* ... and how long that was after the last look */
    int64_t reload_ms;    /* not before this, after one that failed */
    bool needs_reload;    /* the ledger is another one, or has forgotten events that we have not seen */
    int64_t judge_ms;     /* no claim is to be judged before this (CLOCK_BOOTTIME) */
    int64_t scan_us;      /* claims are not scanned before this */
    dibs_process *died;   /* processes that the next scan looks for */
    size_t n_died, max_died;
    int64_t upkeep_ms;
    size_t n_damaged;     /* records, at the last upkeep */
    int64_t incarnation;  /* of this host in a cluster, as it was logged; 0: none */
    uint64_t n_ended;     /* ... and how many had ended then */
    bool is_uncertain;    /* ... and whether it could not be renewed */
    uint64_t n_gone;      /* leases of other hosts that were seen to expire */
    int64_t reap_gone_ms; /* when their claims are looked at; 0: there are none */
    int64_t compact_ms;   /* when old versions are looked at */
    int64_t node_ms;      /* when to retry a step of node.c that has failed */
    struct engine_counts counts;
};

/* Open the ledger, load the index and watch all holders. UNAVAILABLE as dibs_open(). */
dibs_status engine_open(const struct engine_options *options, struct engine **out, dibs_err *err);
void engine_close(struct engine *engine); /* NULL is fine; queued jobs are answered UNAVAILABLE */

/* Do everything that is queued or due; the loop calls it once a turn. */
void engine_turn(struct engine *engine);
/* How long the loop may wait; below 0: for ever. */
int64_t engine_next_ms(const struct engine *engine);

/* The ports that some claim of this host has, by the kind of the claim. */
void engine_ports(struct engine *engine, struct portbits out[DIBS_STATIC + 1]);
const struct engine_counts *engine_count(struct engine *engine);
#endif
