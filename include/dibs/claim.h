/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLAIM_H
#define DIBS_CLAIM_H
/* The values that requests, claims, pools and events are made of. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/net.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dibs_kind { DIBS_DYNAMIC = 0, DIBS_STATIC = 1 } dibs_kind;

typedef enum dibs_mode {
    DIBS_RANDOM = 0, /* dibs chooses */
    DIBS_REQUIRED,   /* this port or an error */
    DIBS_PREFERRED,  /* this port, else dibs chooses */
    DIBS_DECLARED,   /* recorded so that dynamic choice avoids it; not exclusive, never an error */
} dibs_mode;

typedef enum dibs_holder { DIBS_HELD_BY_NOBODY = 0, DIBS_HELD_BY_PROCESS, DIBS_HELD_BY_LEASE } dibs_holder;

/* Liveness has three values; dead is final (INV-5). */
typedef enum dibs_life { DIBS_ALIVE = 0, DIBS_DEAD, DIBS_UNKNOWN } dibs_life;

/* What the kernel does so that a claimed port stays its owner's (docs/HOLD.md). */
typedef enum dibs_hold {
    DIBS_HOLD_AUTO = 0, /* of a request: `enforce` where a daemon offers it, else none. Of a claim: none */
    DIBS_HOLD_NONE,     /* the ledger alone */
    DIBS_HOLD_GUARD,    /* a bound socket that is never used: no outgoing connection and no bind(0) gets it */
    DIBS_HOLD_FD,       /* the listening socket itself, passed to the program */
    DIBS_HOLD_ENFORCE,  /* the kernel refuses every bind of others */
} dibs_hold;

/* The identity of a process, independent of wall time and of pid reuse. */
typedef struct dibs_process {
    char boot_id[DIBS_BOOT_ID_MAX + 1];
    uint64_t pidns;       /* inode of the pid namespace in which `pid` counts */
    uint64_t start_ticks; /* field 22 of /proc/PID/stat */
    int32_t pid;
} dibs_process;

typedef struct dibs_binding {
    dibs_proto proto;
    dibs_address address;
} dibs_binding;

typedef struct dibs_claim {
    uint64_t id;
    uint64_t generation;
    uint16_t port;
    dibs_kind kind;
    bool is_exclusive; /* false for a declared port */
    bool is_kept;
    dibs_holder holder;
    dibs_process process;   /* of a process holder; boot_id also of a lease */
    int64_t lease_ttl_ms;   /* of a lease */
    int64_t lease_until_ms; /* CLOCK_BOOTTIME */
    uint32_t uid;           /* the user whose sockets are the holder's */
    uint64_t netns;         /* inode of the network namespace the claim was made in */
    int64_t created_ms;     /* wall clock, for people */
    int64_t changed_ms;
    size_t n_bindings;
    dibs_binding bindings[DIBS_BINDINGS_MAX];
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char name[DIBS_NAME_MAX + 1]; /* empty: unnamed */
    char pool[DIBS_POOL_NAME_MAX + 1];
    char command[DIBS_COMMAND_MAX + 1];
    char project[DIBS_PROJECT_MAX + 1];
    char env[DIBS_ENV_MAX + 1];       /* variables of its process: "PORT=20001 API=20002"; empty: unknown */
    char keeper[DIBS_KEEPER_MAX + 1]; /* object it is kept for: "StatefulSet/web", "Pod"; "observation" if a
                                         repair declared it; empty: none */
    dibs_hold hold;
    uint16_t as_port;               /* number by which the processes of its `dibs run` know it; 0: its own */
    uint16_t run;                   /* first of this many ports claimed as a run; 1: alone; 0: not recorded */
    char token[DIBS_TOKEN_MAX + 1]; /* empty in listings and for claims of others */
    char node[DIBS_NODE_MAX + 1];   /* in a cluster: the host of the claim; empty: this host */

    /* The library fills these in answers; the ledger does not store them. */
    bool was_there;   /* the name already had this claim */
    bool was_kept;    /* ... and it was kept before this call */
    bool is_degraded; /* from the MRU fallback: not in the ledger; its port alone releases it */
    bool is_narrowed; /* the host has no IPv6: "*" or "localhost" became IPv4 only */
    bool is_damaged;  /* its record is not valid: the port stays blocked until 'dibs doctor --fix' */
    char hold_note[DIBS_HOLD_NOTE_MAX + 1]; /* why an automatic level could not be had; empty: it could */
    bool is_orphan;                         /* the holder is dead, but its socket is still bound */
    dibs_life life;                         /* of the holder; ALIVE for a kept claim without one */
    /* State of the host's lease that holders of a cluster's ports are attached to; ALIVE if none is needed.
     * DEAD: it expired, the claim is lost. UNKNOWN: this host cannot renew it, or another host has none. */
    dibs_life node_life;
} dibs_claim;

/* One wanted claim. Zero: unnamed, random, default pool, tcp on "*", no holder. Strings are borrowed. */
typedef struct dibs_request {
    const char *name;    /* absolute name without leading slash; NULL: unnamed */
    const char *project; /* directory of the name, see dibs_name_locate(); NULL: use the name as it is */
    const char *pool;    /* NULL: the settings' pool; the port may then be outside of it */
    const dibs_ranges *ranges; /* instead of a pool; NULL: the pool's. A pool or ranges also apply to an
                                  existing claim of the name: TAKEN if its port is outside */
    dibs_mode mode;
    uint16_t port; /* for the modes that name one; 0: no claim is made, the answer is empty */
    dibs_holder holder;
    int32_t pid;     /* of a process holder, in the caller's pid namespace; 0: the caller */
    int64_t ttl_ms;  /* of a lease */
    const char *env; /* of a process holder: recorded in the claim, even if it already holds it; NULL: none */
    const char *keeper; /* recorded in the claim of a namespace; NULL: none */
    bool keep;          /* stays without a holder until released */
    bool is_lookup;  /* `get`: return an existing claim of the name; TAKEN if its port or bindings differ */
    bool is_adopted; /* with is_lookup and keep: keep an existing claim from now on, with any holder */
    /* A level that was asked for and cannot be had fails the call; an automatic one does not. */
    dibs_hold hold;
    uint16_t as_port; /* recorded in the claim, also in an existing one of the name; 0: none */
    bool is_reuser;   /* the program sets a reuse option: AUTO may be a guard */
    uint32_t run;     /* this many requests from this one on get adjacent ports; 0 and 1: alone */
    size_t n_bindings;
    dibs_binding bindings[DIBS_BINDINGS_MAX];
} dibs_request;

