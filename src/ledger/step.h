/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_STEP_H
#define DIBS_LEDGER_STEP_H
/* Inside the ledger: transactions, and the changes of a claim's life that every decision is made of. */
#include "ledger/ledger.h"
#include "store/store.h"

/* A transaction that several calls share. A ledger has one at a time. */
struct ledger_tx {
    struct ledger *ledger; /* NULL: there is none */
    bool is_write;
    bool is_open;    /* the store's transaction has begun */
    bool is_spoilt;  /* a call failed halfway: nothing can be kept */
    bool is_full;    /* its commit survives power loss */
    bool lacks_sync; /* ... and must, which turned out after it had begun */
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

/* The backend of a URI (ledger.c), and what follows its colon; NULL: there is none. */
const struct store_ops *ledger_backend(const char *uri, const char **rest);

/* The claim of a name (named.c); NOT_FOUND: none. *known is the name's record. If that leads to another
 * claim, all claims are searched. A damaged claim may have lost its name. */
dibs_status store_find_named(struct store *store, const char *principal, const char *name,
                             struct name_record *known, struct claim_record *out, dibs_err *err);

/* One decision: in a transaction of its own, or as a part of one that several calls share. */
struct step {
    struct store *store; /* NULL: not begun */
    const struct call *call;
    uint64_t seq;
    uint64_t cursor;
    struct ledger *ledger;
    bool is_inner;        /* only reads, in a shared transaction: not this step's to end */
    struct ledger_tx *tx; /* shared, and written to; NULL: its own */
    uint64_t changes;     /* that had been made in it before this step */
    bool is_saved;
    int64_t n_more; /* claims of the caller that it makes, less those that it ends */
    bool is_begun;  /* of step_next() */
    unsigned n_tries;
};
dibs_status step_read(struct step *step, struct ledger *ledger, const struct call *call, dibs_err *err);
dibs_status step_write(struct step *step, struct ledger *ledger, const struct call *call, bool is_full,
                       dibs_err *err);
void step_auto(struct step *step); /* rolls back unless committed */
/* Set a savepoint in a shared transaction, before changes that may fail halfway or are not to stay. */
dibs_status step_save(struct step *step, dibs_err *err);
/* The loop of a decision. The first call begins; `is_full`: its commit survives power loss. The next one
 * commits when the body left *s OK, and ends the loop, unless another host's commit came first: then the body
 * decides again. EXHAUSTED: more claims than the caller may have. */
bool step_next(struct step *step, struct ledger *ledger, const struct call *call, bool is_full,
               dibs_status *s, dibs_err *err);

/* Append one event about a claim. */
dibs_status step_event(struct step *step, dibs_event_kind kind, const dibs_claim *claim, dibs_err *err);
/* A changed pool is an event, too. */
dibs_status step_pool_event(struct step *step, const char *name, dibs_err *err);
dibs_status step_pool_put(struct step *step, const dibs_pool *pool, dibs_err *err);
/* A new claim from a template: id, generation 1, secret, times, slots, name, event. */
dibs_status step_insert(struct step *step, const dibs_claim *template, uint16_t port, dibs_event_kind kind,
                        struct claim_record *row, dibs_err *err);
/* The claim's name leads to `claim_id`; 0: to nothing any more, its port is remembered. */
dibs_status step_put_name(struct step *step, const dibs_claim *claim, uint64_t claim_id, dibs_err *err);
/* The name of a claim whose own went to another one while it was in use: "shop/web/0/-/http/8080". */
void step_left_name(const char *name, uint16_t port, char out[DIBS_NAME_MAX + 1]);
/* The claim's name is another from now on; the caller writes the record. Its old one remembers the port. */
dibs_status step_rename(struct step *step, dibs_claim *claim, const char *name, dibs_err *err);
/* Before a claim is kept no longer: it must not be kept again after power loss. */
void step_unkeeps(struct step *step, const dibs_claim *was);
/* Rewrite a claim that its holder has as before: changed time, event. */
dibs_status step_change(struct step *step, struct claim_record *row, dibs_event_kind kind, dibs_err *err);
/* Rewrite a claim whose holder changed: next generation, new secret, changed time, event. */
dibs_status step_rehold(struct step *step, struct claim_record *row, dibs_event_kind kind, dibs_err *err);
/* End a claim: record, slots (a dynamic port cools), name remembered, sightings, event. */
dibs_status step_end(struct step *step, const struct claim_record *row, dibs_event_kind kind, dibs_err *err);
/* Drop what is older than the limits keep. */
dibs_status step_trim(struct step *step, dibs_err *err);
/* Give the claim the holder of `by`, with uid, network namespace, command and environment; a lease starts
 * now. */
void step_hold(const struct step *step, dibs_claim *claim, const dibs_claim *by);
/* Start or restart a lease of claim->lease_ttl_ms at the call's time. */
void step_lease(const struct step *step, dibs_claim *claim);
/* Has it a lease that has not ended, of the holder or beneath a process that took it over? Of any boot. */
bool step_lease_runs(const dibs_claim *claim, int64_t boot_ms);

/* ---- one claim decision under way: named.c settles the names, claim.c the ports ---- */

struct claiming {
    struct step *step;
    const struct ledger_batch *batch;
    struct ledger_refusal *refusal;
    dibs_err *err;
};

/* Judged to be dead beforehand, and still as it was then. */
bool claiming_is_dead(const struct ledger_batch *batch, const dibs_claim *claim);
/* Asks the kernel; a busy port is noted in the refusal. */
dibs_status claiming_probe(struct claiming *k, const struct ledger_want *want, uint16_t port, bool *is_free);
/* The claim that the want's name has. *is_done false: the name is free now, go on to the candidates. */
dibs_status claiming_by_name(struct claiming *k, const struct ledger_want *want, dibs_claim *out,
                             bool *is_done);
/* End the batch's drops, or leave them to their holders (end.c). TAKEN: one that is shared is in use. */
dibs_status claiming_drop(struct claiming *k);
void claiming_answer(const struct claim_record *row, bool was_there, dibs_claim *out);
#endif
