/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_LEDGER_H
#define DIBS_TESTS_LEDGER_H
/* A fresh ledger for each case, and short ways to ask it for things. Time is an argument: no case sleeps. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger/ledger.h"
#include "support/t.h"

#define T_BOOT "11111111-2222-3333-4444-555555555555"

struct t_ledger {
    struct ledger *ledger;
    struct call call;            /* uid:1000 */
    struct call other;           /* uid:2000 */
    const struct ledger *shared; /* whose transaction t_begin() has begun */
    struct ledger_refusal refusal;
    dibs_err err;
    char dir[256];
    char uri[300];
};

extern const char *t_scheme; /* "memory" unless t_backend() has set it from argv[1] ... */
extern const char *t_given;  /* ... which is this */

void t_remove_directory(const char *path);
void t_make_directory(char out[256]);
int t_open(void **state);
int t_close(void **state);
/* The calls of both users share a transaction on `ledger` until t_commit(). */
void t_begin(struct t_ledger *t, struct ledger *ledger);
void t_begin_unsynced(struct t_ledger *t, struct ledger *ledger);
dibs_status t_commit(struct t_ledger *t, struct ledger_span *out);
/* A call on `ledger`, where there are several: the transaction may be another's. */
struct call t_call(const struct t_ledger *t, const struct ledger *ledger);
#define T_CALL(t, ledger) ((struct call[1]){ t_call((t), (ledger)) })
dibs_address t_address(const char *text);

/* A want of uid:1000 for tcp on `address`, held by a lease of ten minutes; static, one candidate when it is
 * given. */
struct ledger_want t_want(const char *name, const char *address);

/* A choice among candidates. */
struct ledger_want t_dynamic(const char *name, const uint16_t *candidates, size_t n);
void t_by_process(struct ledger_want *want, int32_t pid);
void t_kept(struct ledger_want *want);
void t_of_other(struct ledger_want *want);

/* Claims one want at one port (0: as the want says); the dead list may be NULL. */
dibs_status t_claim_over(struct t_ledger *t, const struct ledger_want *want, uint16_t port,
                         const struct ledger_seen *dead, dibs_claim *out);
dibs_status t_claim(struct t_ledger *t, const struct ledger_want *want, uint16_t port, dibs_claim *out);
dibs_claim t_must(struct t_ledger *t, const struct ledger_want *want, uint16_t port);
struct ledger_seen t_seen(const dibs_claim *claim);
size_t t_end(struct t_ledger *t, const dibs_claim *claim, enum ledger_end_how how);

#define T_EVENTS_MAX 64
struct t_events {
    size_t n;
    dibs_event item[T_EVENTS_MAX];
};

bool t_note_event(void *ctx, const dibs_event *event);
struct t_events t_events_since(struct t_ledger *t, uint64_t since);
uint64_t t_tail(struct t_ledger *t);

struct t_ids {
    size_t n;
    uint64_t id[4096];
    dibs_claim last;
};

bool t_note_claim(void *ctx, const dibs_claim *claim);
struct t_ids t_list(struct t_ledger *t, struct ledger_filter filter);

/* The claim as it is stored, listed by its number. */
dibs_claim t_stored(struct t_ledger *t, uint64_t id);

/* argv[1] is the URI of a backend; only its scheme counts, and the address of a server, because every case
 * gets a ledger of its own. */
int t_backend(int argc, char **argv);
#endif
