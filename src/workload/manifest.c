/* SPDX-License-Identifier: MIT */
/* A manifest's text into the model: the group, its roles and the project's settings. */
#include "workload/manifest.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "dibs/settings.h"
#include "workload/manifest_value.h"
#include "json/json.h"

#include "base/banned.h"

DEFINE_AUTO(json_doc, json_free)

/* ---- commands ---- */

/* Every argument as it is written; a number needs no quotes here. */
static const char *argument_of(const yaml_node *node)
{
    return yaml_is_null(node) ? NULL : yaml_string(node);
}

static dibs_status read_arguments(const struct manifest *m, const yaml_node *role, const char **out,
                                  dibs_err *err)
{
    const yaml_node *list = yaml_get(role, "command");

    for (const yaml_node *item = list->first; item; item = item->next, out++) {
        const char *text = argument_of(item);

        if (!text)
            return manifest_wrong(m, yaml_follow(item), "command", "a list of texts", err);
        if (!*text && item == list->first)
            return yaml_error(m->yaml, item, err, "'command' names no program");
        *out = workload_text(m->group, text);
        if (!*out)
            return manifest_no_memory(m, err);
    }
    return DIBS_OK;
}

/* A list is run as it is, one text by the shell. */
static dibs_status read_command(const struct manifest *m, const yaml_node *node, struct workload_role *out,
                                dibs_err *err)
{
    const yaml_node *command = yaml_get(node, "command");
    const yaml_node *list = NULL;
    size_t n = 3;

    if (!command)
        return DIBS_OK;
    if (command->kind == YAML_LIST) {
        dibs_status s = manifest_list(m, node, "command",
                                      (struct manifest_limits){ 1, WORKLOAD_ARGUMENTS_MAX }, &list, err);
        if (s != DIBS_OK)
            return s;
        n = list->n;
    } else if (!yaml_is_text(command)) {
        return manifest_wrong(m, command, "command", "text or a list of texts", err);
    } else if (command->n == 0) {
        return yaml_error(m->yaml, command, err, "'command' is empty");
    }
    out->command = workload_take(m->group, (n + 1) * sizeof *out->command);
    if (!out->command)
        return manifest_no_memory(m, err);
    if (list)
        return read_arguments(m, node, out->command, err);
    out->command[0] = "/bin/sh";
    out->command[1] = "-c";
    return manifest_text(m, node, "command", &out->command[2], err);
}

/* ---- roles ---- */

static dibs_status read_component(struct manifest *m, const yaml_node *node, struct workload_component *out,
                                  dibs_err *err)
{
    static const char *const keys[] = { "name", "size", "ports", "references", NULL };
    dibs_status s = manifest_map(m, node, "a component", keys, err);

    out->place = manifest_place(node);
    out->size = 1;
    if (s == DIBS_OK)
        s = manifest_need(m, node, "a component", "name", err);
    if (s == DIBS_OK)
        s = manifest_text(m, node, "name", &out->name, err);
    if (s == DIBS_OK)
        s = manifest_number(m, node, "size", (struct manifest_limits){ 0, WORKLOAD_INSTANCES_MAX },
                            &out->size, err);
    if (s == DIBS_OK)
        s = manifest_ports(m, node, out, err);
    return s == DIBS_OK ? manifest_references(m, node, out, err) : s;
}

/* The role's components, or the one that it is itself. */
static dibs_status read_components(struct manifest *m, const yaml_node *node, struct workload_role *out,
                                   dibs_err *err)
{
    const yaml_node *list = NULL;
    const yaml_node *own = yaml_key(node, yaml_get(node, "ports") ? "ports" : "references");
    dibs_status s = manifest_list(m, node, "components",
                                  (struct manifest_limits){ 1, WORKLOAD_COMPONENTS_MAX }, &list, err);

    if (s != DIBS_OK)
        return s;
    if (list && own)
        return yaml_error(m->yaml, own, err, "a role with 'components' has no '%s' of its own", own->text);
    out->components = workload_take(m->group, (list ? list->n : 1) * sizeof *out->components);
    if (!out->components)
        return manifest_no_memory(m, err);
    for (const yaml_node *item = list ? list->first : NULL; s == DIBS_OK && item; item = item->next)
        s = read_component(m, yaml_follow(item), &out->components[out->n_components++], err);
    if (list)
        return s;
    out->n_components = 1;
    out->components[0].size = 1;
    out->components[0].place = out->place;
    s = manifest_ports(m, node, &out->components[0], err);
    return s == DIBS_OK ? manifest_references(m, node, &out->components[0], err) : s;
}

static dibs_status read_role(struct manifest *m, const yaml_node *key, struct workload_role *out,
                             dibs_err *err)
{
    static const char *const keys[] = { "instances", "ports", "references", "components", "command", NULL };
    const yaml_node *node = yaml_follow(key->value);
    dibs_status s = manifest_map(m, node, "a role", keys, err);

    out->place = manifest_place(key);
    out->instances = 1;
    out->name = workload_text(m->group, key->text);
    if (s == DIBS_OK && !out->name)
        s = manifest_no_memory(m, err);
    if (s == DIBS_OK)
        s = manifest_number(m, node, "instances", (struct manifest_limits){ 0, WORKLOAD_INSTANCES_MAX },
                            &out->instances, err);
    if (s == DIBS_OK)
        s = read_command(m, node, out, err);
    return s == DIBS_OK ? read_components(m, node, out, err) : s;
}

