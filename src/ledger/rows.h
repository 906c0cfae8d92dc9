/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ROWS_H
#define DIBS_LEDGER_ROWS_H
/* What the decisions of ledger.h need from a local, transactional store.
 *
 * SQLite and memory implement these rows, and so does a near copy of what is in etcd; the decisions (claim.c,
 * end.c, ledger.c) are written once on top of them.
 * Unless said otherwise a member is mandatory, must be called inside a transaction, and returns
 * OK or UNAVAILABLE; the ones that get a record also NOT_FOUND. */
#include "ledger/ledger.h"
#include "net/portbits.h"

#define ROWS_SECRET_BYTES 16

struct row_claim {
    dibs_claim claim; /* token empty */
    uint8_t secret[ROWS_SECRET_BYTES];
    /* Of a cluster's ledger, and the rows' own business: */
    uint32_t node; /* whose claim it is */
    int64_t lease; /* the incarnation of that host that its holder hangs on; 0: none */
};

struct row_name {
    uint64_t claim_id; /* 0: only remembered */
    uint16_t port;
    int64_t used_ms;                    /* wall clock */
    char project[DIBS_PROJECT_MAX + 1]; /* whose the name is, or was last; empty: nobody's in particular */
};

/* One claim that a batch with a key was answered with. */
struct row_answer {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char key[LEDGER_KEY_MAX + 1];
    uint32_t part, n; /* number `part` of n */
    uint64_t seq;     /* of the newest event then: forgotten together with it */
    uint64_t digest;
    uint64_t claim_id, generation;
};

struct rows {
    const struct rows_ops *ops; /* first member of every store's struct */
    uint64_t id_base;           /* what claim ids begin behind: others who write there have theirs */
};

typedef bool (*row_claim_fn)(void *ctx, const struct row_claim *row);

struct rows_ops {
    const char *scheme; /* URI part before ':' */
    bool is_shared;     /* by several hosts */

    /* Optional (NULL: whatever follows the colon may be right): is that a URI? */
    dibs_status (*check)(const char *uri, dibs_err *err);
    /* `rest` is the URI after the colon. */
    dibs_status (*open)(const char *rest, const struct ledger_options *options, struct rows **out,
                        dibs_err *err);
    void (*close)(struct rows *self);
    uint64_t (*salt)(struct rows *self);

    /* One deadline for everything until the next start; without it each transaction has its own. */
    void (*start_call)(struct rows *self);

    /* Optional (NULL: there is nothing to care for). */
    dibs_status (*care_beside)(struct rows *self, dibs_err *err);
    /* Optional (NULL: there are none): as ledger_notices(), ledger_heed() and ledger_changed_elsewhere().
     */
    int (*notices)(const struct rows *self);
    uint64_t (*heed)(struct rows *self);
    bool (*changed_elsewhere)(struct rows *self, struct portbits *out);
    void (*doubt)(struct rows *self); /* optional: as ledger_doubt() */

    /* Optional (NULL: this host is alone): as ledger_join() and ledger_lease(). */
    dibs_status (*join)(struct rows *self, int64_t ttl_ms, const char *boot_id, dibs_err *err);
    void (*lease)(const struct rows *self, struct ledger_lease *out);
    /* Optional, too: claims of this host that others have ended. They are forgotten by the commit of the
     * transaction. */
    void (*lost)(struct rows *self, bool (*fn)(void *ctx, const dibs_claim *claim), void *ctx);
    /* Optional, too: as ledger_tend(). */
    void (*tend)(struct rows *self);
    /* Optional, too: as ledger_hang(), inside of a transaction. */
    dibs_status (*hang)(struct rows *self, size_t *n, dibs_err *err);

    /* Optional, too: the hosts; one that is known from now on; and one that is forgotten with all that is its
     * own, outside of a transaction. Before that *n claims are counted, and what is read afterwards is not
     * older than *since. TAKEN: the host has done something since then. */
    void (*nodes)(const struct rows *self, dibs_node_fn fn, void *ctx);
    dibs_status (*node_enrol)(struct rows *self, const char *name, dibs_err *err);
    dibs_status (*node_count)(struct rows *self, const char *name, size_t *n, int64_t *since, dibs_err *err);
    dibs_status (*node_forget)(struct rows *self, const char *name, int64_t since, dibs_err *err);

