/* SPDX-License-Identifier: MIT */
/* A handle that claims for a namespace: nothing of this host counts, and any host may ask again. */
#include "support/hosts.h"
#include "support/speak.h"

enum { PENDING = 300000 };

static dibs *open_for(struct engine *e, const char *principal)
{
    dibs *handle = NULL;

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    ASSERT_OK(speak_for(handle, principal, &e->err), &e->err);
    return handle;
}

static dibs_request pending(const char *name)
{
    return (dibs_request){ .name = name,
                           .keep = true,
                           .holder = DIBS_HELD_BY_LEASE,
                           .ttl_ms = PENDING,
                           .keeper = "StatefulSet/web" };
}

static void a_claim_for_a_namespace_belongs_to_it(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e, "ns:shop");
    dibs_request r = pending("g/web/0/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim claim = { 0 };
    dibs_claim again = { 0 };

    ASSERT_OK(dibs_claim_ports(handle, &batch, &claim, &e->err), &e->err);
    assert_string_equal(claim.principal, "ns:shop");
    assert_string_equal(claim.keeper, "StatefulSet/web");
    assert_string_equal(dibs_principal_of(handle), "ns:shop");
    ASSERT_OK(speak_for(handle, "ns:other", &e->err), &e->err);
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
    dibs *handle = open_for(e, "ns:shop");
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
static void a_confirmed_claim_still_names_its_object(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e, "ns:shop");
    dibs_request r = pending("g/web/0/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    const dibs_which which = { .name = r.name };
    dibs_claim claim = { 0 };
    dibs_claim again = { 0 };

    ASSERT_OK(dibs_claim_ports(handle, &batch, &claim, &e->err), &e->err);
    ASSERT_OK(dibs_claim_release(handle, &which, DIBS_RELEASE_UNHOLD, NULL, &e->err), &e->err);
    ASSERT_OK(dibs_claim_find(handle, &which, &claim, &e->err), &e->err);
    assert_int_equal(claim.holder, DIBS_HELD_BY_NOBODY);
    assert_string_equal(claim.keeper, "StatefulSet/web");
    ASSERT_OK(dibs_claim_ports(handle, &batch, &again, &e->err), &e->err); /* pending once more */
    assert_int_equal(again.port, claim.port);
    assert_int_equal(again.holder, DIBS_HELD_BY_LEASE);
    assert_int_not_equal(again.generation, claim.generation);
    dibs_close(handle);
}

static void two_objects_do_not_share_a_name(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e, "ns:shop");
    dibs_request r[2] = { pending("g/web/0/-/http"), pending("g/web/-/-/gossip") };
    dibs_batch batch = { .requests = r, .n = 2 };
    dibs_claim claims[2] = { 0 };

    r[1].keeper = NULL;
    ASSERT_OK(dibs_claim_ports(handle, &batch, claims, &e->err), &e->err);
    assert_string_equal(claims[0].keeper, "StatefulSet/web");
    assert_string_equal(claims[1].keeper, "");
    r[0].keeper = "StatefulSet/front";
    r[1].keeper = "Deployment/web";
    assert_int_equal(dibs_claim_ports(handle, &batch, claims, &e->err), DIBS_TAKEN);
    batch.requests = &r[1];
    batch.n = 1;
    ASSERT_OK(dibs_claim_ports(handle, &batch, claims, &e->err), &e->err); /* nobody's so far */
    assert_true(claims[0].was_there);
    assert_string_equal(claims[0].keeper, "Deployment/web");
    dibs_close(handle);
}

static void any_host_may_ask_again_for_what_another_has_pending(void **state)
{
    struct cluster_case *c = *state;
    dibs_request r = pending("g/web/0/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim claim = { 0 };
    dibs_claim again = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "kube", "20000-20999", 0);
    r.pool = "kube";
    for (size_t i = 0; i < 2; i++) {
        struct call *call = &e_user(&c->e, c->at[i])->call;

        call->principal = "ns:shop";
        call->is_elsewhere = true;
    }
    ASSERT_OK(core_claim(c->at[0], E_CALL(&c->e, c->at[0]), &batch, &claim, &c->e.err), &c->e.err);
    ASSERT_OK(core_claim(c->at[1], E_CALL(&c->e, c->at[1]), &batch, &again, &c->e.err), &c->e.err);
    assert_int_equal(again.port, claim.port);
    assert_int_not_equal(again.generation, claim.generation); /* its lease is a new one */
    ASSERT_OK(
        core_find(c->at[1], E_CALL(&c->e, c->at[1]), &(dibs_which){ .name = r.name }, &again, &c->e.err),
        &c->e.err);
    assert_string_equal(again.node, ""); /* and by this clock */
}

static void a_name_without_a_claim_remembers_a_port(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_for(e, "ns:shop");
    dibs_request r = pending("g/web/-/-/http");
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim claim = { 0 };
    uint16_t port = 1;

    ASSERT_OK(handle_remembered(handle, r.name, &port, &e->err), &e->err);
    assert_int_equal(port, 0);
    ASSERT_OK(handle_remember(handle, r.name, 20123, &e->err), &e->err);
    ASSERT_OK(handle_remembered(handle, r.name, &port, &e->err), &e->err);
    assert_int_equal(port, 20123);
    ASSERT_OK(dibs_claim_ports(handle, &batch, &claim, &e->err), &e->err);
    assert_int_equal(claim.port, 20123);
    assert_int_equal(handle_remember(handle, r.name, 20124, &e->err), DIBS_TAKEN);
    ASSERT_OK(handle_remembered(handle, r.name, &port, &e->err), &e->err);
    assert_int_equal(port, 0); /* it has a claim */
    dibs_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_claim_for_a_namespace_belongs_to_it),
        E_TEST(neither_sockets_nor_ranges_of_this_host_count),
        E_TEST(a_confirmed_claim_still_names_its_object),
        E_TEST(two_objects_do_not_share_a_name),
        E_TEST(a_name_without_a_claim_remembers_a_port),
        HOSTS_TEST(any_host_may_ask_again_for_what_another_has_pending),
    };

    return cmocka_run_group_tests(tests, hosts_start, shared_close);
}
