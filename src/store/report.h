/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_REPORT_H
#define DIBS_STORE_REPORT_H
/* How a store is opened, and what it reports of itself: health, lease, traffic, members. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"

struct ledger_options {
    bool is_sync_full;  /* every commit survives power loss, not only those of kept claims */
    int64_t timeout_ms; /* of each call */
    const char *node;   /* what this host is called in a cluster; NULL: as the kernel says */
};

struct ledger_lease {
    bool is_cluster;     /* hosts share the ledger; all that follows is of this one */
    bool is_member;      /* ledger_join() was called */
    int64_t incarnation; /* 0: the lease has ended, and there is no other yet */
    int64_t margin_ms;   /* how long it certainly lives; 0: that is not certain */
    uint64_t n_ended;    /* leases that were lost so far */
    size_t n_lost;       /* claims that ledger_note_lost() has to tell of */
    uint64_t n_gone;     /* leases of other hosts that were seen to end */
    bool is_unattached;  /* ledger_attach() may have something to do */
    char trouble[256];   /* why it cannot be renewed; empty: it can */
};

/* What a store exchanged with etcd. n_within[i] counts commits of at most LEDGER_TXN_US_MAX(i). */
enum { LEDGER_TXN_BUCKETS = 12 };
#define LEDGER_TXN_US_MAX(i) (INT64_C(500) << (i))
struct ledger_traffic {
    uint64_t n_commits;     /* Txns that were answered, */
    uint64_t n_conflicts;   /* ... and those of them that failed: another node's commit came first */
    uint64_t n_retries;     /* requests that had to be sent again, to another member or later */
    uint64_t n_loads;       /* times that the whole copy was read */
    uint64_t n_compactions; /* times that this host compacted old versions */
    uint64_t n_within[LEDGER_TXN_BUCKETS];
    int64_t total_us;
    int64_t lag_ms; /* how long the watch took to deliver the last change of ours; -1: not yet */
};

/* How the store of a shared ledger is, asked of each of its members. */
enum { LEDGER_MEMBERS_MAX = 32 };
struct ledger_member {
    char name[64];
    char url[272];   /* "": it has not started */
    bool is_named;   /* in the ledger's URI */
    bool answers;    /* what follows is known only then; of those that are not named it is not asked */
    char why[200];   /* ... why it does not, */
    bool is_refused; /* ... and it would answer others: user, password or certificates are wrong */
    int64_t took_us; /* to answer */
    char version[32];
    bool is_leader, has_leader, is_learner;
    int64_t revision, bytes, used_bytes;
    int64_t quota_bytes;      /* 0: it does not say */
    bool is_full, is_corrupt; /* alarms */
};
struct ledger_cluster {
    struct ledger_member member[LEDGER_MEMBERS_MAX];
    size_t n;
    bool is_quorate;   /* a read that needs a majority was answered, */
    int64_t quorum_us; /* ... after so long */
    bool has_other_alarm;
    char why[200];   /* why it was not, */
    bool is_refused; /* ... and others would be: as above, or rights are missing */
};

struct ledger_health {
    int major, minor;
    uint64_t n_claims, n_events, n_names;
    uint64_t bytes, wal_bytes;
    bool is_read_only;
    bool is_sound;    /* the backend's own integrity check */
    char detail[256]; /* what the check said */
    char path[1024];
};

/* What salvaging a damaged ledger has saved. */
struct ledger_salvaged {
    char aside[1024]; /* what the damaged file is called now */
    size_t n_saved;   /* claims */
    size_t n_lost;    /* claims whose record is damaged or lost; their ports are kept */
};

/* What can be wrong with single records of a store that can be read. */
enum ledger_flaw {
    LEDGER_DAMAGED,   /* its record is not valid; port 0: not even that is known */
    LEDGER_LOST,      /* its port is blocked, its record is gone */
    LEDGER_UNGUARDED, /* it is there, but its port is not blocked, or not for all of its bindings */
    LEDGER_MISNAMED,  /* its name does not lead to it; `other`: where else, 0 nowhere */
    LEDGER_NAMESAKE,  /* its name leads to `other`, which has the same name; a user must decide */
    LEDGER_CONFLICT,  /* it conflicts with `other`; a user must decide */
};

typedef bool (*store_flaw_fn)(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other);

/* Does salvaging the store mend it? */
static inline bool flaw_is_mendable(enum ledger_flaw flaw)
{
    return flaw != LEDGER_NAMESAKE && flaw != LEDGER_CONFLICT;
}
#endif
