/* SPDX-License-Identifier: MIT */
/* What Kubernetes objects keep: the names of claims that last while the object says so. */
#include <stdio.h>
#include <string.h>

#include "base/part.h"
#include "base/text.h"
#include "operator/asking.h"
#include "operator/identity.h"

#include "base/banned.h"

struct keeping {
    const char *kind, *name;
    const json_value *metadata, *spec;
    bool is_inherited; /* by its pods: its labels */
    identity_keep_fn *fn;
    void *ctx;
};

/* Of the template's pods. Those of the object itself are not theirs, but for RBG's instances. */
static struct identity_labels labels_of(const struct keeping *k, const json_value *template)
{
    return (struct identity_labels){ json_get(json_get(template, "metadata"), "labels"),
                                     k->is_inherited ? json_get(k->metadata, "labels") : NULL };
}

static void begin(const struct keeping *k, const json_value *template, struct identity *place,
                  struct identity_keep *out)
{
    const struct identity_labels labels = labels_of(k, template);
    struct identity_owner owner = { .kind = k->kind };
    const char *ns = "default";

    (void) text_copy(owner.name, sizeof owner.name, k->name);
    identity_place(&labels, &owner, place);
    *out = (struct identity_keep){ 0 };
    (void) json_get_string(k->metadata, "namespace", &ns);
    (void) snprintf(out->principal, sizeof out->principal, "ns:%.63s", ns);
    (void) snprintf(out->prefix, sizeof out->prefix, "%s/%s/", place->group, place->role);
}

/* What the template does not ask for any more is kept by those pods that have it. A template that says
 * nothing of ports, or what cannot be read, may be completed by others: then nobody knows. */
static void keep_asked(const struct keeping *k, const json_value *template, struct identity_keep *keep)
{
    struct asking asking = { 0 };
    dibs_status s = asking_read(template, "", &asking, NULL);
    const struct workload_component *config = asking.config;

    if (s != DIBS_OK || !config)
        k->fn(k->ctx, keep);
    for (size_t i = 0; config && i < config->n_ports; i++) {
        const struct workload_port *port = &config->ports[i];

        for (uint32_t number = 0; number < port->count && port->scope == WORKLOAD_ROLE_SCOPED; number++) {
            workload_part(port->name, number, keep->port);
            k->fn(k->ctx, keep);
        }
    }
    asking_done(&asking);
}

/* What the role shares, unless another object keeps it. */
static void keep_shared(const struct keeping *k, const json_value *template)
{
    struct identity place = { 0 };
    struct identity_keep keep;

    begin(k, template, &place, &keep);
    identity_keeper(k->kind, k->name, keep.keeper);
    (void) text_copy(keep.instance, sizeof keep.instance, "-");
    if (strcmp(keep.keeper, place.role_keeper) == 0)
        keep_asked(k, template, &keep);
}

static uint32_t number_of(const json_value *object, const char *key, uint32_t otherwise)
{
    int64_t number = 0;

    if (!json_get_int(object, key, &number))
        return otherwise;
    return number < 0 ? 0 : number > INT32_MAX ? (uint32_t) INT32_MAX : (uint32_t) number;
}

static void keep_numbered(const struct keeping *k, const json_value *template)
{
    struct identity place = { 0 };
    struct identity_keep keep;

    begin(k, template, &place, &keep);
    identity_keeper(k->kind, k->name, keep.keeper);
    keep.first = number_of(json_get(k->spec, "ordinals"), "start", 0);
    keep.n = number_of(k->spec, "replicas", 1);
    k->fn(k->ctx, &keep);
}

static void of_stateful_set(const struct keeping *k)
{
    const json_value *template = json_get(k->spec, "template");

    keep_numbered(k, template);
    keep_shared(k, template);
}

/* Leaders and workers are made from two templates, or from one. */
static void of_leader_worker_set(const struct keeping *k)
{
    static const char *const templates[] = { "leaderTemplate", "workerTemplate" };
    const json_value *both = json_get(k->spec, "leaderWorkerTemplate");

    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const json_value *template = json_get(both, templates[i]);

        if (!json_is_object(template))
            continue;
        keep_numbered(k, template);
        keep_shared(k, template);
    }
}

static void of_role_instance(const struct keeping *k)
{
    const json_value *components = json_get(k->spec, "components");
    size_t n = json_array_size(components);

    for (size_t i = 0; i < (n ? n : 1); i++) {
        const json_value *template = json_get(json_array_at(components, i), "template");
        const struct identity_labels labels = labels_of(k, template);
        struct identity place = { 0 };
        struct identity_keep keep;

        begin(k, template, &place, &keep);
        identity_keeper(k->kind, k->name, keep.keeper);
        identity_instance(&labels, k->name, keep.instance);
        k->fn(k->ctx, &keep);
        keep_shared(k, template);
    }
}

static void of_group(const struct keeping *k)
{
    const json_value *roles = json_get(k->spec, "roles");

    for (size_t i = 0; i < json_array_size(roles); i++) {
        struct identity_keep keep = { .instance = "-" };
        char group[DIBS_NAME_PART_MAX + 1];
        char role[DIBS_NAME_PART_MAX + 1];
        const char *name = NULL;
        const char *ns = "default";

        if (!json_get_string(json_array_at(roles, i), "name", &name))
            continue;
        (void) json_get_string(k->metadata, "namespace", &ns);
        part_encode(k->name, "", DIBS_NAME_PART_MAX, group);
        part_encode(name, "", DIBS_NAME_PART_MAX, role);
        (void) snprintf(keep.principal, sizeof keep.principal, "ns:%.63s", ns);
        (void) snprintf(keep.prefix, sizeof keep.prefix, "%s/%s/", group, role);
        identity_keeper(k->kind, k->name, keep.keeper);
        k->fn(k->ctx, &keep);
    }
}

static void of_any(const struct keeping *k)
{
    const json_value *template = json_get(k->spec, "template");

    if (json_is_object(template))
        keep_shared(k, template);
}

void identity_of_object(const char *kind, const json_value *object, identity_keep_fn *fn, void *ctx)
{
    static const struct {
        const char *kind;
        void (*tell)(const struct keeping *k);
        bool is_inherited;
    } kinds[] = {
        { "StatefulSet", of_stateful_set, false },  { "LeaderWorkerSet", of_leader_worker_set, false },
        { "RoleInstance", of_role_instance, true }, { "Instance", of_role_instance, true },
        { "RoleBasedGroup", of_group, false },
    };
    struct keeping k = { .kind = kind, .fn = fn, .ctx = ctx };
    void (*tell)(const struct keeping *) = of_any;

    k.metadata = json_get(object, "metadata");
    k.spec = json_get(object, "spec");
    if (!json_get_string(k.metadata, "name", &k.name))
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind, kind) == 0) {
            tell = kinds[i].tell;
            k.is_inherited = kinds[i].is_inherited;
        }
    tell(&k);
}

bool identity_keeps(const struct identity_keep *keep, const dibs_claim *claim)
{
    size_t len = strlen(keep->prefix);
    uint64_t number = 0;

    if (strcmp(claim->principal, keep->principal) != 0 || strcmp(claim->command, keep->keeper) != 0 ||
        strncmp(claim->name, keep->prefix, len) != 0)
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
