/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DIBS_H
#define DIBS_DIBS_H
/* libdibs: a port that is yours.
 *
 * One handle may be used by one thread at a time; open one per thread, and a new one after a fork. A callback
 * must not use the handle that calls it: that, a missing argument, or an invalid value returns INVALID and
 * changes nothing. Every function that can fail returns dibs_status and on failure fills `err` (may be
 * NULL), which has no meaning after a success. Out-parameters are written only on success. Every call ends
 * within the settings' timeout; reap, repair and doctor have it for each of their steps. */
#include "dibs/claim.h"
#include "dibs/net.h"
#include "dibs/settings.h"
#include "dibs/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dibs dibs; /* opaque */

/* "0.1.0" */
DIBS_API const char *dibs_version(void);

/* Open a handle. `settings` NULL: dibs_settings_load() without flags. The handle keeps a copy, whose `socket`
 * then says what is used: the path of a daemon, which does everything, or "none". A daemon that is configured
 * or found must answer: otherwise UNAVAILABLE, never another ledger. With the ledger mode `fallback` this
 * succeeds when the ledger is missing, unwritable or full; dibs_is_degraded() reports it. The caller owns
 * *out and ends it with dibs_close(). */
DIBS_API DIBS_MUST_USE dibs_status dibs_open(const dibs_settings *settings, dibs **out, dibs_err *err);
/* NULL is fine. Claims stay. */
DIBS_API void dibs_close(dibs *handle);
/* Without a handle these four return 0, false, NULL and "". */
/* Return the time of the clock for leases: CLOCK_BOOTTIME of the host, in a time namespace too. */
DIBS_API int64_t dibs_boot_ms(const dibs *handle);
/* Return whether the handle works without its ledger; `why` (may be NULL) gets the reason. */
DIBS_API bool dibs_is_degraded(const dibs *handle, char *why, size_t why_size);
DIBS_API const dibs_settings *dibs_settings_of(const dibs *handle);
/* Return the principal of the handle's claims: "uid:1000"; with a daemon outside the pid namespace
 * "uid:1000@4026532321.239373"; "" when the daemon does not answer. */
DIBS_API const char *dibs_principal_of(const dibs *handle);

/* Claim all of the batch or nothing; out[i] answers requests[i]. TAKEN fills err->blocker. */
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_ports(dibs *handle, const dibs_batch *batch, dibs_claim *out,
                                                    dibs_err *err);

/* The sockets of a claim, one for each of its bindings. */
typedef struct dibs_sockets {
    dibs_claim claim;
    size_t n;
    int fd[DIBS_BINDINGS_MAX]; /* listening, of UDP bound; close-on-exec. The caller closes them */
} dibs_sockets;
/* Claim a port, and bind and listen on it: hold level FD. A port that dibs chooses and another process takes
 * meanwhile is replaced. Errors as dibs_claim_ports(); TAKEN also for a port that is in use. Nothing stays
 * claimed after an error. */
DIBS_API DIBS_MUST_USE dibs_status dibs_listen(dibs *handle, const dibs_request *request, dibs_sockets *out,
                                               dibs_err *err);
/* Pass the sockets to another process over a connected Unix socket (SCM_RIGHTS); ours stay open. UNAVAILABLE:
 * nobody receives. */
DIBS_API DIBS_MUST_USE dibs_status dibs_sockets_send(int to, const dibs_sockets *sockets, dibs_err *err);
/* Receive them, with port, name and bindings of the claim. UNAVAILABLE: the sender has closed; INVALID: it
 * sent something else. */
DIBS_API DIBS_MUST_USE dibs_status dibs_sockets_receive(int from, dibs_sockets *out, dibs_err *err);

/* Claim one port on all of these hosts of a shared ledger or on none, kept for the caller's name; the same
 * name gets the same claims again. out[i] answers hosts[i]. DENIED: not an administrator. */
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_on_hosts(dibs *handle, const dibs_request *request,
                                                       const char *const *hosts, size_t n, dibs_claim *out,
                                                       dibs_err *err);

