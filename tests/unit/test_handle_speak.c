/* SPDX-License-Identifier: MIT */
/* A handle that claims for a namespace: nothing of this host counts, and any host may ask again. */
#include "lib/handle.h"
#include "support/hosts.h"

enum { PENDING = 300000 };

static dibs *open_for(struct engine *e, const char *principal, const char *command)
{
    dibs *handle = NULL;

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    ASSERT_OK(handle_speak_for(handle, principal, command, &e->err), &e->err);
    return handle;
}

static dibs_request pending(const char *name)
{
    return (dibs_request){ .name = name, .keep = true, .holder = DIBS_HELD_BY_LEASE, .ttl_ms = PENDING };
}

static void what_is_claimed_for_a_namespace_is_its_own(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e, "ns:shop", "StatefulSet/web");
    dibs_request r = pending("g/web/0/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim claim = { 0 };
    dibs_claim again = { 0 };

    ASSERT_OK(dibs_claim_ports(handle, &batch, &claim, &e->err), &e->err);
    assert_string_equal(claim.principal, "ns:shop");
    assert_string_equal(claim.command, "StatefulSet/web");
    assert_string_equal(dibs_principal_of(handle), "ns:shop");
    ASSERT_OK(handle_speak_for(handle, "ns:other", "StatefulSet/web", &e->err), &e->err);
    assert_int_equal(dibs_claim_find(handle, &(dibs_which){ .name = r.name }, &again, &e->err),
                     DIBS_NOT_FOUND);
    ASSERT_OK(dibs_claim_ports(handle, &batch, &again, &e->err), &e->err);
    assert_int_not_equal(again.port, claim.port);
    dibs_close(handle);
}

static void neither_sockets_nor_ranges_of_this_host_count(void **state)
{
    struct engine *e = *state;

    need_network();
    dibs *handle = open_for(e, "ns:shop", "Pod");
    int fd = e_serve(DIBS_TCP, "0.0.0.0", 20100);
    const dibs_ranges ephemeral = { .item = { { 40000, 40001 } }, .n = 1 };
    dibs_request r = pending("g/web/0/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim claim = { 0 };

    r.mode = DIBS_REQUIRED;
    r.port = 20100;
    ASSERT_OK(dibs_claim_ports(handle, &batch, &claim, &e->err),
              &e->err); /* in use here, which is not there */
    r = pending("g/web/1/-/http");
    r.ranges = &ephemeral;
    ASSERT_OK(dibs_claim_ports(handle, &batch, &claim, &e->err), &e->err);
    (void) close(fd);
    dibs_close(handle);
}

/* The object that a claim is for outlives the lease that holds it at first. */
static void what_is_confirmed_is_still_said_to_be_its_objects(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e, "ns:shop", "StatefulSet/web");
    dibs_request r = pending("g/web/0/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    const dibs_which which = { .name = r.name };
    dibs_claim claim = { 0 };
    dibs_claim again = { 0 };

    ASSERT_OK(dibs_claim_ports(handle, &batch, &claim, &e->err), &e->err);
    ASSERT_OK(dibs_claim_release(handle, &which, DIBS_RELEASE_UNHOLD, NULL, &e->err), &e->err);
    ASSERT_OK(dibs_claim_find(handle, &which, &claim, &e->err), &e->err);
    assert_int_equal(claim.holder, DIBS_HELD_BY_NOBODY);
    assert_string_equal(claim.command, "StatefulSet/web");
    ASSERT_OK(dibs_claim_ports(handle, &batch, &again, &e->err), &e->err); /* pending once more */
    assert_int_equal(again.port, claim.port);
    assert_int_equal(again.holder, DIBS_HELD_BY_LEASE);
    assert_int_not_equal(again.generation, claim.generation);
    dibs_close(handle);
}

static void two_objects_do_not_share_a_name(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e, "ns:shop", "");
    dibs_request r[2] = { pending("g/web/0/-/http"), pending("g/web/-/-/gossip") };
    const char *const first[] = { "StatefulSet/web", "" };
    const char *const second[] = { "StatefulSet/front", "Deployment/web" };
    dibs_batch batch = { .requests = r, .n = 2 };
    dibs_claim claims[2] = { 0 };

    ASSERT_OK(handle_claim_for(handle, &batch, first, claims, &e->err), &e->err);
    assert_string_equal(claims[0].command, first[0]);
    assert_string_equal(claims[1].command, "");
    assert_int_equal(handle_claim_for(handle, &batch, second, claims, &e->err), DIBS_TAKEN);
    batch.requests = &r[1];
    batch.n = 1;
    ASSERT_OK(handle_claim_for(handle, &batch, second + 1, claims, &e->err), &e->err); /* nobody's so far */
    assert_true(claims[0].was_there);
    assert_string_equal(claims[0].command, second[1]);
    dibs_close(handle);
}

static void any_host_may_ask_again_for_what_another_has_pending(void **state)
{
    struct cluster_case *c = *state;
    struct core_caller callers[2];
    dibs_request r = pending("g/web/0/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim claim = { 0 };
    dibs_claim again = { 0 };

    NEED_CLUSTER();
    make_pool(c, "kube", "20000-20999", 0);
    r.pool = "kube";
    for (size_t i = 0; i < 2; i++) {
        callers[i] = c->at[i]->options.caller;
        callers[i].principal = "ns:shop";
        callers[i].command = "StatefulSet/web";
        callers[i].is_elsewhere = true;
        core_act_for(c->at[i], &callers[i]);
    }
    ASSERT_OK(core_claim(c->at[0], &batch, &claim, &c->e.err), &c->e.err);
    ASSERT_OK(core_claim(c->at[1], &batch, &again, &c->e.err), &c->e.err);
    assert_int_equal(again.port, claim.port);
    assert_int_not_equal(again.generation, claim.generation); /* its lease is a new one */
    ASSERT_OK(core_find(c->at[1], &(dibs_which){ .name = r.name }, &again, &c->e.err), &c->e.err);
    assert_string_equal(again.node, ""); /* and by this clock */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(what_is_claimed_for_a_namespace_is_its_own),
        E_TEST(neither_sockets_nor_ranges_of_this_host_count),
        E_TEST(what_is_confirmed_is_still_said_to_be_its_objects),
        E_TEST(two_objects_do_not_share_a_name),
        HOSTS_TEST(any_host_may_ask_again_for_what_another_has_pending),
    };

    return cmocka_run_group_tests(tests, start_cluster, shared_close);
}
