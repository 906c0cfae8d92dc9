/* SPDX-License-Identifier: MIT */
#include "kube/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/name_part.h"
#include "base/text.h"
#include "kube/indexed_job.h"

#include "base/banned.h"

/* RBG has renamed its labels: the new key first, then the old ones. */
static const char *const rbg_group[] = { "rbg.workloads.x-k8s.io/group-name",
                                         "rolebasedgroup.workloads.x-k8s.io/name", NULL };
static const char *const rbg_role[] = { "rbg.workloads.x-k8s.io/role-name",
                                        "rolebasedgroup.workloads.x-k8s.io/role", NULL };
static const char *const rbg_type[] = { "rbg.workloads.x-k8s.io/role-type",
                                        "role.rolebasedgroup.workloads.x-k8s.io/template-type", NULL };
static const char *const rbg_instance[] = { "rbg.workloads.x-k8s.io/role-instance-name",
                                            "instance.workloads.x-k8s.io/instance-name",
                                            "instanceset.workloads.x-k8s.io/instance-name", NULL };
static const char *const rbg_component[] = { "rbg.workloads.x-k8s.io/component-name",
                                             "instance.workloads.x-k8s.io/component-name",
                                             "instanceset.workloads.x-k8s.io/instance-component-name",
                                             "component.rolebasedgroup.workloads.x-k8s.io/name", NULL };
static const char *const rbg_id[] = { "rbg.workloads.x-k8s.io/component-id",
                                      "instance.workloads.x-k8s.io/component-id",
                                      "instanceset.workloads.x-k8s.io/instance-component-id", NULL };
/* Only pods of a leader-worker role have it: the leader 0, the workers from 1 on. */
static const char *const rbg_index[] = { "rbg.workloads.x-k8s.io/component-index",
                                         "component.rolebasedgroup.workloads.x-k8s.io/index", NULL };
#define LWS_NAME "leaderworkerset.sigs.k8s.io/name"
#define LWS_GROUP "leaderworkerset.sigs.k8s.io/group-index"
#define LWS_WORKER "leaderworkerset.sigs.k8s.io/worker-index"

enum { NAMESPACE_MAX = 63, INDEX_MAX = INT32_MAX };

/* ---- reading ---- */

const char *identity_label(const struct identity_labels *labels, const char *key)
{
    const char *text = NULL;

    if ((jsonr_get_string(labels->first, key, &text) && *text) ||
        (jsonr_get_string(labels->second, key, &text) && *text))
        return text;
    return NULL;
}

static const char *label_of(const struct identity_labels *labels, const char *const *keys)
{
    const char *text = NULL;

    for (; *keys && !text; keys++)
        text = identity_label(labels, *keys);
    return text;
}

bool identity_index(const char *text, uint32_t *out)
{
    uint64_t number = 0;
    size_t len = text ? strlen(text) : 0;

    if (len == 0 || (len > 1 && text[0] == '0') || !text_number(text, len, INDEX_MAX, &number))
        return false;
    *out = (uint32_t) number;
    return true;
}

/* Parse the number at the end of PREFIX-NUMBER. */
static bool index_behind(const char *text, const char *prefix, uint32_t *out)
{
    size_t len = strlen(prefix);

    return strncmp(text, prefix, len) == 0 && text[len] == '-' && identity_index(text + len + 1, out);
}

static const jsonr_value *controller_of(const jsonr_value *metadata)
{
    const jsonr_value *owners = jsonr_get(metadata, "ownerReferences");

    for (size_t i = 0; i < jsonr_array_size(owners); i++) {
        const jsonr_value *owner = jsonr_array_at(owners, i);
        bool is_controller = false;

        if (jsonr_get_bool(owner, "controller", &is_controller) && is_controller)
            return owner;
    }
    return NULL;
}

/* Replace a ReplicaSet, DEPLOYMENT-HASH, by its Deployment. The pods have the hash as a label. */
static void rise_to_deployment(const struct identity_labels *labels, struct identity_owner *owner)
{
    const char *hash = identity_label(labels, "pod-template-hash");
    size_t len = strlen(owner->name);
    size_t hash_len = hash ? strlen(hash) : 0;

    if (strcmp(owner->kind, "ReplicaSet") != 0 || !hash || len < hash_len + 2 ||
        strcmp(owner->name + len - hash_len, hash) != 0 || owner->name[len - hash_len - 1] != '-')
        return;
    owner->kind = "Deployment";
    owner->name[len - hash_len - 1] = '\0';
}

