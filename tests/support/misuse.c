/* SPDX-License-Identifier: MIT */
#include "support/misuse.h"

#include <string.h>
#include <unistd.h>

#include "dibs/dibs.h"

int misuse_setup(void **state)
{
    struct right *r = calloc(1, sizeof *r);
    void *engine = NULL;

    assert_non_null(r);
    assert_int_equal(e_setup(&engine), 0);
    r->e = engine;
    r->settings = r->e->settings;
    ASSERT_OK(dibs_open(&r->settings, &r->handle, &r->e->err), &r->e->err);
    r->request = e_kept("shop/web", "127.0.0.1");
    r->batch = (dibs_batch){ .requests = &r->request, .n = 1 };
    ASSERT_OK(dibs_claim_ports(r->handle, &r->batch, &r->claim, &r->e->err), &r->e->err);
    r->request.name = "shop/api";
    r->which = (dibs_which){ .name = "shop/web" };
    r->pool =
        (dibs_pool){ .name = "p", .ranges = { .item = { { 26000, 26099 } }, .n = 1 }, .order = "stride" };
    r->observed = (dibs_observed){ .binding = r->claim.bindings[0], .port = 26001 };
    *state = r;
    return 0;
}

int misuse_teardown(void **state)
{
    struct right *r = *state;
    void *engine = r->e;

    dibs_close(r->handle);
    (void) e_teardown(&engine);
    free(r);
    return 0;
}

void stays(const void *out, size_t n)
{
    const unsigned char *bytes = out;

    for (size_t i = 0; i < n; i++)
        assert_int_equal(bytes[i], 0x5a);
}

bool any_claim(void *ctx, const dibs_claim *claim)
{
    (void) ctx;
    (void) claim;
    return true;
}

bool any_event(void *ctx, const dibs_event *event)
{
    (void) ctx;
    (void) event;
    return true;
}

bool any_node(void *ctx, const dibs_node *node)
{
    (void) ctx;
    (void) node;
    return true;
}

bool any_pool(void *ctx, const dibs_pool *pool)
{
    (void) ctx;
    (void) pool;
    return true;
}

bool any_item(void *ctx, const dibs_repair_item *item)
{
    (void) ctx;
    (void) item;
    return true;
}

bool any_finding(void *ctx, const dibs_finding *finding)
{
    (void) ctx;
    (void) finding;
    return true;
}
