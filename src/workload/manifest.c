/* SPDX-License-Identifier: MIT */
/* Parse a manifest into the model: the group, its roles and the project's settings. */
#include "workload/manifest.h"

#include <string.h>

#include "base/err.h"
#include "codec/json.h"
#include "workload/manifest_value.h"

#include "base/banned.h"

/* Return an argument as written; a number needs no quotes here. */
static const char *argument_of(const yaml_node *node)
{
    return yaml_is_null(node) ? NULL : yaml_string(node);
}

static void read_arguments(struct manifest *m, const yaml_node *list, const char **out)
{
    for (const yaml_node *item = list->first; m->faults.status == DIBS_OK && item; item = item->next, out++) {
        const char *text = argument_of(item);

        if (!text)
            manifest_wrong(m, yaml_follow(item), "command", "a list of texts");
        else if (!*text && item == list->first)
            manifest_fault(m, item, "'command' names no program");
        else
            *out = manifest_copy(m, text);
    }
}

/* Read a command: a list is executed directly, a text by the shell. */
static void read_command(struct manifest *m, const yaml_node *node, struct workload_role *out)
{
    const yaml_node *command = yaml_get(node, "command");
    const yaml_node *list = NULL;

    if (!command)
        return;
    if (command->kind == YAML_LIST)
        list = manifest_list(m, node, "command", 1, WORKLOAD_ARGUMENTS_MAX);
    else if (!yaml_is_text(command))
        manifest_wrong(m, command, "command", "text or a list of texts");
    else if (command->n == 0)
        manifest_fault(m, command, "'command' is empty");
    out->command = manifest_take(m, ((list ? list->n : 3) + 1) * sizeof *out->command);
    if (!out->command)
        return;
    if (list) {
        read_arguments(m, list, out->command);
        return;
    }
    out->command[0] = "/bin/sh";
    out->command[1] = "-c";
    manifest_text(m, node, "command", &out->command[2]);
}

static void read_component(struct manifest *m, const yaml_node *node, struct workload_component *out)
{
    static const char *const keys[] = { "name", "size", "ports", "references", "env", NULL };

    out->place = manifest_place(node);
    out->size = 1;
    manifest_map(m, node, "a component", keys);
    manifest_need(m, node, "a component", "name");
    manifest_text(m, node, "name", &out->name);
    manifest_number(m, node, "size", 0, WORKLOAD_INSTANCES_MAX, &out->size);
    manifest_ports(m, node, out);
    manifest_references(m, node, out);
    manifest_variables(m, node, out);
}

/* Return the first of a component's keys that a role has; NULL: none. */
static const yaml_node *key_of_component(const yaml_node *role)
{
    static const char *const keys[] = { "ports", "references", "env" };
    const yaml_node *found = NULL;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !found; i++)
        found = yaml_key(role, keys[i]);
    return found;
}

/* Read the role's components, or the role itself as its only component. */
static void read_components(struct manifest *m, const yaml_node *node, struct workload_role *out)
{
    const yaml_node *own = key_of_component(node);
    const yaml_node *list = manifest_list(m, node, "components", 1, WORKLOAD_COMPONENTS_MAX);

    if (list && own)
        manifest_fault(m, own, "a role with 'components' has no '%s' of its own", own->text);
    out->components = manifest_take(m, (list ? list->n : 1) * sizeof *out->components);
    if (!out->components)
        return;
    for (const yaml_node *item = list ? list->first : NULL; m->faults.status == DIBS_OK && item;
         item = item->next)
        read_component(m, yaml_follow(item), &out->components[out->n_components++]);
    if (list)
        return;
    out->n_components = 1;
    out->components[0].size = 1;
    out->components[0].place = out->place;
    manifest_ports(m, node, &out->components[0]);
    manifest_references(m, node, &out->components[0]);
    manifest_variables(m, node, &out->components[0]);
}

static void read_role(struct manifest *m, const yaml_node *key, struct workload_role *out)
{
    static const char *const keys[] = { "instances",  "ports", "references", "env",
                                        "components", "cwd",   "command",    NULL };
    const yaml_node *node = yaml_follow(key->value);

    out->place = manifest_place(key);
    out->instances = 1;
    out->name = manifest_copy(m, key->text);
    manifest_map(m, node, "a role", keys);
    manifest_number(m, node, "instances", 0, WORKLOAD_INSTANCES_MAX, &out->instances);
    read_command(m, node, out);
    manifest_directory(m, node, out);
    read_components(m, node, out);
}

