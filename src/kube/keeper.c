/* SPDX-License-Identifier: MIT */
#include "kube/keeper.h"

#include <stdio.h>
#include <string.h>

#include "base/name_part.h"
#include "base/text.h"
#include "kube/webhook/port_request.h"

#include "base/banned.h"

struct keeping {
    const char *kind, *name;
    const jsonr_value *metadata, *spec;
    bool is_inherited; /* by its pods: its labels */
    keeper_rule_fn *fn;
    void *ctx;
};

/* Of the template's pods. Those of the object itself are not theirs, but for RBG's instances. */
static struct identity_labels labels_of(const struct keeping *k, const jsonr_value *template)
{
    return (struct identity_labels){ jsonr_get(jsonr_get(template, "metadata"), "labels"),
                                     k->is_inherited ? jsonr_get(k->metadata, "labels") : NULL };
}

static struct keeper_rule rule_of(const struct keeping *k, const char *group, const char *role)
{
    struct keeper_rule rule = { 0 };
    const char *ns = "default";

    (void) jsonr_get_string(k->metadata, "namespace", &ns);
    (void) snprintf(rule.principal, sizeof rule.principal, "ns:%.63s", ns);
    (void) snprintf(rule.prefix, sizeof rule.prefix, "%s/%s/", group, role);
    identity_keeper(k->kind, k->name, rule.keeper);
    return rule;
}

/* A rule for the template's pods. */
static struct keeper_rule begin(const struct keeping *k, const jsonr_value *template, struct identity *place)
{
    const struct identity_labels labels = labels_of(k, template);
    struct identity_owner owner = { .kind = k->kind };

    *place = (struct identity){ 0 };
    (void) text_copy(owner.name, sizeof owner.name, k->name);
    identity_place(&labels, &owner, place);
    return rule_of(k, place->group, place->role);
}

/* Keep the RoleScoped ports that the template requests; others are kept by the pods that have them. A
 * template without requests, or one that cannot be read, may be completed by other webhooks: all is kept. */
static void keep_asked(const struct keeping *k, const jsonr_value *template, struct keeper_rule *keep)
{
    struct port_request request = { 0 };
    dibs_status s = port_request_read(template, "", &request, NULL);
    const struct workload_component *config = request.config;

    if (s != DIBS_OK || !config)
        k->fn(k->ctx, keep);
    for (size_t i = 0; config && i < config->n_ports; i++) {
        const struct workload_port *port = &config->ports[i];

        for (uint32_t number = 0; number < port->count && port->scope == WORKLOAD_ROLE_SCOPED; number++) {
            workload_part(port->name, number, keep->port);
            k->fn(k->ctx, keep);
        }
    }
    port_request_done(&request);
}

/* Keep what the role shares, unless another object keeps it. */
static void keep_shared(const struct keeping *k, const jsonr_value *template)
{
    struct identity place;
    struct keeper_rule keep = begin(k, template, &place);

    (void) text_copy(keep.instance, sizeof keep.instance, "-");
    if (strcmp(keep.keeper, place.role_keeper) == 0)
        keep_asked(k, template, &keep);
}

static uint32_t number_of(const jsonr_value *object, const char *key, uint32_t otherwise)
{
    int64_t number = 0;

    if (!jsonr_get_int(object, key, &number))
        return otherwise;
    return number < 0 ? 0 : number > INT32_MAX ? (uint32_t) INT32_MAX : (uint32_t) number;
}

/* Keep the instances by their number, and what they share. */
static void keep_numbered(const struct keeping *k, const jsonr_value *template)
{
    struct identity place;
    struct keeper_rule keep = begin(k, template, &place);

    keep.first = number_of(jsonr_get(k->spec, "ordinals"), "start", 0);
    keep.n = number_of(k->spec, "replicas", 1);
    k->fn(k->ctx, &keep);
    keep_shared(k, template);
}

static void of_stateful_set(const struct keeping *k)
{
    keep_numbered(k, jsonr_get(k->spec, "template"));
}