    /* `is_full`: the commit survives power loss. */
    dibs_status (*begin)(struct rows *self, bool is_write, bool is_full, dibs_err *err);
    dibs_status (*commit)(struct rows *self, dibs_err *err);
    /* Optional (NULL: it costs nothing). Before a commit: it need not survive power loss after all. */
    void (*spare_sync)(struct rows *self);
    void (*rollback)(struct rows *self);
    /* Optional (NULL: one host has it alone): as ledger_beside() and ledger_groups_commit(). */
    dibs_status (*beside)(struct rows *self, const char *node, struct rows **out, dibs_err *err);
    bool (*is_own_host)(const struct rows *self, const struct rows *beside);
    dibs_status (*commit_all)(struct rows *const *rows, size_t n, dibs_err *err);
    /* Optional (NULL: nobody else writes meanwhile). The last commit came to nothing because another was
     * first: whoever decides anew sees that one. */
    bool (*was_beaten)(const struct rows *self);
    /* Optional (NULL: it never does). The last commit failed because the store did not answer. */
    bool (*was_cut)(const struct rows *self);

    /* Optional (NULL: nobody shares it): as ledger_cluster(). */
    dibs_status (*cluster)(const char *rest, int64_t timeout_ms, struct ledger_cluster *out, dibs_err *err);
    /* Optional (NULL: there is none): as ledger_traffic(). */
    const struct ledger_traffic *(*traffic)(const struct rows *self);
    /* Optional likewise: as ledger_place(). */
    bool (*place)(const struct rows *self, uint32_t *rank, uint32_t *n);

    /* Inside of a write transaction: what changes from save() on can be undone by itself, or stays when it is
     * forgotten where to go back to. One at a time. */
    dibs_status (*save)(struct rows *self, dibs_err *err);
    dibs_status (*undo)(struct rows *self, dibs_err *err);
    dibs_status (*forget)(struct rows *self, dibs_err *err);
    /* Grows with every change of a record. */
    uint64_t (*changes)(struct rows *self);

    dibs_status (*claim_get)(struct rows *self, uint64_t id, struct row_claim *out, dibs_err *err);
    dibs_status (*claim_put)(struct rows *self, const struct row_claim *row,
                             dibs_err *err); /* insert or replace */
    dibs_status (*claim_delete)(struct rows *self, uint64_t id, dibs_err *err);
    /* Ascending by id, above after_id; with a principal (and project) or pool only theirs; the caller filters
     * the rest. */
    dibs_status (*claims)(struct rows *self, const struct ledger_filter *filter, row_claim_fn fn, void *ctx,
                          dibs_err *err);

    dibs_status (*slots)(struct rows *self, dibs_proto proto, uint16_t port, ledger_slot_fn fn, void *ctx,
                         dibs_err *err);
    dibs_status (*slot_put)(struct rows *self, const struct ledger_slot *slot, dibs_err *err);
    dibs_status (*slot_delete)(struct rows *self, const struct ledger_slot *slot, dibs_err *err);

    dibs_status (*name_get)(struct rows *self, const char *principal, const char *name, struct row_name *out,
                            dibs_err *err);
    dibs_status (*name_put)(struct rows *self, const char *principal, const char *name,
                            const struct row_name *row, dibs_err *err);
    dibs_status (*name_first)(struct rows *self, const struct ledger_names *among,
                              char out[DIBS_NAME_MAX + 1], dibs_err *err);

    dibs_status (*tail)(struct rows *self, uint64_t *seq, uint64_t *cursor, dibs_err *err);
    dibs_status (*event_put)(struct rows *self, const dibs_event *event, uint64_t cursor, dibs_err *err);
    dibs_status (*events)(struct rows *self, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err);

    dibs_status (*pool_get)(struct rows *self, const char *name, dibs_pool *out, dibs_err *err);
    dibs_status (*pool_put)(struct rows *self, const dibs_pool *pool, dibs_err *err);
    dibs_status (*pool_delete)(struct rows *self, const char *name, dibs_err *err);
    dibs_status (*pools)(struct rows *self, bool (*fn)(void *, const dibs_pool *), void *ctx, dibs_err *err);

    /* *count of sightings of this generation, 0 when there are none. */
    dibs_status (*sighting_get)(struct rows *self, struct ledger_seen seen, uint32_t *count, dibs_err *err);
    /* count 0 deletes. */
    dibs_status (*sighting_put)(struct rows *self, struct ledger_seen seen, uint32_t count, dibs_err *err);

    /* By principal, key and part. */
    dibs_status (*answer_get)(struct rows *self, struct row_answer *answer, dibs_err *err);
    dibs_status (*answer_put)(struct rows *self, const struct row_answer *answer, dibs_err *err);

