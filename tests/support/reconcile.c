/* SPDX-License-Identifier: MIT */
#include "support/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "lib/connection.h"
#include "support/speak.h"
#include "support/t.h"

static const struct installation installation = { .id = "test",
                                                  .keys = { "0123456789abcdef0123456789abcdef" },
                                                  .n_keys = 1 };

static bool is_proven(void *ctx, const char *keeper, int64_t since_ms)
{
    struct world *w = ctx;

    (void) keeper;
    w->n_asked++;
    return w->listed_ms >= since_ms;
}

static bool may_change(void *ctx)
{
    struct world *w = ctx;

    if (w->late)
        world_claim_number(w, w->late, "Pod", 20017);
    w->late = NULL;
    return w->leads;
}

static void report(void *ctx, enum reconcile_finding what, const struct inventory_object *object,
                   uint16_t port, const char *text)
{
    struct world *w = ctx;
    char *to = what == RECONCILE_ASSIGNED ? w->assigned : w->complaint;

    (void) snprintf(to, sizeof w->complaint, "%d %s %u %s", (int) what, object->name, port, text);
}

int world_setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    dibs_flag flags[] = { { DIBS_SET_LEDGER, "memory:" }, { DIBS_SET_SOCKET, "none" } };
    dibs_settings *settings = calloc(1, sizeof *settings);

    assert_true(w && settings);
    ASSERT_OK(dibs_settings_load(flags, 2, settings, &w->err), &w->err);
    ASSERT_OK(dibs_open(settings, &w->handle, &w->err), &w->err);
    free(settings);
    ASSERT_OK(speak_for(w->handle, "kube:observed", &w->err), &w->err);
    ASSERT_OK(kube_pool_parse(&(struct kube_pool_flags){ .start_port = "20000", .port_range = "100" },
                              &w->pool, &w->err),
              &w->err);
    ASSERT_OK(kube_pool_open(w->handle, false, &w->pool, &w->pool, &w->err), &w->err);
    ASSERT_OK(reconcile_open(&(struct reconcile_options){ .handle = w->handle,
                                                          .ledger = handle_ledger(w->handle),
                                                          .pool = &w->pool,
                                                          .inventory = &w->inventory,
                                                          .is_proven = is_proven,
                                                          .may_change = may_change,
                                                          .report = report,
                                                          .ctx = w },
                             &w->reconciler, &w->err),
              &w->err);
    w->inventory.installation = &installation;
    w->now_ms = w->listed_ms = 1000;
    w->leads = true;
    *state = w;
    return 0;
}

int world_teardown(void **state)
{
    struct world *w = *state;

    reconcile_close(w->reconciler);
    inventory_done(&w->inventory);
    dibs_close(w->handle);
    free(w);
    return 0;
}

void world_put_unsigned(struct world *w, unsigned source, const char *kind, const char *text)
{
    jsonr_doc *doc = NULL;

    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &w->err), &w->err);
    assert_true(inventory_put(&w->inventory, source, kind, jsonr_root(doc)));
    jsonr_free(doc);
}

void world_put(struct world *w, unsigned source, const char *kind, const char *text)
{
    static const char begin[] = "\"annotations\":{";
    const char *at = strstr(text, "\"dibs.dev/assigned\"") ? strstr(text, begin) : NULL;
    char signature[INSTALLATION_SIGNATURE_MAX + 1];
    static char whole[4096];
    jsonr_doc *doc = NULL;
    struct installation_statement says = { .principal = "ns:shop" };

    if (!at) {
        world_put_unsigned(w, source, kind, text);
        return;
    }
    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &w->err), &w->err);
    const jsonr_value *annotations = jsonr_at(jsonr_root(doc), "metadata.annotations");
    assert_true(jsonr_get_string(annotations, "dibs.dev/claim", &says.id));
    assert_true(jsonr_get_string(annotations, "dibs.dev/assigned", &says.assigned));
    ASSERT_OK(installation_sign(&installation, &says, signature, &w->err), &w->err);
    jsonr_free(doc);
    at += strlen(begin);
    (void) snprintf(whole, sizeof whole, "%.*s\"dibs.dev/signature\":\"%s\",%s", (int) (at - text), text,
                    signature, at);
    world_put_unsigned(w, source, kind, whole);
}

void world_drop(struct world *w, const char *text)
{
    jsonr_doc *doc = NULL;

    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &w->err), &w->err);
    inventory_drop(&w->inventory, jsonr_root(doc));
    jsonr_free(doc);
}

uint16_t world_claim(struct world *w, const char *name, const char *keeper)
{
    dibs_request r = { .name = name,
                       .keep = true,
                       .holder = DIBS_HELD_BY_LEASE,
                       .ttl_ms = TTL_MS,
                       .pool = KUBE_POOL,
                       .keeper = keeper };
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim out = { 0 };

    ASSERT_OK(speak_for(w->handle, "ns:shop", &w->err), &w->err);
    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &out, &w->err), &w->err);
    ASSERT_OK(speak_for(w->handle, "kube:observed", &w->err), &w->err);
    return out.port;
}

void world_claim_number(struct world *w, const char *name, const char *keeper, uint16_t port)
{
    dibs_request r = { .name = name,
                       .keep = true,
                       .holder = DIBS_HELD_BY_LEASE,
                       .ttl_ms = TTL_MS,
                       .pool = KUBE_POOL,
                       .mode = DIBS_REQUIRED,
                       .port = port,
                       .keeper = keeper };
    dibs_claim out = { 0 };

    ASSERT_OK(speak_for(w->handle, "ns:shop", &w->err), &w->err);
    ASSERT_OK(dibs_claim_ports(w->handle, &(dibs_batch){ .requests = &r, .n = 1 }, &out, &w->err), &w->err);
    ASSERT_OK(speak_for(w->handle, "kube:observed", &w->err), &w->err);
}

void world_pass(struct world *w)
{
    w->complaint[0] = w->assigned[0] = '\0';
    w->now_ms++;
    ASSERT_OK(reconcile_pass(w->reconciler, w->now_ms, &w->err), &w->err);
}

void world_list(struct world *w)
{
    w->now_ms++;
    w->listed_ms = w->now_ms;
}

bool world_count(void *ctx, const dibs_claim *c)
{
    struct found *f = ctx;

    f->n++;
    f->last = *c;
    return true;
}

struct found world_claims(struct world *w)
{
    struct found f = { 0 };

    ASSERT_OK(dibs_claim_list(w->handle, &(dibs_filter){ .pool = KUBE_POOL }, world_count, &f, &w->err),
              &w->err);
    return f;
}
