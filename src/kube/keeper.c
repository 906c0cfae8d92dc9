/* SPDX-License-Identifier: MIT */
#include "kube/keeper.h"

#include <stdio.h>
#include <string.h>

#include "base/name_part.h"
#include "base/text.h"
#include "kube/webhook/port_request.h"

#include "base/banned.h"

/* The PodScoped claims that objects of a kind keep. */
enum kept_pods { NO_PODS, NUMBERED_PODS, INSTANCE_PODS };

struct keeping {
    const char *kind, *name;
    const jsonr_value *object, *metadata, *spec;
    enum kept_pods pods;
    uint32_t n_pods;  /* numbered */
    const char *role; /* as in struct identity_owner */
    keeper_rule_fn *fn;
    void *ctx;
};

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

/* Keep the RoleScoped ports that the template requests; pods keep their other ports. Keep everything when
 * the template has no requests or is unreadable: another webhook may complete its pods. */
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

static uint32_t number_of(const jsonr_value *object, const char *key, uint32_t otherwise)
{
    int64_t number = 0;

    if (!jsonr_get_int(object, key, &number))
        return otherwise;
    return number < 0 ? 0 : number > INT32_MAX ? (uint32_t) INT32_MAX : (uint32_t) number;
}

/* Keep the claims of the object's instances, and their shared claims unless another object keeps these. */
static void keep_pods(const struct keeping *k, const jsonr_value *template)
{
    /* The object's labels are not those of its pods, except for RBG's instances. */
    const struct identity_labels labels = {
        jsonr_get(jsonr_get(template, "metadata"), "labels"),
        k->pods == INSTANCE_PODS ? jsonr_get(k->metadata, "labels") : NULL,
    };
    struct identity_owner owner = { .kind = k->kind, .role = k->role };
    struct identity place = { 0 };

    (void) text_copy(owner.name, sizeof owner.name, k->name);
    identity_place(&labels, &owner, &place);
    struct keeper_rule keep = rule_of(k, place.group, place.role);
    struct keeper_rule shared = keep;
    if (k->pods == INSTANCE_PODS) {
        identity_instance(&labels, k->name, keep.instance);
    } else {
        keep.first = number_of(jsonr_get(k->spec, "ordinals"), "start", 0);
        keep.n = k->n_pods;
    }
    if (k->pods != NO_PODS)
        k->fn(k->ctx, &keep);
    (void) text_copy(shared.instance, sizeof shared.instance, "-");
    if (strcmp(shared.keeper, place.role_keeper) == 0)
        keep_asked(k, template, &shared);
}

static void of_template(const struct keeping *k)
{
    const jsonr_value *template = jsonr_get(k->spec, "template");

    if (k->pods != NO_PODS || jsonr_is_object(template))
        keep_pods(k, template);
}

/* Keep the claims of leaders and workers, which have two templates or share one. */
static void of_leader_worker_set(const struct keeping *k)
{
    static const char *const templates[] = { "leaderTemplate", "workerTemplate" };
    const jsonr_value *both = jsonr_get(k->spec, "leaderWorkerTemplate");

    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const jsonr_value *template = jsonr_get(both, templates[i]);

        if (jsonr_is_object(template))
            keep_pods(k, template);
    }
}

/* Return whether the Job or JobSet has completed or failed. */
static bool is_over(const jsonr_value *object)
{
    static const char *const ends[] = { "Complete", "Completed", "Failed" };
    const jsonr_value *conditions = jsonr_at(object, "status.conditions");
    bool is_over = false;

    for (size_t i = 0; i < jsonr_array_size(conditions) && !is_over; i++) {
        const jsonr_value *one = jsonr_array_at(conditions, i);

        for (size_t k = 0; k < sizeof ends / sizeof *ends && !is_over; k++)
            is_over = strcmp(jsonr_text_at(one, "type"), ends[k]) == 0 &&
                      strcmp(jsonr_text_at(one, "status"), "True") == 0;
    }
    return is_over;
}

/* Keep the claims of all indexes of an Indexed Job, and those that the pods of any Job share. */
static void of_job(const struct keeping *k)
{
    struct keeping job = *k;

    job.n_pods = number_of(k->spec, "completions", 1);
    if (strcmp(jsonr_text_at(k->spec, "completionMode"), "Indexed") != 0)
        job.pods = NO_PODS;
    if (!is_over(k->object))
        of_template(&job);
}

/* Keep the claims of a JobSet's roles. The instances of a role with one Job are the indexes of that. */
static void of_job_set(const struct keeping *k)
{
    const jsonr_value *roles = jsonr_get(k->spec, "replicatedJobs");

    for (size_t i = 0; i < jsonr_array_size(roles) && !is_over(k->object); i++) {
        const jsonr_value *role = jsonr_array_at(roles, i);
        struct keeping jobs = *k;

        jobs.role = jsonr_text_at(role, "name");
        jobs.n_pods = number_of(role, "replicas", 1);
        if (jobs.n_pods == 1)
            jobs.n_pods = number_of(jsonr_at(role, "template.spec"), "completions", 1);
        keep_pods(&jobs, jsonr_at(role, "template.spec.template"));
    }
}

static void of_role_instance(const struct keeping *k)
{
    const jsonr_value *components = jsonr_get(k->spec, "components");
    size_t n = jsonr_array_size(components);

    for (size_t i = 0; i < (n ? n : 1); i++)
        keep_pods(k, jsonr_get(jsonr_array_at(components, i), "template"));
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

void keeper_rules_of(const char *kind, const jsonr_value *object, keeper_rule_fn *fn, void *ctx)
{
    static const struct {
        const char *kind; /* NULL: any other kind */
        void (*add_rules)(const struct keeping *k);
        enum kept_pods pods;
    } kinds[] = {
        { "StatefulSet", of_template, NUMBERED_PODS },
        { "LeaderWorkerSet", of_leader_worker_set, NUMBERED_PODS },
        { "Job", of_job, NUMBERED_PODS },
        { "JobSet", of_job_set, NUMBERED_PODS },
        { "RoleInstance", of_role_instance, INSTANCE_PODS },
        { "Instance", of_role_instance, INSTANCE_PODS },
        { "RoleBasedGroup", of_group, NO_PODS },
        { NULL, of_template, NO_PODS },
    };
    struct keeping k = { .kind = kind, .object = object, .fn = fn, .ctx = ctx };
    size_t i = 0;

    k.metadata = jsonr_get(object, "metadata");
    k.spec = jsonr_get(object, "spec");
    if (!jsonr_get_string(k.metadata, "name", &k.name))
        return;
    while (kinds[i].kind && strcmp(kinds[i].kind, kind) != 0)
        i++;
    k.pods = kinds[i].pods;
    k.n_pods = number_of(k.spec, "replicas", 1);
    kinds[i].add_rules(&k);
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