    /* Copies the damaged record aside for `dibs doctor`; optional (NULL: cannot have damaged ones). Counts
     * new ones. */
    dibs_status (*quarantine)(struct rows *self, const struct ledger_actor *actor, size_t *n, dibs_err *err);
    /* Drops events and answers at or below `oldest_seq`, names remembered beyond `names_kept` (oldest first),
     * and free slots that were released before `cooled_before_ms` or after `now`. */
    dibs_status (*trim)(struct rows *self, uint64_t oldest_seq, size_t names_kept, int64_t cooled_before_ms,
                        const struct instant *now, dibs_err *err);
    dibs_status (*health)(struct rows *self, struct ledger_health *out,
                          dibs_err *err); /* outside a transaction */
    /* Optional (NULL: nothing can be damaged). Outside any open ledger. */
    dibs_status (*rebuild)(const char *rest, const struct ledger_actor *actor, struct ledger_rebuilt *out,
                           dibs_err *err);
};

/* Flaws that can be mended with a slot or a placeholder, lost records last (flaws.c). Inside a transaction;
 * `fn` may write slots, and claims once it is told of lost ones. */
typedef bool (*row_flaw_fn)(void *ctx, enum ledger_flaw flaw, const struct row_claim *row, uint64_t other);
dibs_status rows_flaws(struct rows *rows, row_flaw_fn fn, void *ctx, dibs_err *err);

extern const struct rows_ops rows_etcd_ops;
extern const struct rows_ops rows_sqlite_ops;
extern const struct rows_ops rows_memory_ops;
/* NULL-terminated. */
extern const struct rows_ops *const rows_backends[];

enum { LEDGER_SECRETS = 16 }; /* drawn at once: the kernel is asked seldom, and little is drawn in vain */

/* Several calls in one transaction. */
struct ledger_group {
    bool is_on;
    bool is_open;   /* its transaction has begun */
    bool is_spoilt; /* a call failed halfway: nothing of it all can be kept */
    bool is_full;   /* something in it must survive power loss */
    struct ledger_span span;
    uint64_t cursor;
    uint8_t secrets[LEDGER_SECRETS][ROWS_SECRET_BYTES]; /* for the claims to come, */
    size_t n_secrets;                                   /* ... of which so many are left */
};

/* Ports that were found without a claim in the transaction of the group, in these protocols. */
struct ledger_clear {
    unsigned protos; /* 0: none */
    struct portbits ports;
};

struct ledger {
    struct rows *rows;
    struct ledger_options options;
    bool is_reading; /* between ledger_read_begin() and ledger_read_end() */
    struct ledger_group group;
    struct ledger_clear clear;
    ledger_wrote_fn wrote;
    void *wrote_ctx;
};

/* The claim of a name (named.c); NOT_FOUND: it has none. *known is what the names say: a name that leads to
 * something else is looked for among the claims. A damaged one may have lost its name. */
dibs_status rows_find_named(struct rows *rows, const char *principal, const char *name,
                            struct row_name *known, struct row_claim *out, dibs_err *err);

/* ---- a write transaction with its event numbering (tx.c) ---- */
struct ledger_tx {
    struct rows *rows; /* NULL: not open */
    const struct ledger_actor *actor;
    uint64_t seq;
    uint64_t cursor;
    struct ledger *ledger;
    bool is_inner;              /* part of a longer look: not ours to end */
    struct ledger_group *group; /* whose transaction it is; NULL: its own */
    uint64_t changes;           /* ... had been made before it */
    bool is_saved;
    int64_t n_more; /* claims of the actor that it makes, less those that it ends */
};
dibs_status tx_begin(struct ledger_tx *tx, struct ledger *ledger, bool is_write, bool is_full,
                     const struct ledger_actor *actor, dibs_err *err);
/* EXHAUSTED: more claims than the actor may have. */
dibs_status tx_commit(struct ledger_tx *tx, dibs_err *err);
/* After a decision that came to nothing: is it to be made anew? Counts the attempts. */
bool tx_again(const struct ledger *ledger, dibs_status s, unsigned *n);
/* Until nobody else was first. */
#define DECIDE(ledger, call)                          \
    ({                                                \
        unsigned n_decided = 0;                       \
        dibs_status decided = (call);                 \
        while (tx_again(ledger, decided, &n_decided)) \
            decided = (call);                         \
        decided;                                      \
    })
void tx_auto(struct ledger_tx *tx); /* rolls back unless committed */
/* What follows may fail after it has written something, or is not to stay. (In a transaction of one's own
 * nothing has to be done for that; in that of a group it costs.) */
dibs_status tx_save(struct ledger_tx *tx, dibs_err *err);