/* Leaders and workers are made from two templates, or from one. */
static void of_leader_worker_set(const struct keeping *k)
{
    static const char *const templates[] = { "leaderTemplate", "workerTemplate" };
    const jsonr_value *both = jsonr_get(k->spec, "leaderWorkerTemplate");

    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const jsonr_value *template = jsonr_get(both, templates[i]);

        if (jsonr_is_object(template))
            keep_numbered(k, template);
    }
}

static void of_role_instance(const struct keeping *k)
{
    const jsonr_value *components = jsonr_get(k->spec, "components");
    size_t n = jsonr_array_size(components);

    for (size_t i = 0; i < (n ? n : 1); i++) {
        const jsonr_value *template = jsonr_get(jsonr_array_at(components, i), "template");
        const struct identity_labels labels = labels_of(k, template);
        struct identity place;
        struct keeper_rule keep = begin(k, template, &place);

        identity_instance(&labels, k->name, keep.instance);
        k->fn(k->ctx, &keep);
        keep_shared(k, template);
    }
}

static void of_group(const struct keeping *k)
{
    const jsonr_value *roles = jsonr_get(k->spec, "roles");

    for (size_t i = 0; i < jsonr_array_size(roles); i++) {
        char group[DIBS_NAME_PART_MAX + 1];
        char role[DIBS_NAME_PART_MAX + 1];
        const char *name = NULL;

        if (!jsonr_get_string(jsonr_array_at(roles, i), "name", &name))
            continue;
        name_part_encode(k->name, "", DIBS_NAME_PART_MAX, group);
        name_part_encode(name, "", DIBS_NAME_PART_MAX, role);
        struct keeper_rule keep = rule_of(k, group, role);
        (void) text_copy(keep.instance, sizeof keep.instance, "-");
        k->fn(k->ctx, &keep);
    }
}

static void of_any(const struct keeping *k)
{
    const jsonr_value *template = jsonr_get(k->spec, "template");

    if (jsonr_is_object(template))
        keep_shared(k, template);
}

void keeper_rules_of(const char *kind, const jsonr_value *object, keeper_rule_fn *fn, void *ctx)
{
    static const struct {
        const char *kind;
        void (*add_rules)(const struct keeping *k);
        bool is_inherited;
    } kinds[] = {
        { "StatefulSet", of_stateful_set, false },  { "LeaderWorkerSet", of_leader_worker_set, false },
        { "RoleInstance", of_role_instance, true }, { "Instance", of_role_instance, true },
        { "RoleBasedGroup", of_group, false },
    };
    struct keeping k = { .kind = kind, .fn = fn, .ctx = ctx };
    void (*add_rules)(const struct keeping *) = of_any;

    k.metadata = jsonr_get(object, "metadata");
    k.spec = jsonr_get(object, "spec");
    if (!jsonr_get_string(k.metadata, "name", &k.name))
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind, kind) == 0) {
            add_rules = kinds[i].add_rules;
            k.is_inherited = kinds[i].is_inherited;
        }
    add_rules(&k);
}

bool keeper_rule_covers(const struct keeper_rule *keep, const dibs_claim *claim)
{
    size_t len = strlen(keep->prefix);
    uint64_t number = 0;

    if (strcmp(claim->principal, keep->principal) != 0 || strncmp(claim->name, keep->prefix, len) != 0 ||
        (claim->keeper[0] && strcmp(claim->keeper, keep->keeper) != 0))
        return false;
    const char *part = claim->name + len;
    size_t part_len = strcspn(part, "/");
    const char *port = strrchr(part, '/');
    if (keep->port[0] && (!port || strcmp(port + 1, keep->port) != 0))
        return false;
    if (keep->instance[0])
        return strlen(keep->instance) == part_len && memcmp(part, keep->instance, part_len) == 0;
    return text_number(part, part_len, UINT32_MAX, &number) && number >= keep->first &&
           number - keep->first < keep->n;
}