/* Selects a claim by the first of these that is set. A name or port selects among the caller's own. */
typedef struct dibs_which {
    const char *token;
    const char *name;    /* absolute */
    const char *project; /* of the name; NULL: any */
    uint16_t port;
    dibs_proto proto; /* with a port; 0: any */
    bool all_mine;    /* for release: every claim of the caller */
} dibs_which;

enum dibs_release_flags {
    DIBS_RELEASE_FORCE = 1 << 0, /* even if the state of its holder is unknown */
    /* A kept claim stays without a holder; a lease that a process borrowed from holds the claim again. */
    DIBS_RELEASE_UNHOLD = 1 << 1,
    DIBS_RELEASE_UNKEEP = 1 << 2,  /* the same, but being kept does not make it stay */
    DIBS_RELEASE_DRY_RUN = 1 << 3, /* end nothing, only count; a malformed token is then INVALID */
};
/* Release claims. Idempotent: without a match DIBS_OK with *n 0 (`n` may be NULL). A token releases its
 * generation only (INV-3). INVALID: several claims match, the message lists them. DENIED: not the caller's.
 * TAKEN: the state of the holder is unknown and FORCE is not set. UNAVAILABLE, within the timeout: a held
 * claim ends with its holder all the same, a kept one has to be released again (INV-11). A port of the MRU
 * fallback is found by its number. */
DIBS_API dibs_status dibs_claim_release(dibs *handle, const dibs_which *which, unsigned flags, size_t *n,
                                        dibs_err *err);
/* End the caller's claims of `which->name` on those hosts, all or none; *n (may be NULL) counts them, and 0
 * is DIBS_OK. TAKEN: a process on another host holds one. Rights as for dibs_claim_on_hosts(). */
DIBS_API dibs_status dibs_release_on_hosts(dibs *handle, const dibs_which *which, const char *const *hosts,
                                           size_t n_hosts, size_t *n, dibs_err *err);
/* Extend a lease: it now ends ttl_ms from now. INVALID when no lease holds the claim. */
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_renew(dibs *handle, const dibs_which *which, int64_t ttl_ms,
                                                    dibs_claim *out, dibs_err *err);

/* The new holder of a claim. */
typedef struct dibs_heir {
    dibs_holder holder;
    int32_t pid;    /* process: 0 is the caller */
    int64_t ttl_ms; /* lease */
    bool keep;      /* kept (with or without a holder) */
} dibs_heir;
/* Give the claim a new holder, generation and token; the old token is invalid from then on. */
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_transfer(dibs *handle, const dibs_which *which,
                                                       const dibs_heir *heir, dibs_claim *out, dibs_err *err);
/* NOT_FOUND, or INVALID when several claims match (the message lists them) or the token is malformed. */
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_find(dibs *handle, const dibs_which *which, dibs_claim *out,
                                                   dibs_err *err);

/* Find the full name of `name` in a project directory, whose group can differ ("shop~1a2b3c/web"). Requests
 * and dibs_which do this themselves; filters need it. `project` NULL or empty: `name` as it is. */
DIBS_API DIBS_MUST_USE dibs_status dibs_name_locate(dibs *handle, const char *name, const char *project,
                                                    char out[DIBS_NAME_MAX + 1], dibs_err *err);

typedef struct dibs_filter { /* zero: all claims */
    const char *name_prefix; /* whole leading parts of the name */
    const char *pool;
    const char *principal;
    uint16_t port;
    dibs_proto proto;
    uint64_t after_id;   /* paging: claims come in ascending id */
    size_t limit;        /* 0: no limit */
    bool judge;          /* fill `life` and `is_orphan` */
    const char *project; /* names of this directory */
} dibs_filter;
/* Return false to stop. The claim is borrowed for the call; its token is empty. */
typedef bool (*dibs_claim_fn)(void *ctx, const dibs_claim *claim);
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_list(dibs *handle, const dibs_filter *filter, dibs_claim_fn fn,
                                                   void *ctx, dibs_err *err);

