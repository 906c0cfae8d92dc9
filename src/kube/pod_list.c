/* SPDX-License-Identifier: MIT */
#include "kube/pod_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/loop.h"
#include "base/pod_words.h"
#include "base/text.h"
#include "codec/wire.h"
#include "kube/client/informer.h"
#include "kube/controller/inventory.h"
#include "kube/controller/known.h"

#include "base/banned.h"

#define SERVICE "dibs-controller:metrics"

enum { LIST_MS = 60000, CLAIMS_MS = 10000, PODS = 0 };

/* A claim without a pod. */
struct alone {
    struct alone *next;
    struct assigned_claim claim;
    char ns[DIBS_PRINCIPAL_MAX + 1];
};

struct listing {
    const struct pod_list_options *options;
    char ns[KUBEAPI_NAMESPACE_MAX + 1]; /* "": all */
    struct inventory inventory;
    struct hash_table known;
    bool is_known;
    struct alone *alone;
    struct pod_list_row *rows;
    size_t n, max;
    bool is_done, is_lost; /* the call under way has ended; memory was short */
    dibs_err err;          /* of that call */
};

static void add_row(struct listing *l, const struct pod_list_row *row)
{
    l->is_lost = l->is_lost || !grow((void **) &l->rows, l->n, &l->max, sizeof *l->rows);
    if (!l->is_lost)
        l->rows[l->n++] = *row;
}

/* ---- claims of the ledger ---- */

static const char *state_alone(const dibs_claim *claim)
{
    if (!claim->is_exclusive)
        return "declared";
    if (!claim->keeper[0])
        return "reserved";
    if (pod_words_is_pending(claim))
        return "pending";
    return strcmp(claim->keeper, "Pod") == 0 ? "ending" : "kept";
}

static void add_alone(struct listing *l, const dibs_claim *claim)
{
    bool is_pods = strncmp(claim->principal, "ns:", 3) == 0;
    struct alone *a = calloc(1, sizeof *a);

    l->is_lost = l->is_lost || !a || !(a->claim.name = strdup(is_pods ? claim->name : claim->keeper));
    if (l->is_lost) {
        free(a);
        return;
    }
    (void) text_copy(a->ns, sizeof a->ns, is_pods ? claim->principal + 3 : "");
    a->claim.port = claim->port;
    for (size_t i = 0; i < claim->n_bindings; i++)
        a->claim.protos |= (uint8_t) (1u << claim->bindings[i].proto);
    a->next = l->alone;
    l->alone = a;
    add_row(l, &(struct pod_list_row){ a->ns, "", state_alone(claim), &a->claim, 1, claim->created_ms });
}

static void add_claim(struct listing *l, const dibs_claim *claim)
{
    bool is_shown =
        !l->ns[0] || (strncmp(claim->principal, "ns:", 3) == 0 && strcmp(claim->principal + 3, l->ns) == 0);
    char words[512];
    bool is_new = false;

    l->is_lost = l->is_lost || !known_note(&l->known, claim, 1, 0, &is_new);
    if (is_shown && pod_words_owner(claim, words, sizeof words) && !inventory_has_pod(&l->inventory, claim))
        add_alone(l, claim);
}

static void on_claims(void *ctx, const struct kubeapi_answer *answer)
{
    struct listing *l = ctx;
    dibs_status s = answer->status;

    l->err = answer->err;
    for (size_t i = 0; s == DIBS_OK && i < jsonr_array_size(answer->root); i++) {
        dibs_claim claim = { 0 };

        s = wire_claim_read(jsonr_array_at(answer->root, i), WIRE_ANSWERED, &claim, &l->err);
        if (s == DIBS_OK)
            add_claim(l, &claim);
    }
    l->is_known = s == DIBS_OK;
    l->is_done = true;
}

/* ---- pods ---- */

static void on_news(void *ctx, enum informer_news what, const jsonr_value *object)
{
    struct listing *l = ctx;

    if (what == INFORMER_CHANGED)
        l->is_lost = !inventory_put(&l->inventory, PODS, "Pod", object) || l->is_lost;
    l->is_done = l->is_done || what == INFORMER_LISTED;
}

static void on_trouble(void *ctx, const dibs_err *why)
{
    struct listing *l = ctx;

    if (!why)
        return;
    l->err = *why;
    l->is_done = true;
}

static const char *state_of(const struct listing *l, const struct inventory_object *o)
{
    bool is_pending = false;

    if (o->has_missed || o->is_finished)
        return o->has_missed ? "missed" : "finished";
    if (!l->is_known)
        return "assigned";
    for (size_t i = 0; i < o->n_claims; i++) {
        const struct known *k = known_of(&l->known, o->principal, o->claims[i].name, o->claims[i].port);

        if (!k)
            return "lost";
        is_pending = is_pending || k->over_ms != 0;
    }
    return is_pending ? "pending" : "claimed";
}

static void add_pod(void *ctx, struct hash_table_item *item)
{
    const struct inventory_object *o = (const struct inventory_object *) item;
    struct listing *l = ctx;

    if (o->n_claims > 0 || o->has_missed)
        add_row(l, &(struct pod_list_row){ o->principal + strlen("ns:"), o->name, state_of(l, o), o->claims,
                                           o->n_claims, o->created_ms });
}

