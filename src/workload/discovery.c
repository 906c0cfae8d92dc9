/* SPDX-License-Identifier: MIT */
#include "workload/discovery.h"

#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/text.h"
#include "workload/annotation.h"
#include "json/json.h"

#include "base/banned.h"

#define FAILED "failed to parse component discovery config: "

DEFINE_AUTO(json_doc, json_free)

bool workload_pod_name(const struct workload_pod_id *pod, char *out, size_t size)
{
    int n = 0;

    switch (pod->type) {
    case WORKLOAD_COMPONENT_PODS:
        n = snprintf(out, size, "%s-%s-%u", pod->instance, pod->component, pod->id);
        break;
    case WORKLOAD_LEADER_WORKER_PODS: {
        bool is_leader = strcmp(pod->component, "leader") == 0;

        n = snprintf(out, size, "%s-%llu", pod->instance, is_leader ? 0 : pod->id + 1ull);
        break;
    }
    case WORKLOAD_STANDALONE_POD: n = snprintf(out, size, "%s", pod->instance); break;
    }
    return n >= 0 && (size_t) n < size;
}

void workload_storage_key(const char *owner, const char *port, char out[WORKLOAD_STORAGE_KEY_MAX + 1])
{
    enum { HASH_DIGITS = 16, SHOWN_MAX = WORKLOAD_STORAGE_KEY_MAX - HASH_DIGITS - 1 };
    int n = snprintf(out, WORKLOAD_STORAGE_KEY_MAX + 1, "%s.%s", owner, port);
    size_t used = 0;

    if (n >= 0 && n <= WORKLOAD_STORAGE_KEY_MAX && *owner && *port && !strpbrk(out, "/") &&
        !strchr(port, '.') && workload_is_annotation_key(out))
        return;
    char whole[WORKLOAD_STORAGE_KEY_MAX + 1] = "";
    /* The owner with its end, so that "a", "bc" and "ab", "c" differ. */
    uint64_t hash = hash_fnv1a(HASH_FNV_BASIS, owner, strlen(owner) + 1);

    (void) snprintf(whole, sizeof whole, "%s-%s", owner, port);
    for (const char *c = whole; *c && used < SHOWN_MAX; c++) { /* what people recognise it by */
        char letter[2] = { *c, '\0' };

        if (workload_is_annotation_key(letter))
            out[used++] = *c;
        else if (used > 0 && out[used - 1] != '-')
            out[used++] = '-';
    }
    if (used > 0 && out[used - 1] != '-')
        out[used++] = '-';
    (void) snprintf(out + used, HASH_DIGITS + 1, "%016llx",
                    (unsigned long long) hash_fnv1a(hash, port, strlen(port)));
}

