/* SPDX-License-Identifier: MIT */
#include "support/hosts.h"

const char *const host_names[HOSTS] = { "a", "b", "c" };

int hosts_start(void **state)
{
    (void) state;
    e_own_network();
    return e_has_network ? shared_open(3) : 0;
}

int hosts_open(void **state)
{
    static unsigned n_cases;
    struct cluster_case *c = calloc(1, sizeof *c);
    char tail[32] = "";

    assert_non_null(c);
    *state = c;
    c->e.now = clock_now(0); /* what others have released counts from when it was seen */
    c->e.settings = (dibs_settings){ .ledger_mode = DIBS_LEDGER_STRICT,
                                     .range = { .item = { { 20000, 32767 } }, .n = 1 },
                                     .pool = "default",
                                     .band = DIBS_BAND_AUTO,
                                     .order = "stride",
                                     .socket = "none",
                                     .cooldown_ms = 5000,
                                     .ttl_ms = E_LEASE,
                                     .timeout_ms = 20000 };
    (void) snprintf(tail, sizeof tail, "/case%u", ++n_cases);
    for (size_t i = 0; i < HOSTS && shared; i++) {
        cluster_url(shared, tail, c->e.uri, sizeof c->e.uri);
        c->e.node = host_names[i];
        c->at[i] = c->e.more[i] = e_open(&c->e, "uid:1000", 1000, false, &c->e.settings);
    }
    c->e.core = c->at[0];
    return 0;
}

int hosts_close(void **state)
{
    struct cluster_case *c = *state;

    for (size_t i = 0; i < HOSTS; i++)
        core_close(c->at[i]);
    free(c);
    return 0;
}

void hosts_make_pool(struct cluster_case *c, const char *name, const char *ranges, int64_t cooldown_ms)
{
    dibs_pool pool = { .ranges = e_ranges(ranges),
                       .scope = DIBS_SCOPE_CLUSTER,
                       .band = DIBS_BAND_AUTO,
                       .cooldown_ms = cooldown_ms,
                       .order = "stride" };

    (void) snprintf(pool.name, sizeof pool.name, "%s", name);
    ASSERT_OK(core_pool_put(c->at[0], E_CALL(&c->e, c->at[0]), &pool, &c->e.err), &c->e.err);
}

dibs_status hosts_take(struct cluster_case *c, size_t host, uint16_t port, dibs_claim *out)
{
    dibs_request r = e_required(NULL, NULL, port);

    r.pool = "nodeports";
    return e_try(&c->e, c->at[host], &r, out);
}

dibs_status hosts_take_any(struct cluster_case *c, size_t host, dibs_claim *out)
{
    dibs_request r = e_request(NULL, NULL);

    r.pool = "nodeports";
    return e_try(&c->e, c->at[host], &r, out);
}

void hosts_take_many(struct cluster_case *c, size_t host, size_t n, struct portbits *seen)
{
    dibs_request *requests = calloc(n, sizeof *requests);
    dibs_claim *out = calloc(n, sizeof *out);

    assert_true(requests && out);
    for (size_t i = 0; i < n; i++) {
        requests[i] = e_request(NULL, NULL);
        requests[i].pool = "nodeports";
    }
    const dibs_batch batch = { .requests = requests, .n = n };
    ASSERT_OK(core_claim(c->at[host], E_CALL(&c->e, c->at[host]), &batch, out, &c->e.err), &c->e.err);
    for (size_t i = 0; i < n; i++) {
        assert_false(portbits_has(seen, out[i].port));
        portbits_add(seen, out[i].port);
    }
    free(requests);
    free(out);
}

void hosts_release(struct cluster_case *c, uint16_t port)
{
    size_t n = 0;

    for (size_t i = 0; i < HOSTS && n == 0; i++) {
        const dibs_which which = { .port = port };

        ASSERT_OK(core_release(c->at[i], E_CALL(&c->e, c->at[i]), &which, 0, &n, &c->e.err), &c->e.err);
    }
    assert_int_equal(n, 1);
}

void hosts_check_usage(struct cluster_case *c, uint32_t free_ports, uint32_t used)
{
    for (size_t i = 0; i < HOSTS; i++) {
        dibs_pool_usage usage = { 0 };

        ASSERT_OK(core_pool_usage(c->at[i], E_CALL(&c->e, c->at[i]), "nodeports", &usage, &c->e.err),
                  &c->e.err);
        assert_int_equal(usage.size - usage.n_static - usage.n_dynamic, free_ports);
        assert_int_equal(usage.n_static + usage.n_dynamic, used);
    }
}

static bool hosts_add_port(void *ctx, const dibs_claim *claim)
{
    portbits_add(ctx, claim->port);
    return true;
}

void hosts_check_list(struct cluster_case *c, const uint16_t *ports, size_t n)
{
    for (size_t i = 0; i < HOSTS; i++) {
        struct portbits found = { 0 };

        ASSERT_OK(core_list(c->at[i], E_CALL(&c->e, c->at[i]), &(dibs_filter){ 0 }, hosts_add_port, &found,
                            &c->e.err),
                  &c->e.err);
        assert_int_equal(portbits_count(&found), n);
        for (size_t k = 0; k < n; k++)
            assert_true(portbits_has(&found, ports[k]));
    }
}