/* By namespace; claims without a pod behind the pods. */
static int by_name(const void *a, const void *b)
{
    const struct pod_list_row *x = a;
    const struct pod_list_row *y = b;
    int order = strcmp(x->ns, y->ns);

    if (order == 0)
        order = !x->pod[0] - !y->pod[0];
    if (order == 0)
        order = strcmp(x->pod, y->pod);
    return order || x->n == 0 || y->n == 0 ? order : strcmp(x->claims[0].name, y->claims[0].name);
}

/* ---- calls ---- */

struct turning {
    loop_source source;
    struct kubeapi *api;
};

static void on_web(loop_source *source, uint32_t events)
{
    (void) events;
    kubeapi_turn(((struct turning *) source)->api);
}

/* Turn until the call has ended; `informer` may be NULL. */
static dibs_status wait_for(struct listing *l, struct kubeapi *api, struct informer *informer, dibs_err *err)
{
    struct turning turning = { { kubeapi_fd(api), on_web }, api };
    int64_t until_ms = clock_monotonic_ms() + LIST_MS;
    struct loop *loop = NULL;
    dibs_status s = loop_open(&loop, err);

    if (s == DIBS_OK)
        s = loop_add(loop, &turning.source, EPOLLIN, err);
    while (s == DIBS_OK && !l->is_done) {
        if (informer)
            informer_turn(informer, clock_monotonic_ms());
        if (clock_until_ms(until_ms) == 0)
            s = err_set(err, DIBS_UNAVAILABLE, "%s does not answer in time", kubeapi_server(api));
        else if (!l->is_done)
            s = loop_turn(loop, clock_until_ms(until_ms), err);
    }
    loop_close(loop);
    if (s == DIBS_OK && l->is_lost)
        s = err_set(err, DIBS_FAILURE, "listing pods: out of memory");
    if (s == DIBS_OK && l->err.code != DIBS_OK) {
        *err = l->err;
        s = l->err.code;
    }
    return s;
}

static dibs_status list_pods(struct listing *l, struct kubeapi *api, dibs_err *err)
{
    char plural[KUBEAPI_NAMESPACE_MAX + 32];
    struct informer *informer = NULL;

    (void) snprintf(plural, sizeof plural, "%s%s%spods", l->ns[0] ? "namespaces/" : "", l->ns,
                    l->ns[0] ? "/" : "");
    dibs_status s = informer_open(api,
                                  &(struct informer_options){ .group = "",
                                                              .version = "v1",
                                                              .plural = plural,
                                                              .news = on_news,
                                                              .trouble = on_trouble,
                                                              .ctx = l },
                                  &informer, err);
    if (s == DIBS_OK)
        s = wait_for(l, api, informer, err);
    informer_close(informer);
    return s;
}

static dibs_status list_claims(struct listing *l, struct kubeapi *api, dibs_err *err)
{
    const char *ns = l->options->controller_ns ? l->options->controller_ns : POD_LIST_NAMESPACE;
    struct kubeapi_config config = { 0 };
    struct kubeapi *controller = NULL;
    char path[192] = "/claims";
    dibs_status s = DIBS_OK;

    l->is_done = false;
    if (l->options->controller && !text_copy(config.server, sizeof config.server, l->options->controller))
        return err_set(err, DIBS_INVALID, "the URL of the controller is too long");
    if (l->options->controller)
        s = kubeapi_open(&config, &controller, err);
    else
        (void) snprintf(path, sizeof path, "/api/v1/namespaces/%.63s/services/" SERVICE "/proxy/claims", ns);
    if (s == DIBS_OK)
        s = kubeapi_ask(
            controller ? controller : api,
            &(struct kubeapi_request){
                .method = "GET", .path = path, .timeout_ms = CLAIMS_MS, .done = on_claims, .ctx = l },
            NULL, err);
    if (s == DIBS_OK)
        s = wait_for(l, controller ? controller : api, NULL, err);
    kubeapi_close(controller);
    return s;
}

static void listing_done(struct listing *l)
{
    for (struct alone *a = l->alone, *next = NULL; a; a = next) {
        next = a->next;
        free(a->claim.name);
        free(a);
    }
    free(l->rows);
    known_forget(&l->known, 0);
    hash_table_done(&l->known);
    inventory_done(&l->inventory);
}

dibs_status pod_list(const struct pod_list_options *options, pod_list_fn fn, void *ctx, dibs_err *unknown,
                     dibs_err *err)
{
    struct listing l = { .options = options };
    struct kubeapi_config config = { 0 };
    struct kubeapi *api = NULL;
    dibs_status s = kubeapi_config_load(options->kubeconfig, &config, err);

    if (s == DIBS_OK && !options->is_all &&
        !text_copy(l.ns, sizeof l.ns, options->ns ? options->ns : config.ns))
        s = err_set(err, DIBS_INVALID, "'%.80s' cannot be a namespace", options->ns);
    if (s == DIBS_OK)
        s = kubeapi_open(&config, &api, err);
    else
        kubeapi_config_done(&config);
    if (s == DIBS_OK)
        s = list_pods(&l, api, err);
    if (s == DIBS_OK)
        (void) !list_claims(&l, api, unknown);
    if (s == DIBS_OK) {
        hash_table_each(&l.inventory.objects, add_pod, &l);
        if (l.n > 0)
            qsort(l.rows, l.n, sizeof *l.rows, by_name);
        for (size_t i = 0; i < l.n; i++)
            fn(ctx, &l.rows[i]);
    }
    kubeapi_close(api);
    listing_done(&l);
    return s;
}