typedef bool (*dibs_event_fn)(void *ctx, const dibs_event *event);
DIBS_API DIBS_MUST_USE dibs_status dibs_event_list(dibs *handle, const dibs_event_query *query,
                                                   dibs_event_fn fn, void *ctx, dibs_err *err);
DIBS_API const char *dibs_event_kind_text(dibs_event_kind kind);

/* List the hosts of a cluster; none for a ledger of one host. */
DIBS_API DIBS_MUST_USE dibs_status dibs_node_list(dibs *handle, dibs_node_fn fn, void *ctx, dibs_err *err);
#define DIBS_NODE_FORCE 1u /* even if it is alive */
/* End all claims of a host that will not come back, *n (may be NULL) of them, except kept ones of a
 * namespace, and forget it. DENIED: not an administrator; TAKEN: it is alive; INVALID: it is this host. */
DIBS_API DIBS_MUST_USE dibs_status dibs_node_remove(dibs *handle, const char *name, unsigned flags, size_t *n,
                                                    dibs_err *err);

/* Pools. The pool "default" always exists. */
DIBS_API DIBS_MUST_USE dibs_status dibs_pool_get(dibs *handle, const char *name, dibs_pool *out,
                                                 dibs_err *err);
/* Create or change a pool; claims outside of a changed range stay. */
DIBS_API DIBS_MUST_USE dibs_status dibs_pool_put(dibs *handle, const dibs_pool *pool, dibs_err *err);
/* NOT_FOUND; TAKEN while it has claims. Removing "default" resets it. */
DIBS_API DIBS_MUST_USE dibs_status dibs_pool_remove(dibs *handle, const char *name, dibs_err *err);
typedef bool (*dibs_pool_fn)(void *ctx, const dibs_pool *pool);
DIBS_API DIBS_MUST_USE dibs_status dibs_pool_list(dibs *handle, dibs_pool_fn fn, void *ctx, dibs_err *err);
DIBS_API DIBS_MUST_USE dibs_status dibs_pool_usage_of(dibs *handle, const char *name, dibs_pool_usage *out,
                                                      dibs_err *err);
/* "stride", "random", ...; NULL after the last. */
DIBS_API const char *dibs_order_name(size_t i);

/* A socket that listens (TCP, SCTP) or is bound (UDP). */
typedef struct dibs_socket {
    dibs_proto proto;
    dibs_address address;
    uint16_t port;
    uint32_t uid;
    int32_t pid; /* 0: unknown */
    uint64_t inode;
    bool is_holders; /* the claim's holder has it, or for a kept claim a process that works in its project */
    bool is_below;   /* is_holders: a process below the holder has it */
    bool serves;     /* it listens or receives datagrams; else it is only bound or connected */
    char command[DIBS_COMMAND_MAX + 1];
    /* The rest is "" when unknown; command line and directory are shown to the process's user and to
     * administrators alone. */
    char arguments[DIBS_ARGUMENTS_MAX + 1]; /* the command line */
    char unit[DIBS_UNIT_MAX + 1];           /* systemd's, or "container 4f2a9c1e03b7" */
    char directory[DIBS_DIRECTORY_MAX + 1]; /* where the process works */
} dibs_socket;

typedef enum dibs_reason_kind {
    DIBS_WHY_CLAIMED = 1, /* an exclusive claim */
    DIBS_WHY_DECLARED,    /* declared: dynamic choice avoids it */
    DIBS_WHY_FOREIGN,     /* a socket without a claim */
    DIBS_WHY_COOLING,     /* released a moment ago */
    DIBS_WHY_EPHEMERAL,   /* in the kernel's range for outgoing connections */
    DIBS_WHY_RESERVED,    /* in ip_local_reserved_ports */
    DIBS_WHY_BROWSER,     /* browsers refuse it */
    DIBS_WHY_OUTSIDE,     /* not in the pool */
    DIBS_WHY_BAND,        /* in the static band: dynamic choice takes it last */
    DIBS_WHY_PRIVILEGED,  /* the caller may not bind it */
    DIBS_WHY_UNUSABLE,    /* this host does not have the address or the protocol */
    DIBS_WHY_NAT,         /* a NAT rule sends its packets elsewhere */
} dibs_reason_kind;
typedef struct dibs_reason {
    dibs_reason_kind kind;
    bool blocks_static;  /* it cannot be claimed by number */
    bool blocks_dynamic; /* dynamic choice does not take it (or takes it last) */
    char text[DIBS_ERR_MSG_MAX];
    char advice[256];
} dibs_reason;

