/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_RECORD_H
#define DIBS_STORE_RECORD_H
/* The records that a store keeps, and their packed forms. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"

#define LEDGER_KEY_MAX 128 /* bytes: a UUID, or what a build system calls a job */

/* A claim as it was when somebody judged its holder. */
struct ledger_seen {
    uint64_t id;
    uint64_t generation;
    int64_t lease_until_ms; /* renewing a lease changes only this: compare it before acting on a death */
};

#define STORE_SECRET_BYTES 16

struct claim_record {
    dibs_claim claim; /* token empty */
    uint8_t secret[STORE_SECRET_BYTES];
    /* Of a cluster; only its store looks at them: */
    uint32_t node; /* whose claim it is */
    int64_t lease; /* the incarnation of that node that its holder is attached to; 0: none */
};

struct name_record {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char name[DIBS_NAME_MAX + 1];
    uint64_t claim_id; /* 0: only remembered */
    uint16_t port;
    int64_t used_ms;                    /* wall clock */
    char project[DIBS_PROJECT_MAX + 1]; /* whose the name is, or was last; empty: nobody's in particular */
    /* Of a cluster; only its store looks at them: */
    int64_t revision; /* in etcd, when it is of cluster scope; 0: not there */
    int space;        /* of its key in etcd; not the port's own after its pool changed its scope */
};

struct event_record {
    dibs_event event;
    uint64_t cursor; /* of candidate orders, after the event */
};

struct sighting_record {
    struct ledger_seen seen;
    uint32_t count;
};

/* One claim that a batch with a key was answered with. */
struct answer_record {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char key[LEDGER_KEY_MAX + 1];
    uint32_t part, n; /* number `part` of n */
    uint64_t seq;     /* of the newest event then: forgotten together with it */
    uint64_t digest;
    uint64_t claim_id, generation;
};

/* What the ledger knows of one port of one protocol. */
struct ledger_slot {
    dibs_proto proto;
    uint16_t port;
    dibs_address address;
    uint64_t claim_id; /* 0: free, released at released_ms (CLOCK_BOOTTIME) */
    bool is_exclusive;
    int64_t released_ms;
    /* Of a cluster; only its store looks at them: */
    uint32_t node;    /* that released it, */
    int64_t there_ms; /* ... when by that node's clock; the cooldown counts from when this node saw it */
};
typedef bool (*ledger_slot_fn)(void *ctx, const struct ledger_slot *slot);

/* Names from `from` up to (not with) `to`, byte by byte: of claims, and remembered ones. */
struct ledger_names {
    const char *principal;
    const char *from, *to;
    const char *project; /* only those that are or were of this one; NULL: of all */
};

struct ledger_filter {       /* zero: everything */
    const char *name_prefix; /* whole leading parts of the name */
    const char *pool;
    const char *principal;
    uint16_t port;
    dibs_proto proto; /* 0: any */
    bool held_only;   /* with a holder: what the reaper looks at */
    uint64_t after_id;
    size_t limit;        /* 0: none */
    const char *project; /* names of this directory */
};

/* ---- the claims of one port ---- */
struct id_list { /* zero is empty */
    uint64_t *id;
    size_t n, max;
    bool is_failed; /* out of memory: some are missing */
};
void id_list_auto(struct id_list *list);
/* 0 is passed over. False: no room. */
bool id_list_add(struct id_list *list, uint64_t id);
/* Ascending, each once. */
void id_list_sort(struct id_list *list);

/* ---- tokens and packed forms (record.c) ---- */
/* Can a node be called that? A daemon has the name of its host, another long-lived process of it HOST/PART.
 */
dibs_status record_check_node(const char *name, bool may_have_part, dibs_err *err);
dibs_status record_secret(uint8_t out[STORE_SECRET_BYTES], dibs_err *err);
void record_token_format(const struct claim_record *row, char out[DIBS_TOKEN_MAX + 1]);
struct record_token {
    uint64_t id, generation;
    uint8_t secret[STORE_SECRET_BYTES];
};
bool record_token_parse(const char *text, struct record_token *out);
/* Constant time. */
bool record_secret_equal(const uint8_t a[STORE_SECRET_BYTES], const uint8_t b[STORE_SECRET_BYTES]);

#define RECORD_BINDINGS_BYTES_MAX (DIBS_BINDINGS_MAX * 18)
/* proto, length, address bytes, for each binding. */
size_t record_bindings_pack(const dibs_claim *claim, uint8_t out[RECORD_BINDINGS_BYTES_MAX]);
bool record_bindings_unpack(const uint8_t *bytes, size_t n, dibs_claim *claim);
/* Is this a record that dibs could have written? `why` gets the first reason. */
bool record_claim_valid(const dibs_claim *claim, const char **why);
/* That of the slot, unless the claim has it already or has no room. */
void record_add_binding(dibs_claim *claim, const struct ledger_slot *slot);
/* The slot of a claim's binding number `i`. */
struct ledger_slot record_slot(const dibs_claim *claim, size_t i);
/* A claim whose record is gone, so that its holder is unknown (INV-6, INV-10); it has no bindings yet. */
void record_make_lost(struct claim_record *row, uint64_t id, uint16_t port);
/* Version 1.4 and older wrote the keeper of a namespace's claim as its command. */
void record_upgrade_keeper(dibs_claim *claim);
bool record_is_named(const dibs_claim *claim, const char *principal, const char *name);
bool record_same_bindings(const dibs_claim *a, const dibs_claim *b);
#endif
