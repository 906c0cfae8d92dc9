/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STATUS_H
#define DIBS_STATUS_H
/* Outcomes, and errors that the caller owns. */
#include <stdbool.h>
#include <stdint.h>

#include "dibs/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DIBS_API __attribute__((visibility("default")))
#define DIBS_MUST_USE __attribute__((warn_unused_result))
#define DIBS_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* Outcomes that a caller can act on. The value is the exit code of the command line. */
#define DIBS_STATUS_MAP(X)                           \
    X(OK, 0, "ok")                                   \
    X(FAILURE, 1, "the operation failed")            \
    X(INVALID, 2, "the request is malformed")        \
    X(TAKEN, 3, "held by someone else")              \
    X(EXHAUSTED, 4, "no free port left in the pool") \
    X(NOT_FOUND, 5, "not found")                     \
    X(UNAVAILABLE, 6, "the ledger is unavailable")   \
    X(DENIED, 7, "not allowed")
typedef enum dibs_status {
#define X(name, value, text) DIBS_##name = (value),
    DIBS_STATUS_MAP(X)
#undef X
} dibs_status;

DIBS_API const char *dibs_status_text(dibs_status code);

/* The name and the socket type of a protocol are one row in src/net/proto.c. */
typedef enum dibs_proto { DIBS_TCP = 1, DIBS_UDP = 2, DIBS_SCTP = 3 } dibs_proto;
#define DIBS_PROTO_MAX DIBS_SCTP

/* Packed: IPv4 has 4 bytes, IPv6 16. 16 zero bytes are the dual-stack wildcard. */
typedef struct dibs_address {
    uint8_t len;
    bool v6only; /* only for an observed IPv6-only socket; never for a claim */
    uint8_t bytes[16];
} dibs_address;

/* The relation of the caller to the holder of a port (D18). */
typedef enum dibs_relation {
    DIBS_REL_NONE = 0,
    DIBS_REL_SAME_NAME,    /* the name already has a claim that differs from the request */
    DIBS_REL_SAME_HOLDER,  /* the caller's own claim on the same address */
    DIBS_REL_OWN_WILDCARD, /* the caller's own claim, one of the two a wildcard */
    DIBS_REL_OTHER_HOLDER, /* another principal's claim */
    DIBS_REL_FOREIGN,      /* a process without a claim uses the port */
    DIBS_REL_USES,         /* the holder of this claim uses a claim that was to be dropped */
    DIBS_REL_NAT,          /* a NAT rule sends the port's packets elsewhere */
} dibs_relation;

typedef struct dibs_blocker {
    dibs_relation relation;
    dibs_proto proto;
    dibs_address address;
    uint16_t port;
    int32_t pid; /* 0: unknown */
    uint32_t uid;
    int64_t since_ms; /* wall clock; 0: unknown */
    char name[DIBS_NAME_MAX + 1];
    char command[DIBS_COMMAND_MAX + 1];
    bool differs; /* SAME_NAME: the claim differs from the request */
} dibs_blocker;

/* Why a ledger is unavailable. The first three allow the MRU fallback. */
typedef enum dibs_trouble {
    DIBS_TROUBLE_NONE = 0,
    DIBS_TROUBLE_MISSING,    /* the file cannot be created: no such directory */
    DIBS_TROUBLE_UNWRITABLE, /* permissions, or a read-only file system */
    DIBS_TROUBLE_FULL,       /* no space left, or quota */
    DIBS_TROUBLE_LOCKED,     /* another process held it until the deadline */
    DIBS_TROUBLE_DAMAGED,    /* not readable as a ledger */
    DIBS_TROUBLE_NEWER,      /* written by a newer major version */
    DIBS_TROUBLE_REMOTE,     /* on a network file system */
} dibs_trouble;

/* On the caller's stack, without allocation. Meaningful only after a failure. */
typedef struct dibs_err {
    dibs_status code;
    int os_errno; /* 0 unless a system call failed */
    dibs_trouble trouble;
    dibs_blocker blocker; /* relation is DIBS_REL_NONE unless code is DIBS_TAKEN */
    char msg[DIBS_ERR_MSG_MAX];
} dibs_err;

#ifdef __cplusplus
}
#endif
#endif