/* A NAT rule that sends the packets to a port elsewhere, although no socket is bound to it. */
#define DIBS_NAT_TEXT_MAX 159
typedef struct dibs_nat_rule {
    dibs_proto proto;
    dibs_address address; /* the destination that it matches */
    uint16_t port;
    char text[DIBS_NAT_TEXT_MAX + 1]; /* "table ip nat, chain DOCKER: dnat to 172.17.0.2:80" */
} dibs_nat_rule;

#define DIBS_REPORT_CLAIMS_MAX 16
#define DIBS_REPORT_SOCKETS_MAX 32
#define DIBS_REPORT_REASONS_MAX 48
#define DIBS_REPORT_NAT_MAX 8
typedef struct dibs_port_report {
    size_t n_claims, n_sockets, n_reasons, n_nat;
    bool can_claim;                            /* by number, now, on the requested bindings */
    bool can_choose;                           /* dynamic choice may take it */
    bool is_cut;                               /* there are more claims or sockets than fit */
    dibs_claim claims[DIBS_REPORT_CLAIMS_MAX]; /* with life */
    dibs_socket sockets[DIBS_REPORT_SOCKETS_MAX];
    dibs_reason reasons[DIBS_REPORT_REASONS_MAX];
    dibs_nat_rule nat[DIBS_REPORT_NAT_MAX]; /* as far as the kernel shows its rules */
} dibs_port_report;
/* The request that the caller would make. */
typedef struct dibs_port_question {
    uint16_t port;
    const char *pool;             /* NULL: the settings' */
    const dibs_binding *bindings; /* n 0: tcp on "*" */
    size_t n;
} dibs_port_question;
/* Report everything known about a port, for claims and sockets of the requested protocols. The port is probed
 * unless a claim stands in the way of the bindings. The report is large: allocate it. */
DIBS_API DIBS_MUST_USE dibs_status dibs_port_explain(dibs *handle, const dibs_port_question *question,
                                                     dibs_port_report *out, dibs_err *err);
/* Check that the claim's holder listens on the port (for a kept claim without one: a process of the same user
 * that works in its project). OK fills `out`. NOT_FOUND: no such claim. TAKEN: another process listens (see
 * err->blocker), or none does (relation DIBS_REL_NONE). */
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_assert(dibs *handle, const dibs_which *which, dibs_socket *out,
                                                     dibs_err *err);

/* Let the process and its descendants use port numbers of their own: the daemon's programs in the kernel
 * replace them by the claimed ports. The process is in a cgroup of its own afterwards. UNAVAILABLE: no
 * daemon, or one that does not enforce claims; DENIED: not a child of the caller, or one that can still gain
 * rights (PR_SET_NO_NEW_PRIVS is not set, and its user is not root). */
DIBS_API DIBS_MUST_USE dibs_status dibs_numbers_set(dibs *handle, const dibs_numbers *numbers, dibs_err *err);
/* Is there a daemon that enforces claims? */
DIBS_API bool dibs_is_enforced(dibs *handle);

enum dibs_reap_flags {
    DIBS_REAP_STALE = 1 << 0,   /* also kept claims whose project directory is gone */
    DIBS_REAP_DRY_RUN = 1 << 1, /* change nothing */
};
/* End the claims of dead holders, in small steps. `fn` and `n` (may be NULL) see and count them. */
DIBS_API DIBS_MUST_USE dibs_status dibs_reap(dibs *handle, unsigned flags, dibs_claim_fn fn, void *ctx,
                                             size_t *n, dibs_err *err);