static dibs_status read_roles(struct manifest *m, const yaml_node *root, dibs_err *err)
{
    const yaml_node *map = yaml_get(root, "roles");
    struct workload_group *group = m->group;
    dibs_status s = DIBS_OK;

    if (!map)
        return DIBS_OK;
    if (map->kind != YAML_MAP)
        return manifest_wrong(m, map, "roles", "a map of roles by name", err);
    if (map->n > WORKLOAD_ROLES_MAX)
        return yaml_error(m->yaml, map, err, "%zu roles are too many: at most %d", map->n,
                          WORKLOAD_ROLES_MAX);
    group->roles = workload_take(group, map->n * sizeof *group->roles);
    if (!group->roles)
        return manifest_no_memory(m, err);
    for (const yaml_node *key = map->first; s == DIBS_OK && key; key = key->next)
        s = read_role(m, key, &group->roles[group->n_roles++], err);
    return s;
}

/* ---- settings ---- */

static dibs_status read_setting(const struct manifest *m, const yaml_node *root, dibs_setting setting,
                                dibs_err *err)
{
    struct workload_group *group = m->group;
    const char *name = dibs_setting_name(setting);
    const yaml_node *key = yaml_key(root, name);

    if (!key)
        return DIBS_OK;
    const char *value = argument_of(key->value);
    if (!value)
        return manifest_wrong(m, yaml_follow(key->value), name, "a single value", err);
    if (!*value || strlen(value) > DIBS_SETTING_VALUE_MAX)
        return yaml_error(m->yaml, yaml_follow(key->value), err, "'%s' must have 1 to %d bytes", name,
                          DIBS_SETTING_VALUE_MAX);
    char *copy = workload_text(group, value);
    if (!copy)
        return manifest_no_memory(m, err);
    group->settings[group->n_settings++] =
        (struct workload_setting){ .setting = setting, .value = copy, .place = manifest_place(key) };
    return DIBS_OK;
}

static dibs_status read_settings(const struct manifest *m, const yaml_node *root, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    m->group->settings = workload_take(m->group, DIBS_SETTING_COUNT * sizeof *m->group->settings);
    if (!m->group->settings)
        return manifest_no_memory(m, err);
    for (int i = 0; s == DIBS_OK && i < DIBS_SETTING_COUNT; i++)
        if (dibs_setting_is_for_projects((dibs_setting) i))
            s = read_setting(m, root, (dibs_setting) i, err);
    return s;
}

/* ---- the whole ---- */

/* The keys of a manifest: its own, and the settings that a project may give. */
static dibs_status check_keys(const struct manifest *m, const yaml_node *root, dibs_err *err)
{
    const char *keys[DIBS_SETTING_COUNT + 3] = { "group", "roles" };
    size_t n = 2;

    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        const char *name = dibs_setting_name((dibs_setting) i);
        const yaml_node *key = root->kind == YAML_MAP ? yaml_key(root, name) : NULL;

        if (dibs_setting_is_for_projects((dibs_setting) i))
            keys[n++] = name;
        else if (key && i != DIBS_SET_GROUP)
            return yaml_error(m->yaml, key, err,
                              "a project may not set '%s': whoever checks it out would be led astray; set it "
                              "by flag, by environment or in your own settings",
                              name);
    }
    return manifest_map(m, root, "a manifest", keys, err);
}

static dibs_status read_manifest(struct manifest *m, dibs_err *err)
{
    const yaml_node *root = yaml_root(m->yaml, 0);
    dibs_status s = DIBS_OK;

    if (yaml_count(m->yaml) > 1)
        return yaml_error(m->yaml, yaml_root(m->yaml, 1), err, "a manifest is one document, not several");
    if (!root) /* empty, or only comments */
        return DIBS_OK;
    s = check_keys(m, root, err);
    if (s == DIBS_OK)
        s = manifest_text(m, root, "group", &m->group->name, err);
    if (s == DIBS_OK && m->group->name)
        m->group->place = manifest_place(yaml_get(root, "group"));
    if (s == DIBS_OK)
        s = read_settings(m, root, err);
    if (s == DIBS_OK)
        s = read_roles(m, root, err);
    return s;
}

/* YAML takes nearly all of JSON and much more; what is called JSON is read by others as that. */
static dibs_status check_json(const char *name, const char *text, size_t len, dibs_err *err)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    char shown[200];
    dibs_err why = { 0 };
    size_t name_len = strlen(name);
    dibs_status s = DIBS_OK;

    if (name_len >= 5 && strcmp(name + name_len - 5, ".json") == 0)
        s = json_parse(text, len, &doc, &why);
    return s == DIBS_OK ? s : err_set(err, s, "%s: %s", text_safe(name, shown, sizeof shown), why.msg);
}

dibs_status workload_manifest_parse(const char *name, const char *text, size_t len,
                                    struct workload_group **out, dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    AUTO(workload_free_auto) struct workload_group *group = workload_new();
    struct manifest m = { .group = group };

    if (!group)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = check_json(name, text, len, err);
    if (s == DIBS_OK)
        s = yaml_parse(name, text, len, &yaml, err);
    if (s != DIBS_OK)
        return s;
    m.yaml = yaml;
    group->source = workload_text(group, yaml_name(yaml));
    s = group->source ? read_manifest(&m, err) : manifest_no_memory(&m, err);
    if (s == DIBS_OK)
        s = workload_check(group, err);
    if (s == DIBS_OK)
        *out = TAKE(group);
    return s;
}
