/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_REPORT_H
#define DIBS_STORE_REPORT_H
/* Options to open a store, and its reports: health, lease, traffic, members. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"

struct ledger_options {
    bool is_sync_full;  /* every commit survives power loss, not only commits of kept claims */
    bool is_check;      /* only check that it opens: make nothing, and keep an older format */
    int64_t timeout_ms; /* of each call */
    const char *node;   /* name of this host in a cluster; NULL: the kernel's host name */
};

struct ledger_lease {
    bool is_cluster;     /* several hosts share the ledger; the rest describes this one */
    bool is_member;      /* ledger_join() was called */
    int64_t incarnation; /* 0: the lease has expired, and there is no new one yet */
    int64_t margin_ms;   /* time for which the lease certainly lives; 0: not certain */
    uint64_t n_ended;    /* leases of this host lost so far */
    size_t n_lost;       /* claims that ledger_note_lost() has to report */
    uint64_t n_gone;     /* leases of other hosts seen to end */
    bool is_unattached;  /* ledger_attach() may have work to do */
    char trouble[256];   /* why the lease cannot be renewed; "": it can */
};

/* Exchanges with etcd. n_within[i] counts commits of at most LEDGER_TXN_US_MAX(i). */
enum { LEDGER_TXN_BUCKETS = 12 };
#define LEDGER_TXN_US_MAX(i) (INT64_C(500) << (i))
struct ledger_traffic {
    uint64_t n_commits;     /* answered Txns */
    uint64_t n_conflicts;   /* answered Txns that failed because another node's commit came first */
    uint64_t n_retries;     /* requests sent again, to another member or later */
    uint64_t n_loads;       /* full reads of the copy */
    uint64_t n_compactions; /* compactions by this host */
    uint64_t n_within[LEDGER_TXN_BUCKETS];
    int64_t total_us;
    int64_t lag_ms; /* time the watch took to deliver our last change; -1: none yet */
};

/* State of a shared ledger's store, asked from each of its members. */
enum { LEDGER_MEMBERS_MAX = 32 };
struct ledger_member {
    char name[64];
    char url[272];   /* "": the member has not started */
    bool is_named;   /* listed in the ledger's URI */
    bool answers;    /* the fields below are known only then; members not in the URI are not asked */
    char why[200];   /* why it does not answer */
    bool is_refused; /* it rejects us only: user, password or certificates are wrong */
    int64_t took_us; /* time to answer */
    char version[32];
    bool is_leader, has_leader, is_learner;
    int64_t revision, bytes, used_bytes;
    int64_t quota_bytes;      /* 0: unknown */
    bool is_full, is_corrupt; /* alarms */
};
struct ledger_cluster {
    struct ledger_member member[LEDGER_MEMBERS_MAX];
    size_t n;
    bool is_quorate;   /* a read that needs a majority was answered */
    int64_t quorum_us; /* time of that read */
    bool has_other_alarm;
    char why[200];   /* why that read failed */
    bool is_refused; /* the cluster rejects us only: as above, or rights are missing */
};

struct ledger_health {
    int major, minor;
    uint64_t n_claims, n_events, n_names;
    uint64_t bytes, wal_bytes;
    bool is_read_only;
    bool is_sound;    /* result of the backend's own integrity check */
    char detail[256]; /* text of that check */
    char path[1024];
};

/* Result of salvaging a damaged ledger. */
struct ledger_salvaged {
    char aside[1024];              /* new path of the damaged file */
    size_t n_saved;                /* claims */
    size_t n_lost;                 /* claims whose record is damaged or lost; their ports stay blocked */
    bool may_lack_claims;          /* more claims may be lost, whose ports are free now */
    char unread[96];               /* tables that could not be read to their end, as "claims, events" */
    int64_t n_pages, n_pages_left; /* of the file, by its header and by its length; 0: unknown */
};

/* Flaws of single records in a store that can be read. */
enum ledger_flaw {
    LEDGER_DAMAGED,   /* its record is not valid; port 0: its port is unknown */
    LEDGER_LOST,      /* its port is blocked, but its record is gone */
    LEDGER_UNGUARDED, /* its record exists, but the port is not blocked for all of its bindings */
    LEDGER_MISNAMED,  /* its name leads to claim `other` instead, or to none (0) */
    LEDGER_NAMESAKE,  /* its name leads to `other`, which has the same name; a user must decide */
    LEDGER_CONFLICT,  /* it conflicts with `other`; a user must decide */
};

typedef bool (*store_flaw_fn)(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other);

/* Return whether salvaging the store repairs the flaw. */
static inline bool flaw_is_mendable(enum ledger_flaw flaw)
{
    return flaw != LEDGER_NAMESAKE && flaw != LEDGER_CONFLICT;
}
#endif
