/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_RECONCILE_H
#define DIBS_TESTS_RECONCILE_H
/* A controller's passes over a ledger in memory and objects that a test writes. */
#include "kube/controller/reconcile.h"
#include "kube/pool.h"
#include "support/t.h"

enum { TTL_MS = 1000, PODS = 0, SETS = 1 };
#define ID "0123456789abcdef0123456789abcdef"

struct world {
    dibs *handle;
    dibs_pool pool;
    struct inventory inventory;
    struct reconciler *reconciler;
    int64_t now_ms, listed_ms; /* the moment, and when the last lists began */
    bool leads;
    const char *late; /* a webhook claims this name, port 20017, during the pass; NULL: none */
    char complaint[512], assigned[512];
    size_t n_asked; /* for lists */
    dibs_err err;
};

int world_setup(void **state);
int world_teardown(void **state);
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

/* Write an object with the webhook's signature if it has an assignment. */
void world_put(struct world *w, unsigned source, const char *kind, const char *text);
/* Write it as a user does who may create objects and has no key. */
void world_put_unsigned(struct world *w, unsigned source, const char *kind, const char *text);
void world_drop(struct world *w, const char *text);
/* Claim a name as the webhook does; world_claim() returns the port. */
uint16_t world_claim(struct world *w, const char *name, const char *keeper);
void world_claim_number(struct world *w, const char *name, const char *keeper, uint16_t port);
void world_pass(struct world *w);
/* Make a complete list that begins now. */
void world_list(struct world *w);

struct found {
    size_t n;
    dibs_claim last;
};

/* A callback that counts into a struct found. */
bool world_count(void *ctx, const dibs_claim *c);
struct found world_claims(struct world *w);

#define POD(uid, id, assigned, more)                                                               \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"" uid "\",\"annotations\":{" \
    "\"dibs.dev/claim\":\"" id "\",\"dibs.dev/assigned\":\"" assigned "\"}}" more "}"
#define ASSIGNED(name, port, kind)                        \
    "[{\\\"claim\\\":\\\"" name "\\\",\\\"port\\\":" port \
    ",\\\"protocols\\\":[\\\"TCP\\\"],\\\"kind\\\":\\\"" kind "\\\"}]"
#define SET(replicas)                                                                   \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"s1\"},\"spec\":{" \
    "\"replicas\":" replicas ",\"template\":{}}}"
#define UNNAMED "Pod.web/web/~" ID "/-/http"
#define NAMED "StatefulSet.web/web/0/-/http"
#endif