/* As ledger_group_clear() has found, and no claim of the group since then. */
bool tx_is_clear(const struct ledger_tx *tx, const dibs_claim *claim, uint16_t port);
/* Append one event about a claim. */
dibs_status tx_event(struct ledger_tx *tx, dibs_event_kind kind, const dibs_claim *claim, dibs_err *err);
/* Pool changes are events too, so that whoever follows the feed learns of them. */
dibs_status tx_pool_event(struct ledger_tx *tx, const char *name, dibs_err *err);
dibs_status tx_pool_put(struct ledger_tx *tx, const dibs_pool *pool, dibs_err *err);
/* A new claim from a template: id, generation 1, secret, times, slots, name, event. */
dibs_status tx_insert(struct ledger_tx *tx, const dibs_claim *template, uint16_t port, dibs_event_kind kind,
                      struct row_claim *row, dibs_err *err);
/* The claim's name leads to `claim_id`; 0: to nothing any more, its port is remembered. */
dibs_status tx_put_name(struct ledger_tx *tx, const dibs_claim *claim, uint64_t claim_id, dibs_err *err);
/* What a claim is called whose name went to another one while it was in use: "shop/web/0/-/http/8080". */
void tx_left_name(const char *name, uint16_t port, char out[DIBS_NAME_MAX + 1]);
/* The claim's name is another from now on; the caller writes the record. Its old one remembers the port. */
dibs_status tx_rename(struct ledger_tx *tx, dibs_claim *claim, const char *name, dibs_err *err);
/* Before a claim is kept no longer: it must not be kept again after power loss. */
void tx_unkeeps(struct ledger_tx *tx, const dibs_claim *was);
/* Rewrite a claim that its holder has as before: changed time, event. */
dibs_status tx_change(struct ledger_tx *tx, struct row_claim *row, dibs_err *err);
/* Rewrite a claim whose holder changed: next generation, new secret, changed time, event. */
dibs_status tx_rehold(struct ledger_tx *tx, struct row_claim *row, dibs_event_kind kind, dibs_err *err);
/* End a claim: record, slots (a dynamic port cools), name remembered, sightings, event. */
dibs_status tx_end(struct ledger_tx *tx, const struct row_claim *row, dibs_event_kind kind, dibs_err *err);
/* Drop what is older than the limits keep. */
dibs_status tx_trim(struct ledger_tx *tx, dibs_err *err);
/* Start or restart a lease of claim->lease_ttl_ms at the actor's now. */
void tx_lease(const struct ledger_tx *tx, dibs_claim *claim);
/* Is there a lease that has not ended, of the holder or beneath a process that took the claim over? (Of this
 * boot or another: that is the caller's to know.) */
bool tx_lease_runs(const dibs_claim *claim, int64_t boot_ms);

/* ---- the claims of one port (ids.c) ---- */
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

/* ---- tokens and packed forms (codec.c) ---- */
/* `n` of them. */
dibs_status codec_secrets(uint8_t out[][ROWS_SECRET_BYTES], size_t n, dibs_err *err);
dibs_status codec_secret(uint8_t out[ROWS_SECRET_BYTES], dibs_err *err);
void codec_token_format(const struct row_claim *row, char out[DIBS_TOKEN_MAX + 1]);
struct codec_token {
    uint64_t id, generation;
    uint8_t secret[ROWS_SECRET_BYTES];
};
bool codec_token_parse(const char *text, struct codec_token *out);
/* Constant time. */
bool codec_secret_equal(const uint8_t a[ROWS_SECRET_BYTES], const uint8_t b[ROWS_SECRET_BYTES]);

#define CODEC_BINDINGS_BYTES_MAX (DIBS_BINDINGS_MAX * 18)
/* proto, length, address bytes, for each binding. */
size_t codec_bindings_pack(const dibs_claim *claim, uint8_t out[CODEC_BINDINGS_BYTES_MAX]);
bool codec_bindings_unpack(const uint8_t *bytes, size_t n, dibs_claim *claim);
/* Is this a record that dibs could have written? `why` gets the first reason. */
bool codec_claim_valid(const dibs_claim *claim, const char **why);
/* That of the slot, unless the claim has it already or has no room. */
void codec_add_binding(dibs_claim *claim, const struct ledger_slot *slot);
/* A claim whose record is gone: its port is held by nobody knows whom (INV-6, INV-10). What its slots tell is
 * added with codec_add_binding(). */
void codec_make_lost(struct row_claim *row, uint64_t id, uint16_t port);
bool codec_is_named(const dibs_claim *claim, const char *principal, const char *name);
bool codec_same_bindings(const dibs_claim *a, const dibs_claim *b);
#endif