/* Find the object that made the pod. A bare pod is its own object; pods of one generateName share one. */
static void find_owner(const jsonr_value *metadata, const struct identity_labels *labels,
                       struct identity_owner *out)
{
    const jsonr_value *controller = controller_of(metadata);
    const char *kind = NULL;
    const char *name = NULL;

    if (jsonr_get_string(controller, "kind", &kind) && jsonr_get_string(controller, "name", &name) && *kind &&
        *name) {
        out->kind = kind;
    } else {
        out->kind = "Pod";
        if (!jsonr_get_string(metadata, "name", &name) || !*name)
            (void) jsonr_get_string(metadata, "generateName", &name);
    }
    (void) text_copy(out->name, sizeof out->name, name ? name : "");
    rise_to_deployment(labels, out);
}

/* ---- group and role ---- */

void identity_keeper(const char *kind, const char *name, char out[DIBS_KEEPER_MAX + 1])
{
    char kind_part[DIBS_NAME_PART_MAX + 1];
    char name_part[DIBS_NAME_PART_MAX + 1];

    name_part_encode(kind, "", IDENTITY_KIND_MAX, kind_part);
    name_part_encode(name, "", IDENTITY_NAME_MAX, name_part);
    (void) snprintf(out, DIBS_KEEPER_MAX + 1, "%s/%s", kind_part, name_part);
}

void identity_place(const struct identity_labels *labels, const struct identity_owner *owner,
                    struct identity *out)
{
    const char *group = label_of(labels, rbg_group);
    const char *role = label_of(labels, rbg_role);
    char raw[NAME_PART_RAW_MAX];

    identity_keeper(owner->kind, owner->name, out->role_keeper);
    if (strcmp(owner->kind, "Pod") == 0)
        (void) text_copy(out->role_keeper, sizeof out->role_keeper, IDENTITY_KEPT_BY_POD);
    if (group && role) {
        identity_keeper("RoleBasedGroup", group, out->role_keeper);
    } else {
        group = identity_label(labels, IDENTITY_LABEL_GROUP);
        role = identity_label(labels, IDENTITY_LABEL_ROLE);
    }
    out->is_grouped = group != NULL || owner->role;
    /* A kind has a capital letter, which a RoleBasedGroup's name cannot have: the groups never collide. */
    (void) snprintf(raw, sizeof raw, "%.63s.%s", owner->kind, owner->name);
    name_part_encode(group ? group : raw, "", DIBS_NAME_PART_MAX, out->group);
    if (!role)
        role = owner->role ? owner->role : owner->name;
    (void) text_copy(out->role_name, sizeof out->role_name, role);
    name_part_encode(out->role_name, "", DIBS_NAME_PART_MAX, out->role);
}

static void number_part(uint32_t number, char out[DIBS_NAME_PART_MAX + 1])
{
    (void) snprintf(out, DIBS_NAME_PART_MAX + 1, "%u", number);
}

void identity_instance(const struct identity_labels *labels, const char *name,
                       char out[DIBS_NAME_PART_MAX + 1])
{
    const char *group = label_of(labels, rbg_group);
    const char *role = label_of(labels, rbg_role);
    char set[2 * IDENTITY_RAW_MAX + 2];
    uint32_t number = 0;

    (void) snprintf(set, sizeof set, "%.253s-%.253s", group ? group : "", role ? role : "");
    if (group && role && index_behind(name, set, &number))
        number_part(number, out);
    else /* encode a name that only looks like a number */
        name_part_encode(name, identity_index(name, &number) ? "0123456789" : "", DIBS_NAME_PART_MAX, out);
}

/* ---- named pods ---- */

/* State while a pod is identified. */
struct identifying {
    struct identity_labels labels;
    struct identity_owner owner;
    const char *name; /* of the pod; "": not generated yet */
    struct identity *out;
};

static void name_it(const struct identifying *l, const char *kind, const char *object)
{
    l->out->is_named = true;
    identity_keeper(kind, object, l->out->keeper);
}

/* Read the index from the label, else from behind PREFIX in the pod's name. The LeaderWorkerSet's webhook
 * derives the label from the name, but may run after ours. */