static dibs_status take_text(struct workload_group *group, const json_value *v, const char *where,
                             const char **out, dibs_err *err)
{
    const char *text = "";

    if (v && !json_is_null(v) && !json_as_string(v, &text))
        return err_set(err, DIBS_INVALID, FAILED "%s is not a text", where);
    if (!*text)
        return err_set(err, DIBS_INVALID, "%s is required", where);
    *out = workload_text(group, text);
    return *out ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

static dibs_status take_ref(struct workload_group *group, const json_value *v, const char *where,
                            struct workload_discovery_ref *out, dibs_err *err)
{
    bool is_port = strncmp(where, "portRefs", sizeof "portRefs" - 1) == 0;
    const json_value *index = json_get_folded(v, "index");
    int64_t number = 0;
    char field[64] = "";

    if (!json_is_object(v))
        return err_set(err, DIBS_INVALID, FAILED "%s is not an object", where);
    (void) snprintf(field, sizeof field, "%s.env", where);
    dibs_status s = take_text(group, json_get_folded(v, "env"), field, &out->env, err);
    if (s == DIBS_OK && !workload_is_env_name(out->env))
        s = err_set(err, DIBS_INVALID, "%s is not the name of a variable", field);
    (void) snprintf(field, sizeof field, "%s.component", where);
    if (s == DIBS_OK)
        s = take_text(group, json_get_folded(v, "component"), field, &out->component, err);
    (void) snprintf(field, sizeof field, "%s.portName", where);
    if (s == DIBS_OK && is_port)
        s = take_text(group, json_get_folded(v, "portName"), field, &out->port, err);
    if (s != DIBS_OK)
        return s;
    if (index && !json_is_null(index) &&
        (!json_as_int(index, &number) || number < 0 || number >= WORKLOAD_INSTANCES_MAX))
        return err_set(err, DIBS_INVALID, "%s.index is not from 0 to %d", where, WORKLOAD_INSTANCES_MAX - 1);
    out->index = (uint32_t) number;
    return DIBS_OK;
}

static dibs_status take_refs(struct workload_group *group, const json_value *root, const char *key,
                             struct workload_discovery_ref **out, size_t *n, dibs_err *err)
{
    const json_value *list = json_get_folded(root, key);
    size_t count = json_array_size(list);
    dibs_status s = DIBS_OK;

    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(err, DIBS_INVALID, FAILED "%s is not a list", key);
    if (count > WORKLOAD_REFERENCES_MAX)
        return err_set(err, DIBS_INVALID, "%s has more than %d entries", key, WORKLOAD_REFERENCES_MAX);
    struct workload_discovery_ref *refs = workload_take(group, (count + 1) * sizeof *refs);
    if (!refs)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; s == DIBS_OK && i < count; i++) {
        char where[32] = "";

        (void) snprintf(where, sizeof where, "%s[%zu]", key, i);
        s = take_ref(group, json_array_at(list, i), where, &refs[i], err);
    }
    *out = refs;
    *n = count;
    return s;
}

dibs_status workload_discovery_parse(struct workload_group *group, const char *text,
                                     struct workload_discovery *out, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct workload_discovery found = { 0 };
    dibs_err why = { 0 };
    dibs_status s = DIBS_OK;

    if (text && *text)
        s = json_parse(text, strlen(text), &doc, &why);
    if (s != DIBS_OK)
        return err_set(err, s, FAILED "%s", why.msg);
    const json_value *root = doc ? json_root(doc) : NULL;
    if (root && !json_is_object(root))
        return err_set(err, DIBS_INVALID, FAILED "it is not an object");
    s = take_refs(group, root, "portRefs", &found.ports, &found.n_ports, err);
    if (s == DIBS_OK)
        s = take_refs(group, root, "addressRefs", &found.addresses, &found.n_addresses, err);
    if (s == DIBS_OK)
        *out = found;
    return s;
}

dibs_status workload_discovery_port(const struct workload_discovery_ref *ref,
                                    const struct workload_pod_id *instance,
                                    const char *(*find)(void *ctx, const char *key), void *ctx,
                                    const char **out, dibs_err *err)
{
    struct workload_pod_id pod = { instance->type, instance->instance, ref->component, ref->index };
    char name[WORKLOAD_ADDRESS_MAX] = "";
    char key[WORKLOAD_STORAGE_KEY_MAX + 1] = "";
    char component[80] = "";
    char port[80] = "";
    const char *value = NULL;

    if (workload_pod_name(&pod, name, sizeof name)) {
        workload_storage_key(name, ref->port, key);
        value = find(ctx, key);
    }
    if (!value) {
        workload_storage_key(ref->component, ref->port, key);
        value = find(ctx, key);
    }
    if (!value)
        return err_set(err, DIBS_NOT_FOUND, "no port '%s' of component '%s', index %u",
                       text_safe(ref->port, port, sizeof port),
                       text_safe(ref->component, component, sizeof component), ref->index);
    *out = value;
    return DIBS_OK;
}

bool workload_discovery_address(const struct workload_pod_id *pod, const char *service, const char *ns,
                                char out[WORKLOAD_ADDRESS_MAX])
{
    char name[WORKLOAD_ADDRESS_MAX] = "";

    if (!workload_pod_name(pod, name, sizeof name))
        return false;
    int n = snprintf(out, WORKLOAD_ADDRESS_MAX, "%s.%s.%s.svc.cluster.local", name, service, ns);

    return n >= 0 && n < WORKLOAD_ADDRESS_MAX;
}
