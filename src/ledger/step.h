/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_STEP_H
#define DIBS_LEDGER_STEP_H
/* Inside the ledger: transactions, and the changes to a claim that every decision consists of. */
#include "ledger/ledger.h"
#include "store/store.h"

/* A transaction that several calls share. A ledger has one at a time. */
struct ledger_tx {
    struct ledger *ledger; /* NULL: unused */
    bool is_write;
    bool is_open;    /* the store's transaction has begun */
    bool is_spoilt;  /* a call failed halfway: it must roll back */
    bool is_full;    /* its commit survives power loss */
    bool lacks_sync; /* a call needs is_full, which was known too late */
    struct ledger_span span;
    uint64_t cursor;
};

struct ledger {
    struct store *store;
    struct ledger_options options;
    struct ledger_tx tx;
    ledger_wrote_fn wrote;
    void *wrote_ctx;
};

/* Return the backend of a URI (ledger.c); *rest is the text after its colon. NULL: unknown. */
const struct store_ops *ledger_backend(const char *uri, const char **rest);

/* Find the claim of a name (named.c), if necessary among all claims; *known is the name's record. */
dibs_status store_find_named(struct store *store, const char *principal, const char *name,
                             struct name_record *known, struct claim_record *out, dibs_err *err);

/* One decision: in its own transaction, or as a part of a shared one. */
struct step {
    struct store *store; /* NULL: not begun */
    const struct call *call;
    uint64_t seq;
    uint64_t cursor;
    struct ledger *ledger;
    bool is_inner;        /* only reads, in a shared transaction that it must not end */
    struct ledger_tx *tx; /* the shared transaction that it writes to; NULL: its own */
    uint64_t changes;     /* changes in that transaction before this step */
    bool is_saved;
    int64_t n_more; /* claims of the caller that it makes, minus those that it ends */
    bool is_begun;  /* by step_next() */
    unsigned n_tries;
};
dibs_status step_read(struct step *step, struct ledger *ledger, const struct call *call, dibs_err *err);
dibs_status step_write(struct step *step, struct ledger *ledger, const struct call *call, bool is_full,
                       dibs_err *err);
void step_auto(struct step *step); /* rolls back unless committed */
/* Set a savepoint in a shared transaction, before changes that may fail halfway or must be undone. */
dibs_status step_save(struct step *step, dibs_err *err);
/* EXHAUSTED: this step would give the caller more claims than allowed. */
dibs_status step_check_allowance(const struct step *step, dibs_err *err);
/* The loop of a decision: begin, run the body, commit if it left *s OK; after a conflict with another host,
 * run it again. `is_full`: the commit survives power loss. EXHAUSTED: too many claims of the caller. */
bool step_next(struct step *step, struct ledger *ledger, const struct call *call, bool is_full,
               dibs_status *s, dibs_err *err);

/* Append one event about a claim. */
dibs_status step_event(struct step *step, dibs_event_kind kind, const dibs_claim *claim, dibs_err *err);
/* Append one event about a pool. */
dibs_status step_pool_event(struct step *step, const char *name, dibs_err *err);
dibs_status step_pool_put(struct step *step, const dibs_pool *pool, dibs_err *err);
/* Make a claim from a template: id, generation 1, secret, times, slots, name, event. */
dibs_status step_insert(struct step *step, const dibs_claim *template, uint16_t port, dibs_event_kind kind,
                        struct claim_record *row, dibs_err *err);
/* Point the claim's name at `claim_id`; 0: at no claim, it only remembers the port. */
dibs_status step_put_name(struct step *step, const dibs_claim *claim, uint64_t claim_id, dibs_err *err);
/* Return the name of a claim that gave its own to another one: "shop/web/0/-/http/8080". */
void step_left_name(const char *name, uint16_t port, char out[DIBS_NAME_MAX + 1]);
/* Rename the claim; the caller writes its record. The old name remembers the port. */
dibs_status step_rename(struct step *step, dibs_claim *claim, const char *name, dibs_err *err);
/* Call this before a claim stops being kept: the commit must then survive power loss. */
void step_unkeeps(struct step *step, const dibs_claim *was);
/* Rewrite a claim of the same holder: changed time, event. */
dibs_status step_change(struct step *step, struct claim_record *row, dibs_event_kind kind, dibs_err *err);
/* Rewrite a claim with a new holder: next generation, new secret, changed time, event. */
dibs_status step_rehold(struct step *step, struct claim_record *row, dibs_event_kind kind, dibs_err *err);
/* End a claim: record, slots (a dynamic port cools), name (remembered), sightings, event. */
dibs_status step_end(struct step *step, const struct claim_record *row, dibs_event_kind kind, dibs_err *err);
/* Drop records beyond the limits. */
dibs_status step_trim(struct step *step, dibs_err *err);
/* Give the claim the holder of `by`, with its uid, network namespace, command and environment. */
void step_hold(const struct step *step, dibs_claim *claim, const dibs_claim *by);
/* Start or restart a lease of claim->lease_ttl_ms at the call's time. */
void step_lease(const struct step *step, dibs_claim *claim);
/* Return whether a lease of any boot runs: the holder's, or the one that a process has borrowed from. */
bool step_lease_runs(const dibs_claim *claim, int64_t boot_ms);

/* ---- one claim decision: named.c decides by name, claim.c by port ---- */

struct claiming {
    struct step *step;
    const struct ledger_batch *batch;
    struct ledger_refusal *refusal;
    dibs_err *err;
};

/* Return whether the caller judged this generation dead, and it has not changed since. */
bool claiming_is_dead(const struct ledger_batch *batch, const dibs_claim *claim);
/* Probe the port; a busy port is noted in the refusal. */
dibs_status claiming_probe(struct claiming *k, const struct ledger_want *want, uint16_t port, bool *is_free);
/* Decide by the claim that the want's name has. *is_done false: the name is free, try the candidates. */
dibs_status claiming_by_name(struct claiming *k, const struct ledger_want *want, dibs_claim *out,
                             bool *is_done);
/* End the batch's drops, or leave them to their holders (change.c). TAKEN: a shared one is in use. */
dibs_status claiming_drop(struct claiming *k);
void claiming_answer(const struct claim_record *row, bool was_there, dibs_claim *out);
#endif