static void read_roles(struct manifest *m, const yaml_node *root)
{
    const yaml_node *map = yaml_get(root, "roles");
    struct workload_group *group = m->group;

    if (!map)
        return;
    if (map->kind != YAML_MAP)
        manifest_wrong(m, map, "roles", "a map of roles by name");
    else if (map->n > WORKLOAD_ROLES_MAX)
        manifest_fault(m, map, "%zu roles are too many: at most %d", map->n, WORKLOAD_ROLES_MAX);
    group->roles = manifest_take(m, map->n * sizeof *group->roles);
    for (const yaml_node *key = map->first; m->faults.status == DIBS_OK && key; key = key->next)
        read_role(m, key, &group->roles[group->n_roles++]);
}

static void read_setting(struct manifest *m, const yaml_node *root, dibs_setting setting)
{
    struct workload_group *group = m->group;
    const char *name = dibs_setting_name(setting);
    const yaml_node *key = yaml_key(root, name);

    char place[240];

    if (!key)
        return;
    const yaml_node *node = yaml_follow(key->value);
    const char *value = argument_of(node);
    if (!value)
        manifest_wrong(m, node, name, "a single value");
    else if (!*value || strlen(value) > DIBS_SETTING_VALUE_MAX)
        manifest_fault(m, node, "'%s' must have 1 to %d bytes", name, DIBS_SETTING_VALUE_MAX);
    (void) snprintf(place, sizeof place, "%.200s:%u:%u", group->source, key->line, key->column);
    group->settings[group->n_settings++] =
        (dibs_project_setting){ setting, manifest_copy(m, value ? value : ""), manifest_copy(m, place) };
}

static void read_settings(struct manifest *m, const yaml_node *root)
{
    m->group->settings = manifest_take(m, DIBS_SETTING_COUNT * sizeof *m->group->settings);
    for (int i = 0; m->faults.status == DIBS_OK && i < DIBS_SETTING_COUNT; i++)
        if (dibs_setting_is_for_projects((dibs_setting) i))
            read_setting(m, root, (dibs_setting) i);
}

/* Check the manifest's keys: its own and the project's settings. */
static void check_keys(struct manifest *m, const yaml_node *root)
{
    const char *keys[DIBS_SETTING_COUNT + 3] = { "group", "roles" };
    size_t n = 2;

    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        const char *name = dibs_setting_name((dibs_setting) i);
        const yaml_node *key = yaml_key(root, name);

        if (dibs_setting_is_for_projects((dibs_setting) i))
            keys[n++] = name;
        else if (key && i != DIBS_SET_GROUP)
            manifest_fault(m, key,
                           "a project may not set '%s' for everyone who checks it out; set it "
                           "by flag, by environment or in your own settings",
                           name);
    }
    manifest_map(m, root, "a manifest", keys);
}

static void read_manifest(struct manifest *m)
{
    const yaml_node *root = yaml_root(m->yaml, 0);

    m->group->source = manifest_copy(m, yaml_name(m->yaml));
    if (yaml_count(m->yaml) > 1)
        manifest_fault(m, yaml_root(m->yaml, 1), "a manifest is one document, not several");
    if (!root) /* empty, or only comments */
        return;
    check_keys(m, root);
    manifest_text(m, root, "group", &m->group->name);
    if (m->group->name)
        m->group->place = manifest_place(yaml_get(root, "group"));
    read_settings(m, root);
    read_roles(m, root);
}

/* Check that a .json file is JSON: YAML accepts more, but other tools read the file as JSON. */
static dibs_status check_json(const char *name, const char *text, size_t len, dibs_err *err)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err why = { 0 };
    size_t name_len = strlen(name);
    dibs_status s = DIBS_OK;

    if (name_len >= 5 && strcmp(name + name_len - 5, ".json") == 0)
        s = jsonr_parse(text, len, &doc, &why);
    return s == DIBS_OK ? s : err_set(err, s, "%.200s: %s", name, why.msg);
}

dibs_status workload_manifest_parse(const char *name, const char *text, size_t len,
                                    struct workload_group **out, dibs_err *err)
{
    AUTO(yaml_free_auto) yaml_text *yaml = NULL;
    AUTO(workload_free_auto) struct workload_group *group = workload_new();
    struct manifest m = { .group = group, .faults = { group, DIBS_OK, err } };

    if (!group)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = check_json(name, text, len, err);
    if (s == DIBS_OK)
        s = yaml_parse(name, text, len, &yaml, err);
    if (s != DIBS_OK)
        return s;
    m.yaml = yaml;
    read_manifest(&m);
    s = m.faults.status == DIBS_OK ? workload_check(group, err) : m.faults.status;
    if (s == DIBS_OK)
        *out = TAKE(group);
    return s;
}