static bool lws_index(const struct identifying *l, const char *key, const char *prefix, uint32_t *out)
{
    const char *text = identity_label(&l->labels, key);

    return text ? identity_index(text, out) : index_behind(l->name, prefix, out);
}

/* Identify a LeaderWorkerSet's pod: LWS-GROUP is a leader, LWS-GROUP-WORKER a worker. StatefulSets that the
 * LeaderWorkerSet made own both. */
static bool identify_lws(struct identifying *l)
{
    const char *lws = identity_label(&l->labels, LWS_NAME);
    char expected[2 * IDENTITY_RAW_MAX];
    uint32_t group = 0;
    uint32_t worker = 0;

    if (!lws || !lws_index(l, LWS_GROUP, lws, &group))
        return false;
    (void) snprintf(expected, sizeof expected, "%.253s-%u", lws, group);
    bool has_worker = lws_index(l, LWS_WORKER, expected, &worker);
    l->owner.kind = "LeaderWorkerSet";
    (void) text_copy(l->owner.name, sizeof l->owner.name, lws);
    identity_place(&l->labels, &l->owner, l->out);
    if (!has_worker)
        return true;
    l->out->component = worker == 0 ? "leader" : "worker";
    l->out->component_id = worker == 0 ? 0 : worker - 1;
    (void) snprintf(expected, sizeof expected, worker == 0 ? "%.253s-%u" : "%.253s-%u-%u", lws, group,
                    worker);
    if (strcmp(l->name, expected) != 0)
        return true;
    number_part(group, l->out->instance);
    name_it(l, "LeaderWorkerSet", lws);
    return true;
}

/* Return how RBG names the pods of an instance. RBG does not label the pods with the type; without it the
 * name decides: a pod named like its instance is the whole instance, and a pod named by its index belongs to
 * a leader-worker role. */
static enum workload_pod_type rbg_type_of(const struct identity_labels *labels, const char *instance,
                                          const char *name)
{
    const char *type = label_of(labels, rbg_type);
    uint32_t index = 0;
    uint32_t number = 0;

    if (type && strcmp(type, "LeaderWorkerSet") == 0)
        return WORKLOAD_LEADER_WORKER_PODS;
    if (type)
        return strcmp(type, "PodTemplate") == 0 ? WORKLOAD_STANDALONE_POD : WORKLOAD_COMPONENT_PODS;
    if (strcmp(name, instance) == 0)
        return WORKLOAD_STANDALONE_POD;
    return identity_index(label_of(labels, rbg_index), &index) && index_behind(name, instance, &number) &&
                   number == index
               ? WORKLOAD_LEADER_WORKER_PODS
               : WORKLOAD_COMPONENT_PODS;
}

/* Return the instance of the pod; NULL: it is not RBG's. */
static const char *rbg_instance_of(const struct identity_labels *labels, const struct identity_owner *owner,
                                   bool *is_owned)
{
    *is_owned = strcmp(owner->kind, "RoleInstance") == 0 || strcmp(owner->kind, "Instance") == 0;
    return *is_owned ? owner->name : label_of(labels, rbg_instance);
}

static void name_rbg(const struct identifying *l, const struct workload_pod_id *pod, const char *kind)
{
    identity_instance(&l->labels, pod->instance, l->out->instance);
    name_it(l, kind, pod->instance);
}

static bool identify_rbg(struct identifying *l)
{
    bool is_owned = false;
    struct workload_pod_id pod = { .instance = rbg_instance_of(&l->labels, &l->owner, &is_owned) };
    char expected[WORKLOAD_ADDRESS_MAX];

    /* RBG also makes bare pods with these labels; the name, checked below, tells them from copies. */
    if (!pod.instance || (!is_owned && strcmp(l->owner.kind, "Pod") != 0))
        return false;
    pod.type = rbg_type_of(&l->labels, pod.instance, l->name);
    bool has_id = identity_index(label_of(&l->labels, rbg_id), &pod.id);
    /* A single pod's component is the role itself. */
    pod.component = pod.type == WORKLOAD_STANDALONE_POD ? NULL : label_of(&l->labels, rbg_component);
    l->out->component = pod.component;
    l->out->component_id = pod.id;
    identity_place(&l->labels, &l->owner, l->out);
    if (pod.component && !has_id)
        return true;
    if (!pod.component && pod.type == WORKLOAD_COMPONENT_PODS)
        pod.type = WORKLOAD_STANDALONE_POD;
    if (!workload_pod_name(&pod, expected, sizeof expected) || strcmp(l->name, expected) != 0)
        return true;
    name_rbg(l, &pod, is_owned ? l->owner.kind : "RoleInstance");
    return true;
}