/* The use of a port, as an observer lists it. */
typedef struct dibs_observed {
    dibs_binding binding;
    uint16_t port;
    char name[DIBS_NAME_MAX + 1]; /* may be empty */
} dibs_observed;
typedef enum dibs_repair_kind {
    DIBS_REPAIR_RESTORED = 1, /* in use without a claim: claimed now */
    DIBS_REPAIR_DUPLICATE,    /* observed twice, or claimed by another principal */
    DIBS_REPAIR_OUTSIDE,      /* not in the pool */
    DIBS_REPAIR_SUSPECT,      /* claimed, not in use, for less than the grace */
    DIBS_REPAIR_LEAK,         /* one generation was not in use for all of the grace: dropped */
    DIBS_REPAIR_FULL,         /* could not be restored */
    DIBS_REPAIR_UNCLAIMED,    /* live socket of another user without a claim */
    DIBS_REPAIR_REAPED,       /* ended: its holder was dead */
} dibs_repair_kind;
typedef struct dibs_repair_item {
    dibs_repair_kind kind;
    dibs_binding binding;
    uint16_t port;
    uint32_t sightings; /* of a claim that is not in use: how often it was seen so */
    char name[DIBS_NAME_MAX + 1];
    char text[256];
} dibs_repair_item;
typedef bool (*dibs_repair_fn)(void *ctx, const dibs_repair_item *item);
typedef struct dibs_repair_plan {
    const char *pool;              /* NULL: the default */
    const dibs_observed *observed; /* NULL: the live sockets of this host */
    size_t n;
    bool is_dry_run;
    int64_t grace_ms; /* from a claim's first sighting as unused until it is dropped; 0: three minutes */
} dibs_repair_plan;
/* Compare the ledger with observation and repair it; `fn` sees every finding. */
DIBS_API DIBS_MUST_USE dibs_status dibs_repair(dibs *handle, const dibs_repair_plan *plan, dibs_repair_fn fn,
                                               void *ctx, dibs_err *err);
DIBS_API const char *dibs_repair_kind_text(dibs_repair_kind kind);

/* Export Kubernetes' range snapshot of a pool with one range: its text, and at most 8192 bytes. */
DIBS_API DIBS_MUST_USE dibs_status dibs_snapshot_export(dibs *handle, const char *pool,
                                                        char range[DIBS_RANGES_TEXT_MAX + 1], uint8_t *bytes,
                                                        size_t *n, dibs_err *err);
typedef struct dibs_range_snapshot {
    const char *range;
    const uint8_t *bytes;
    size_t n;
} dibs_range_snapshot;
/* Claim every set bit as kept and static, all or nothing; all bits are checked first (W9). */
DIBS_API DIBS_MUST_USE dibs_status dibs_snapshot_import(dibs *handle, const char *pool,
                                                        const dibs_range_snapshot *snapshot,
                                                        size_t *n_claimed, dibs_err *err);
/* Write the claims and pools of a full snapshot, with new tokens, all or nothing. A claim that exists already
 * (same principal, name, port and bindings) stays unchanged. Dead holders (also of another boot) are dropped:
 * such a claim is restored only if kept. INVALID: dibs cannot have written it. */
DIBS_API DIBS_MUST_USE dibs_status dibs_claim_restore(dibs *handle, const dibs_snapshot *snapshot,
                                                      size_t *n_restored, dibs_err *err);

typedef enum dibs_severity { DIBS_FINE = 0, DIBS_NOTE, DIBS_WARNING, DIBS_PROBLEM } dibs_severity;
typedef struct dibs_finding {
    dibs_severity severity;
    char topic[48];
    char text[DIBS_ERR_MSG_MAX];
    char advice[DIBS_ERR_MSG_MAX]; /* what to do; empty when fine */
} dibs_finding;
typedef bool (*dibs_finding_fn)(void *ctx, const dibs_finding *finding);
/* Check ledger, host and claims, without a handle, because the ledger may not open. `fix`: set a damaged
 * ledger aside and rebuild it from its readable part and from live sockets. */
DIBS_API DIBS_MUST_USE dibs_status dibs_doctor(const dibs_settings *settings, bool fix, dibs_finding_fn fn,
                                               void *ctx, dibs_err *err);

#ifdef __cplusplus
}
#endif
#endif
