/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_MISUSE_H
#define DIBS_TESTS_MISUSE_H
/* Calling the library as it must not be called. */
#include <string.h>
#include <unistd.h>

#include "dibs/dibs.h"
#include "support/core.h"

/* Arguments that are right, to be spoilt one at a time. */
struct right {
    struct engine *e;
    dibs *handle;
    dibs_settings settings;
    dibs_request request;
    dibs_batch batch;
    dibs_claim claim; /* there, and kept */
    dibs_which which;
    dibs_pool pool;
    dibs_observed observed;
};

int misuse_setup(void **state);
int misuse_teardown(void **state);

/* INVALID, said in words. */
#define REFUSED(call)                                                           \
    do {                                                                        \
        dibs_err err = { 0 };                                                   \
        dibs_status s_ = (call);                                                \
        if (s_ != DIBS_INVALID || err.code != DIBS_INVALID || !err.msg[0])      \
            fail_msg("%s -> %s, \"%s\"", #call, dibs_status_text(s_), err.msg); \
    } while (0)

/* An output that must stay as it is. */
#define FILL(out) memset(&(out), 0x5a, sizeof(out))
void stays(const void *out, size_t n);
#define STAYS(out) stays(&(out), sizeof(out))

#define BEYOND(type) ((type) 77) /* outside of every enum */

bool any_claim(void *ctx, const dibs_claim *claim);
bool any_event(void *ctx, const dibs_event *event);
bool any_node(void *ctx, const dibs_node *node);
bool any_pool(void *ctx, const dibs_pool *pool);
bool any_item(void *ctx, const dibs_repair_item *item);
bool any_finding(void *ctx, const dibs_finding *finding);
#endif