static void identify_by_owner(struct identifying *l)
{
    uint32_t ordinal = 0;

    identity_place(&l->labels, &l->owner, l->out);
    if (strcmp(l->owner.kind, "StatefulSet") != 0 || !index_behind(l->name, l->owner.name, &ordinal))
        return;
    number_part(ordinal, l->out->instance);
    name_it(l, "StatefulSet", l->owner.name);
}

/* ---- ids ---- */

bool identity_is_id(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    return len == IDENTITY_ID_MAX && strspn(text, "0123456789abcdef") == len;
}

bool identity_is_own_key(const char *key)
{
    static const char *const keys[] = { IDENTITY_KEY_CLAIM, IDENTITY_KEY_ASSIGNED, IDENTITY_KEY_SIGNATURE,
                                        IDENTITY_KEY_INJECTED };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

enum {
    RANDOM_DIGITS = 24,
    DIGEST_DIGITS = IDENTITY_ID_MAX - RANDOM_DIGITS,
    /* An id is valid in the time slot in which it was drawn and in the next one: for 30 to 60 s, the
     * longest time a request to the API server takes. */
    SLOT_MS = 30000,
};

static uint64_t add_text(uint64_t hash, const char *text)
{
    return hash_fnv1a(hash, text, strlen(text) + 1);
}

/* Hash the pod as its creator sent it. A generated name is still missing at every call of the webhook, and
 * so is the node unless the creator chose it. */
static void digest(const jsonr_value *pod, const char *id, int64_t slot, char out[DIGEST_DIGITS + 1])
{
    uint64_t hash = hash_fnv1a(HASH_FNV_BASIS, id, RANDOM_DIGITS);

    hash = add_text(hash, jsonr_text_at(pod, "metadata.name"));
    hash = add_text(hash, jsonr_text_at(pod, "metadata.generateName"));
    hash = add_text(hash, jsonr_text_at(pod, "spec.nodeName"));
    hash = hash_fnv1a(hash, &slot, sizeof slot);
    (void) snprintf(out, DIGEST_DIGITS + 1, "%08x", (uint32_t) (hash ^ hash >> 32));
}

dibs_status identity_draw_id(const jsonr_value *pod, int64_t wall_ms, char out[IDENTITY_ID_MAX + 1],
                             dibs_err *err)
{
    uint32_t bits[RANDOM_DIGITS / 8];

    if (getrandom(bits, sizeof bits, 0) != (ssize_t) sizeof bits)
        return err_os(err, DIBS_FAILURE, errno, "cannot get random bytes");
    (void) snprintf(out, RANDOM_DIGITS + 1, "%08x%08x%08x", bits[0], bits[1], bits[2]);
    digest(pod, out, wall_ms / SLOT_MS, out + RANDOM_DIGITS);
    return DIBS_OK;
}

bool identity_may_be_asked_again(const struct identity *identity, const jsonr_value *pod, int64_t wall_ms)
{
    char expected[DIGEST_DIGITS + 1];

    /* A pod read from an API server has a phase; most clients remove its uid before they send a copy. */
    if (!identity->id[0] || *jsonr_text_at(pod, "metadata.uid") || *jsonr_text_at(pod, "status.phase"))
        return false;
    /* Also try the next slot: another replica's clock may be ahead. */
    for (int64_t slot = wall_ms / SLOT_MS - 1; slot <= wall_ms / SLOT_MS + 1; slot++) {
        digest(pod, identity->id, slot, expected);
        if (strcmp(identity->id + RANDOM_DIGITS, expected) == 0)
            return true;
    }
    return false;
}

void identity_take_id(struct identity *identity, const char *id)
{
    (void) text_copy(identity->id, sizeof identity->id, id);
    if (!identity->is_named)
        (void) snprintf(identity->instance, sizeof identity->instance, "~%s", id);
}

static dibs_status set_principal(const char *ns, struct identity *out, dibs_err *err)
{
    if (strlen(ns) > NAMESPACE_MAX || strspn(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(ns))
        return err_set(err, DIBS_INVALID, "metadata.namespace: '%.80s' is not a valid namespace", ns);
    (void) snprintf(out->principal, sizeof out->principal, "ns:%s", ns);
    return DIBS_OK;
}

dibs_status identity_of_pod(const jsonr_value *pod, const char *ns, struct identity *out, dibs_err *err)
{
    const jsonr_value *metadata = jsonr_get(pod, "metadata");
    struct identity found = { 0 };
    struct identifying l = { .labels = { jsonr_get(metadata, "labels"), NULL }, .name = "", .out = &found };
    const char *id = NULL;

    if (!jsonr_is_object(metadata))
        return err_set(err, DIBS_INVALID, "metadata is not an object");
    (void) jsonr_get_string(metadata, "name", &l.name);
    if (!ns || !*ns)
        ns = jsonr_text_at(metadata, "namespace");
    dibs_status s = set_principal(*ns ? ns : "default", &found, err);
    if (s != DIBS_OK)
        return s;
    (void) text_copy(found.keeper, sizeof found.keeper, IDENTITY_KEPT_BY_POD);
    find_owner(metadata, &l.labels, &l.owner);
    if (!identify_lws(&l) && !identify_rbg(&l) &&
        !indexed_job_identify(metadata, &l.labels, &l.owner, &found))
        identify_by_owner(&l);
    if (jsonr_get_string(jsonr_get(metadata, "annotations"), IDENTITY_KEY_CLAIM, &id) && identity_is_id(id))
        identity_take_id(&found, id);
    *out = found;
    return DIBS_OK;
}

bool identity_of_component(const struct identity_component *of, struct identity *out,
                           char pod[WORKLOAD_ADDRESS_MAX])
{
    const struct identity_labels of_instance = { jsonr_at(of->instance, "metadata.labels"), NULL };
    struct workload_pod_id id = { .instance = jsonr_text_at(of->instance, "metadata.name"),
                                  .component = jsonr_text_at(of->component, "name"),
                                  .id = of->id };
    struct identity found = { 0 };
    struct identifying l = { .labels = { jsonr_at(of->component, "template.metadata.labels"), NULL },
                             .owner.kind = "RoleInstance",
                             .out = &found };

    id.type = rbg_type_of(&of_instance, id.instance, "");
    if (!*id.instance || !*id.component || !workload_pod_name(&id, pod, WORKLOAD_ADDRESS_MAX) ||
        set_principal(of->ns, &found, NULL) != DIBS_OK)
        return false;
    (void) text_copy(l.owner.name, sizeof l.owner.name, id.instance);
    found.component = id.type == WORKLOAD_STANDALONE_POD ? NULL : id.component;
    found.component_id = id.id;
    identity_place(&l.labels, &l.owner, &found);
    name_rbg(&l, &id, l.owner.kind);
    *out = found;
    return true;
}

bool identity_address(const jsonr_value *pod, const struct identity *identity,
                      const struct workload_discovery_ref *ref, char out[WORKLOAD_ADDRESS_MAX])
{
    const jsonr_value *metadata = jsonr_get(pod, "metadata");
    const struct identity_labels labels = { jsonr_get(metadata, "labels"), NULL };
    const char *service = jsonr_text_at(pod, "spec.subdomain");
    struct identity_owner owner = { 0 };
    struct workload_pod_id other = { .component = ref->component, .id = ref->index };
    bool is_owned = false;

    find_owner(metadata, &labels, &owner);
    other.instance = rbg_instance_of(&labels, &owner, &is_owned);
    if (!other.instance || !*service)
        return false;
    other.type = rbg_type_of(&labels, other.instance, jsonr_text_at(metadata, "name"));
    return workload_discovery_address(&other, service, identity->principal + strlen("ns:"), out);
}

/* ---- names ---- */

void identity_claim_name(const struct identity *identity, const struct workload_port *port, uint32_t number,
                         char out[DIBS_NAME_MAX + 1])
{
    bool is_shared = port->scope == WORKLOAD_ROLE_SCOPED;
    char component[DIBS_NAME_PART_MAX + 1] = "-";
    char last[DIBS_NAME_PART_MAX + 1];

    if (identity->component) /* a shared claim has no pod index */
        workload_part(identity->component, is_shared ? 0 : identity->component_id, component);
    workload_part(port->name, number, last);
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s/%s/%s/%s", identity->group, identity->role,
                    is_shared ? "-" : identity->instance, component, last);
}
