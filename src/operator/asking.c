/* SPDX-License-Identifier: MIT */
#include "operator/asking.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

const char *asking_annotation(const json_value *pod, const char *key)
{
    const char *text = NULL;

    (void) json_get_string(json_get(json_get(pod, "metadata"), "annotations"), key, &text);
    return text;
}

void asking_done(struct asking *asking)
{
    workload_free(asking->group);
    *asking = (struct asking){ 0 };
}

size_t asking_count(const struct asking *asking)
{
    size_t n = 0;

    for (size_t i = 0; asking->config && i < asking->config->n_ports; i++)
        n += asking->config->ports[i].count;
    return n;
}

/* The annotation is of one pod; to the model it is a group with one. Where references lead is not known yet.
 */
static dibs_status check_alone(struct workload_group *group, struct workload_component *config, dibs_err *err)
{
    struct workload_component ports_only = *config;
    struct workload_role role = {
        .name = "pod", .instances = 1, .components = &ports_only, .n_components = 1
    };

    ports_only.n_references = 0;
    ports_only.size = 1;
    group->roles = &role;
    group->n_roles = 1;
    dibs_status s = workload_check(group, err);
    group->roles = NULL;
    group->n_roles = 0;
    return s;
}

static bool is_env_of(const struct workload_component *config, size_t reference)
{
    const char *env = config->references[reference].env;
    bool is_there = false;

    for (size_t i = 0; i < config->n_ports && !is_there; i++)
        is_there = strcmp(config->ports[i].env, env) == 0;
    for (size_t i = 0; i < reference && !is_there; i++)
        is_there = strcmp(config->references[i].env, env) == 0;
    return is_there;
}

static bool is_ours(const char *key)
{
    return strcmp(key, IDENTITY_KEY_CLAIM) == 0 || strcmp(key, IDENTITY_KEY_ASSIGNED) == 0;
}

static dibs_status check(const struct asking *asking, dibs_err *err)
{
    const struct workload_component *config = asking->config;

    for (size_t i = 0; i < config->n_references; i++)
        if (is_env_of(config, i))
            return err_set(err, DIBS_INVALID, "references[%zu].env '%s' is there twice in one pod", i,
                           config->references[i].env);
    for (size_t i = 0; i < config->n_ports; i++) {
        const char *key = config->ports[i].annotation;

        if (key && is_ours(key))
            return err_set(err, DIBS_INVALID, "allocations[%zu].annotationKey is one that dibs writes itself",
                           i);
        for (size_t k = 0; key && k < i; k++)
            if (config->ports[k].annotation && strcmp(config->ports[k].annotation, key) == 0)
                return err_set(err, DIBS_INVALID, "allocations[%zu].annotationKey is there twice in one pod",
                               i);
    }
    if (asking_count(asking) > ASKING_PORTS_MAX)
        return err_set(err, DIBS_INVALID, "allocations: %zu ports are too many: at most %d",
                       asking_count(asking), ASKING_PORTS_MAX);
    return DIBS_OK;
}

/* Before all else is checked: by then nobody knows any more which of them it was. */
static dibs_status check_twice(const struct workload_component *config, dibs_err *err)
{
    for (size_t i = 1; i < config->n_ports; i++)
        for (size_t k = 0; k < i; k++) {
            const struct workload_port *a = &config->ports[k];
            const struct workload_port *b = &config->ports[i];

            if (strcmp(a->name, b->name) == 0 || strcmp(a->env, b->env) == 0)
                return err_set(err, DIBS_INVALID, "allocations[%zu].%s is that of allocations[%zu]", i,
                               strcmp(a->name, b->name) == 0 ? "name" : "env", k);
        }
    return DIBS_OK;
}

static dibs_status parse(const char *text, struct asking *asking, dibs_err *err)
{
    struct workload_component *config = workload_take(asking->group, sizeof *config);

    if (!config)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = workload_annotation_parse(asking->group, asking->dialect, text, config, err);
    if (s == DIBS_OK)
        s = check_twice(config, err);
    if (s == DIBS_OK)
        s = check_alone(asking->group, config, err);
    asking->config = config;
    return s == DIBS_OK ? check(asking, err) : s;
}

dibs_status asking_read(const json_value *pod, const char *where, struct asking *out, dibs_err *err)
{
    const char *rbg = asking_annotation(pod, WORKLOAD_KEY_RBG);
    const char *own = asking_annotation(pod, WORKLOAD_KEY_OWN);
    struct asking asking = { .key = own ? WORKLOAD_KEY_OWN : WORKLOAD_KEY_RBG,
                             .dialect = own ? WORKLOAD_OWN : WORKLOAD_RBG };

    *out = (struct asking){ 0 };
    if (!rbg && !own)
        return DIBS_OK;
    if (rbg && own)
        return err_set(err, DIBS_INVALID, "%smetadata.annotations: both %s and %s are given; one is enough",
                       where, WORKLOAD_KEY_RBG, WORKLOAD_KEY_OWN);
    asking.group = workload_new();
    dibs_status s =
        asking.group ? parse(own ? own : rbg, &asking, err) : err_set(err, DIBS_FAILURE, "out of memory");
    if (s == DIBS_OK) {
        *out = asking;
        return DIBS_OK;
    }
    asking_done(&asking);
    return s == DIBS_INVALID ? err_wrap(err, s, "%smetadata.annotations[%s]", where,
                                        own ? WORKLOAD_KEY_OWN : WORKLOAD_KEY_RBG)
                             : s;
}
