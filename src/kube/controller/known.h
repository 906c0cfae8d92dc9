/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_KNOWN_H
#define DIBS_KUBE_CONTROLLER_KNOWN_H
/* The ledger's claims as the reconciler knows them, by principal and name, in a hash table. */
#include "base/hash_table.h"
#include "dibs/claim.h"
#include "ledger/ledger.h"

/* A claim of the cluster and the state of its lease when this reconciler first saw it. */
struct known {
    struct hash_table_item item; /* by principal and name */
    uint64_t id, generation;
    int64_t lease_until_ms; /* by the ledger's clock: only compared for equality */
    int64_t over_ms;        /* when its lease expires by our clock; 0: it has no lease */
    int64_t unneeded_ms;    /* since when no object needs it; 0: it is needed */
    uint64_t pass;
    uint16_t port;
    bool is_confirmed; /* in this pass, because its pod has come */
};

struct known *known_find(const struct hash_table *all, const char *principal, const char *name);
/* Return the claim with that number, also if it has left its name and is called NAME/PORT; NULL: none. */
struct known *known_of(const struct hash_table *all, const char *principal, const char *name, uint16_t port);
/* Note the claim in this pass. *is_new: its id was not known. NULL: out of memory. */
struct known *known_note(struct hash_table *all, const dibs_claim *claim, uint64_t pass, int64_t now_ms,
                         bool *is_new);
/* Forget the claims that were not noted in this pass. */
void known_forget(struct hash_table *all, uint64_t pass);

/* Claims for the next ledger_end(). */
struct known_list {
    struct ledger_seen *all;
    size_t n, max;
};
/* Add a claim. When memory is short, the next pass handles it. */
void known_list_add(struct known_list *list, const struct known *k);
#endif