/* A claim of the caller to end in the transaction that makes others. If its holder is alive, it is only no
 * longer kept, and ends with its holder. A claim that has changed since is skipped. */
typedef struct dibs_drop {
    const dibs_claim *claim; /* as listed, with its life */
    bool frees_name; /* a request of the batch takes its name: if it does not end, rename it NAME/PORT; a
                        later request for a free NAME of five parts with that port renames it back */
    bool stays;      /* others than its holder use it: it does not end, and is kept as before */
    uint32_t shared_bytes; /* a held claim whose name begins with this many bytes of this one's name uses it:
                              unless it stays, the batch is TAKEN (DIBS_REL_USES); 0: no claim uses it */
} dibs_drop;

typedef struct dibs_batch {
    const dibs_request *requests;
    size_t n;               /* 0 without drops is a no-op */
    const dibs_drop *drops; /* ended first, in the same transaction */
    size_t n_drops;
    bool is_contiguous; /* request i gets base + i; all must be random */
    uint32_t align;     /* of the base, also of a single port; 0 and 1: none */
    bool is_dry_run;    /* make the same decisions, but commit nothing */
    const char *key; /* idempotency key: a repeated call with the same key returns the same claims; 1 to 128
                        bytes, no control characters, no blank at its ends; NULL: none. Keys expire with
                        their events */
} dibs_batch;

/* A port number that the processes of a command believe in. */
typedef struct dibs_number {
    dibs_proto proto;
    uint16_t inside;  /* what the processes see */
    uint16_t outside; /* the claimed port */
    bool is_own;      /* false: another command binds it; this one can only connect to it */
} dibs_number;

typedef struct dibs_numbers {
    int32_t pid; /* a child of the caller, which has not executed its command yet */
    const dibs_number *numbers;
    size_t n; /* at most DIBS_NUMBERS_MAX */
} dibs_numbers;

typedef enum dibs_scope { DIBS_SCOPE_HOST = 0, DIBS_SCOPE_CLUSTER } dibs_scope;

enum { DIBS_BAND_AUTO = -1 }; /* by formula; 0: no band; else that many ports */

typedef struct dibs_pool {
    char name[DIBS_POOL_NAME_MAX + 1];
    dibs_ranges ranges;
    dibs_scope scope;
    int32_t band;
    int64_t cooldown_ms;
    char order[32];  /* name in the registry of orders */
    bool is_rebuilt; /* a controller has recorded all claims of the cluster's pods */
} dibs_pool;

typedef struct dibs_pool_usage {
    uint32_t size;        /* ports of the pool */
    uint32_t band;        /* ports of the lower band */
    uint32_t n_static;    /* ports with a static claim */
    uint32_t n_dynamic;   /* ports with a dynamic claim */
    uint32_t n_available; /* ports that a dynamic claim may still get */
    uint32_t n_withheld;  /* ephemeral, reserved or blocked by browsers */
} dibs_pool_usage;

typedef enum dibs_event_kind {
    DIBS_EV_CLAIMED = 1,
    DIBS_EV_RELEASED,
    DIBS_EV_RENEWED,
    DIBS_EV_TRANSFERRED,
    DIBS_EV_REAPED,      /* ended because its holder was dead */
    DIBS_EV_UNHELD,      /* kept, its holder is gone */
    DIBS_EV_REPAIRED,    /* restored from observation */
    DIBS_EV_LEAKED,      /* dropped: not in use for all of the grace */
    DIBS_EV_QUARANTINED, /* a damaged record was set aside */
    DIBS_EV_POOL,        /* a pool was made, changed or removed */
} dibs_event_kind;

typedef struct dibs_event {
    uint64_t seq;
    int64_t time_ms; /* wall clock */
    dibs_event_kind kind;
    uint64_t claim_id;
    uint64_t generation;
    uint16_t port;
    uint8_t protos; /* bit (1 << proto) for each protocol of the claim */
    bool is_dynamic;
    uint32_t actor_uid;
    int32_t actor_pid;
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char name[DIBS_NAME_MAX + 1];
} dibs_event;

/* Events with a number above `since`, ascending. */
typedef struct dibs_event_query {
    uint64_t since;
    size_t limit; /* 0: all */
    bool newest;  /* the last `limit` events instead of the first */
} dibs_event_query;

/* A host that shares the ledger with others. */
typedef struct dibs_node {
    char name[DIBS_NODE_MAX + 1];
    bool is_here;  /* it is this host */
    bool is_alive; /* its daemon has a lease; HOST/PART, a webhook or a controller, never has one */
} dibs_node;
typedef bool (*dibs_node_fn)(void *ctx, const dibs_node *node);

/* A full snapshot. */
typedef struct dibs_snapshot {
    const dibs_claim *claims;
    size_t n;
    const dibs_pool *pools;
    size_t n_pools;
} dibs_snapshot;

#ifdef __cplusplus
}
#endif
#endif
