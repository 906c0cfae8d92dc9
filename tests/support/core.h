/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_CORE_H
#define DIBS_TESTS_CORE_H
/* The engine on a fresh SQLite ledger, with a clock that stands still until it is moved, in a network of its
 * own where every port number is free. No case sleeps. */
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"
#include "support/child.h"
#include "support/ledger.h"

#define E_CORES 4
#define E_USERS (E_CORES + 16)
#define E_LEASE 600000

/* The user of a core. */
struct e_user {
    struct core *core;
    struct call call;
    struct ledger_tx *tx; /* of e_begin() */
};

struct engine {
    struct core *core;          /* uid:1000, no admin */
    struct core *other;         /* uid:2000 on the same ledger; NULL until e_other() */
    struct core *more[E_CORES]; /* closed at the end */
    struct e_user users[E_USERS];
    dibs_settings settings;  /* of all of them */
    dibs_settings settings2; /* for a core that differs */
    struct instant now;
    int64_t clock_step_ms; /* the clock moves by this much with every look */
    unsigned clock_looks;
    dibs_err err;
    char dir[256];
    char uri[300];
    const char *node; /* what the host of those that are opened from now on is called in a cluster */
};

struct instant e_clock(void *ctx);
void e_pass(struct engine *e, int64_t ms);

extern bool e_has_network; /* e_own_network() succeeded */

/* Enter a network namespace with a loopback that is up; without root, in a user namespace, too. */
void e_own_network(void);
void need_network(void);

/* ---- engines ---- */

struct core *e_open(struct engine *e, const char *principal, uint32_t uid, bool is_admin,
                    const dibs_settings *settings);
struct e_user *e_user(struct engine *e, const struct core *core);
/* A call of the user of `core`, now. */
struct call e_call(struct engine *e, const struct core *core);
#define E_CALL(e, core) ((struct call[1]){ e_call((e), (core)) })
/* The calls of the user of `core` share a transaction until e_commit(). */
void e_begin(struct engine *e, struct core *core);
dibs_status e_commit(struct engine *e, struct core *core);
struct core *e_more(struct engine *e, const char *principal, uint32_t uid, bool is_admin);

/* Open another handle on the same ledger for the same user, as a second process would. */
struct core *e_twin(struct engine *e);
struct core *e_other(struct engine *e);
int e_setup(void **state);
int e_teardown(void **state);

#define E_TEST(name) cmocka_unit_test_setup_teardown(name, e_setup, e_teardown)

/* ---- requests ---- */

void e_bind_to(dibs_request *r, dibs_proto proto, const char *address);

/* Random, held by a lease of ten minutes; tcp on `address` (NULL: anywhere). */
dibs_request e_request(const char *name, const char *address);
dibs_request e_required(const char *name, const char *address, uint16_t port);
dibs_request e_kept(const char *name, const char *address);
dibs_request e_held(const char *name, const char *address, pid_t pid);
dibs_status e_try(struct engine *e, struct core *core, const dibs_request *r, dibs_claim *out);
dibs_claim e_must(struct engine *e, struct core *core, const dibs_request *r);
dibs_claim e_port(struct engine *e, struct core *core, const char *address, uint16_t port);
size_t e_release(struct engine *e, struct core *core, const dibs_claim *claim);
dibs_ranges e_ranges(const char *text);
void e_pool(struct engine *e, const char *name, const char *ranges, int32_t band, int64_t cooldown_ms);

/* ---- the ledger's content ---- */

struct e_list {
    size_t n;
    dibs_claim claims[64];
};

bool e_note(void *ctx, const dibs_claim *claim);
size_t e_count(struct engine *e, const dibs_filter *filter);
size_t e_reap(struct engine *e, struct core *core);
dibs_status e_reap_with(struct engine *e, struct core *core, unsigned flags, dibs_claim_fn fn, void *ctx,
                        size_t *n);

/* ---- sockets ---- */

/* A server: TCP listens, UDP is bound. */
int e_serve(dibs_proto proto, const char *address, uint16_t port);
#endif
