/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_RECORD_H
#define DIBS_STORE_RECORD_H
/* The records that a store keeps, and their packed forms. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"

/* The state of a claim when its holder was judged. */
struct ledger_seen {
    uint64_t id;
    uint64_t generation;
    int64_t lease_until_ms; /* a renewal changes only this: compare it before ending the claim */
};

#define STORE_SECRET_BYTES 16

struct claim_record {
    dibs_claim claim; /* its token is empty */
    uint8_t secret[STORE_SECRET_BYTES];
    /* Used only by the store of a cluster: */
    uint32_t node; /* number of the node that owns the claim */
    int64_t lease; /* incarnation of that node to which the holder is attached; 0: none */
};

struct name_record {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char name[DIBS_NAME_MAX + 1];
    uint64_t claim_id; /* 0: the name is only remembered */
    uint16_t port;
    int64_t used_ms;                    /* wall clock */
    char project[DIBS_PROJECT_MAX + 1]; /* the name's current or last project; "": none */
    /* Used only by the store of a cluster: */
    int64_t revision; /* mod_revision in etcd of a cluster-scope name; 0: it has no key */
    int space;        /* space of its key in etcd; differs from the port's after the pool changed its scope */
};

struct event_record {
    dibs_event event;
    uint64_t cursor; /* cursor of the candidate orders after the event */
};

/* How often, and since when, a claim was observed unused. */
struct sighting_record {
    struct ledger_seen seen;
    uint32_t count;
    int64_t since_ms; /* CLOCK_BOOTTIME of the first sighting; 0: written by an older dibs without it */
};

/* One claim of the stored answer to a batch with a key. */
struct answer_record {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char key[DIBS_KEY_MAX + 1];
    uint32_t part, n; /* this is number `part` of n */
    uint64_t seq;     /* newest event at that time: the answer is trimmed together with it */
    uint64_t digest;
    uint64_t claim_id, generation;
};

#define RECORD_FACT_MAX 63 /* bytes: a UUID has 36, and a user may choose an installation's id */

/* A fact about the Kubernetes cluster that the ledger serves. The cluster's controller writes it. */
struct fact_record {
    char subject[DIBS_PRINCIPAL_MAX + 1]; /* the principal of a namespace; "": the cluster itself */
    /* Of the cluster: the uid of its namespace kube-system, and the id of the installation of dibs. */
    char cluster[RECORD_FACT_MAX + 1];
    char installation[RECORD_FACT_MAX + 1];
    uint32_t quota; /* of a namespace: the number of ports that it may have */
    /* Used only by the store of a cluster: */
    int64_t revision; /* mod_revision in etcd */
};

/* State of one port of one protocol. */
struct ledger_slot {
    dibs_proto proto;
    uint16_t port;
    dibs_address address;
    uint64_t claim_id; /* 0: free, released at released_ms (CLOCK_BOOTTIME) */
    bool is_exclusive;
    int64_t released_ms;
    /* Used only by the store of a cluster: */
    uint32_t node;    /* number of the node that released the port */
    int64_t there_ms; /* release time on that node's clock; the cooldown starts when this node sees it */
};
typedef bool (*ledger_slot_fn)(void *ctx, const struct ledger_slot *slot);

/* Names of one principal from `from` up to, not including, `to`, in byte order; also remembered ones. */
struct ledger_names {
    const char *principal;
    const char *from, *to;
    const char *project; /* only names whose current or last project this is; NULL: any */
};

struct ledger_filter {       /* zero: everything */
    const char *name_prefix; /* whole leading parts of the name */
    const char *pool;
    const char *principal;
    uint16_t port;
    dibs_proto proto; /* 0: any */
    bool held_only;   /* only claims with a holder, for the reaper */
    uint64_t after_id;
    size_t limit;        /* 0: none */
    const char *project; /* only names of this project directory */
};

/* ---- the claims of one port ---- */
struct id_list { /* zero is empty */
    uint64_t *id;
    size_t n, max;
    bool is_failed; /* out of memory: some ids are missing */
};
void id_list_auto(struct id_list *list);
/* Add an id; 0 is ignored. False: out of memory. */
bool id_list_add(struct id_list *list, uint64_t id);
/* Sort in ascending order and remove duplicates. */
void id_list_sort(struct id_list *list);

/* ---- tokens and packed forms (record.c) ---- */
/* Check a node's name. A daemon has the name of its host, its other processes HOST/PART. */
dibs_status record_check_node(const char *name, bool may_have_part, dibs_err *err);
dibs_status record_secret(uint8_t out[STORE_SECRET_BYTES], dibs_err *err);
void record_token_format(const struct claim_record *row, char out[DIBS_TOKEN_MAX + 1]);
struct record_token {
    uint64_t id, generation;
    uint8_t secret[STORE_SECRET_BYTES];
};
bool record_token_parse(const char *text, struct record_token *out);
/* Compare in constant time. */
bool record_secret_equal(const uint8_t a[STORE_SECRET_BYTES], const uint8_t b[STORE_SECRET_BYTES]);

#define RECORD_BINDINGS_BYTES_MAX (DIBS_BINDINGS_MAX * 18)
/* Pack proto, address length and address bytes of each binding. */
size_t record_bindings_pack(const dibs_claim *claim, uint8_t out[RECORD_BINDINGS_BYTES_MAX]);
bool record_bindings_unpack(const uint8_t *bytes, size_t n, dibs_claim *claim);
/* Check that dibs could have written this record. `why` gets the first reason why not. */
bool record_claim_valid(const dibs_claim *claim, const char **why);
/* Add the slot's binding, unless the claim has it already or has no room. */
void record_add_binding(dibs_claim *claim, const struct ledger_slot *slot);
/* Return the slot of a claim's i-th binding. */
struct ledger_slot record_slot(const dibs_claim *claim, size_t i);
/* Make a placeholder without bindings for a claim whose record is lost (INV-6, INV-10). */
void record_make_lost(struct claim_record *row, uint64_t id, uint16_t port);
/* Move a keeper that version 1.4 or older wrote as the command of a namespace's claim. */
void record_upgrade_keeper(dibs_claim *claim);
bool record_is_named(const dibs_claim *claim, const char *principal, const char *name);
bool record_same_bindings(const dibs_claim *a, const dibs_claim *b);
#endif
