/* SPDX-License-Identifier: MIT */
#include "workload/discovery.h"

#include <string.h>

#include "base/err.h"
#include "codec/json.h"

#include "base/banned.h"

#define FAILED "failed to parse component discovery config: "

/* False when it does not fit. */
static bool pod_name(const struct workload_pod_id *pod, char *out, size_t size)
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

static dibs_status take_text(struct workload_group *group, const jsonr_value *v, const char *where,
                             const char **out, dibs_err *err)
{
    const char *text = "";

    if (v && !jsonr_is_null(v) && !jsonr_as_string(v, &text))
        return err_set(err, DIBS_INVALID, FAILED "%s is not a text", where);
    if (!*text)
        return err_set(err, DIBS_INVALID, "%s is required", where);
    *out = workload_text(group, text);
    return *out ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}

static dibs_status take_ref(struct workload_group *group, const jsonr_value *v, const char *where,
                            struct workload_discovery_ref *out, dibs_err *err)
{
    bool is_port = strncmp(where, "portRefs", sizeof "portRefs" - 1) == 0;
    const jsonr_value *index = jsonr_get_folded(v, "index");
    int64_t number = 0;
    char field[64] = "";

    if (!jsonr_is_object(v))
        return err_set(err, DIBS_INVALID, FAILED "%s is not an object", where);
    (void) snprintf(field, sizeof field, "%s.env", where);
    dibs_status s = take_text(group, jsonr_get_folded(v, "env"), field, &out->env, err);
    if (s == DIBS_OK && !workload_is_env_name(out->env))
        s = err_set(err, DIBS_INVALID, "%s is not the name of a variable", field);
    if (s == DIBS_OK && workload_env_danger(out->env))
        s = err_set(err, DIBS_INVALID, "%s is a variable that other programs read, such as PATH", field);
    (void) snprintf(field, sizeof field, "%s.component", where);
    if (s == DIBS_OK)
        s = take_text(group, jsonr_get_folded(v, "component"), field, &out->component, err);
    (void) snprintf(field, sizeof field, "%s.portName", where);
    if (s == DIBS_OK && is_port)
        s = take_text(group, jsonr_get_folded(v, "portName"), field, &out->port, err);
    if (s != DIBS_OK)
        return s;
    if (index && !jsonr_is_null(index) &&
        (!jsonr_as_int(index, &number) || number < 0 || number >= WORKLOAD_INSTANCES_MAX))
        return err_set(err, DIBS_INVALID, "%s.index is not from 0 to %d", where, WORKLOAD_INSTANCES_MAX - 1);
    out->index = (uint32_t) number;
    return DIBS_OK;
}

static dibs_status take_refs(struct workload_group *group, const jsonr_value *root, const char *key,
                             struct workload_discovery_ref **out, size_t *n, dibs_err *err)
{
    const jsonr_value *list = jsonr_get_folded(root, key);
    size_t count = jsonr_array_size(list);
    dibs_status s = DIBS_OK;

    if (list && !jsonr_is_null(list) && !jsonr_is_array(list))
        return err_set(err, DIBS_INVALID, FAILED "%s is not a list", key);
    if (count > WORKLOAD_REFERENCES_MAX)
        return err_set(err, DIBS_INVALID, "%s has more than %d entries", key, WORKLOAD_REFERENCES_MAX);
    struct workload_discovery_ref *refs = workload_take(group, (count + 1) * sizeof *refs);
    if (!refs)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; s == DIBS_OK && i < count; i++) {
        char where[32] = "";

        (void) snprintf(where, sizeof where, "%s[%zu]", key, i);
        s = take_ref(group, jsonr_array_at(list, i), where, &refs[i], err);
    }
    *out = refs;
    *n = count;
    return s;
}

dibs_status workload_discovery_parse(struct workload_group *group, const char *text,
                                     struct workload_discovery *out, dibs_err *err)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct workload_discovery found = { 0 };
    dibs_err why = { 0 };
    dibs_status s = DIBS_OK;

    if (text && *text)
        s = jsonr_parse(text, strlen(text), &doc, &why);
    if (s != DIBS_OK)
        return err_set(err, s, FAILED "%s", why.msg);
    const jsonr_value *root = doc ? jsonr_root(doc) : NULL;
    if (root && !jsonr_is_object(root))
        return err_set(err, DIBS_INVALID, FAILED "it is not an object");
    s = take_refs(group, root, "portRefs", &found.ports, &found.n_ports, err);
    if (s == DIBS_OK)
        s = take_refs(group, root, "addressRefs", &found.addresses, &found.n_addresses, err);
    if (s == DIBS_OK)
        *out = found;
    return s;
}

bool workload_discovery_add(struct workload_group *group, const struct workload_discovery *found,
                            const struct workload_reference *like, struct workload_component *component)
{
    size_t n = component->n_references;
    struct workload_reference *all = workload_take(group, (n + found->n_ports + 1) * sizeof *all);

    if (!all)
        return false;
    if (n > 0)
        memcpy(all, component->references, n * sizeof *all);
    for (size_t i = 0; i < found->n_ports; i++, n++) {
        all[n] = *like;
        all[n].env = found->ports[i].env;
        all[n].component = found->ports[i].component;
        all[n].port = found->ports[i].port;
        all[n].instance = -1;
        all[n].pod = (int32_t) found->ports[i].index;
    }
    component->references = all;
    component->n_references = n;
    return true;
}

bool workload_discovery_address(const struct workload_pod_id *pod, const char *service, const char *ns,
                                char out[WORKLOAD_ADDRESS_MAX])
{
    char name[WORKLOAD_ADDRESS_MAX] = "";

    if (!pod_name(pod, name, sizeof name))
        return false;
    int n = snprintf(out, WORKLOAD_ADDRESS_MAX, "%s.%s.%s.svc.cluster.local", name, service, ns);

    return n >= 0 && n < WORKLOAD_ADDRESS_MAX;
}
