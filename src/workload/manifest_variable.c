/* SPDX-License-Identifier: MIT */
/* Parse `cwd` and the variables of `env`: texts with ports in braces, "postgres://localhost:{pg.sql}/shop".
 * "{{" and "}}" are braces; "${NAME}" stays as it is. */
#include <string.h>

#include "base/err.h"
#include "workload/manifest_value.h"

#include "base/banned.h"

struct reading {
    struct manifest *m;
    const yaml_node *node;
    struct workload_component *component;
    struct workload_variable *out;
    char *literal; /* text read since the last hole */
    size_t n;
};

static void end_literal(struct reading *r)
{
    if (r->n == 0)
        return;
    r->literal[r->n] = '\0';
    const char *text = manifest_copy(r->m, r->literal);
    if (text) /* NULL: without memory, which is a fault */
        r->out->pieces[r->out->n_pieces++].text = text;
    r->n = 0;
}

/* Find what the text in braces is: a port of the pod by its name or variable, or the target of one of its
 * references by that one's variable. */
static bool find_own(const struct workload_component *component, const char *text,
                     struct workload_reference *to)
{
    for (size_t i = 0; i < component->n_ports; i++)
        if (strcmp(component->ports[i].name, text) == 0 || strcmp(component->ports[i].env, text) == 0) {
            *to = (struct workload_reference){ .port = component->ports[i].name, .instance = -1, .pod = -1 };
            return true;
        }
    for (size_t i = 0; i < component->n_references; i++)
        if (strcmp(component->references[i].env, text) == 0) {
            *to = component->references[i];
            return true;
        }
    if (strcmp(text, "PORT") != 0 || component->n_ports == 0)
        return false;
    *to = (struct workload_reference){ .port = component->ports[0].name, .instance = -1, .pod = -1 };
    return true;
}

static void read_hole(struct reading *r, const char *from, size_t n)
{
    struct workload_piece *piece = NULL;
    char name[3 * (WORKLOAD_NAME_MAX + 8)];

    if (n >= sizeof name) {
        manifest_fault(r->m, r->node, "'%s': '{%.40s...' is too long", r->out->env, from);
        return;
    }
    end_literal(r);
    memcpy(name, from, n);
    name[n] = '\0';
    piece = &r->out->pieces[r->out->n_pieces++];
    if (!find_own(r->component, name, &piece->to)) {
        dibs_err why = { 0 };

        if (workload_reference_parse(r->m->group, name, &piece->to, &why) != DIBS_OK)
            manifest_fault(
                r->m, r->node,
                "'%s': '{%.80s}' is neither a port of this role nor ROLE.PORT; a brace itself is '{{'",
                r->out->env, name);
    }
    piece->to.env = r->out->env;
    piece->to.place = manifest_place(r->node);
}

/* Read one character, hole or escape. Return the number of bytes read; 0 after a fault. */
static size_t read_next(struct reading *r, const char *at)
{
    size_t end = strcspn(at, "{}");

    if (strncmp(at, "${", 2) == 0) {
        end = strcspn(at, "}");
        end += at[end] == '}';
    } else if (end > 0) {
        const char *dollar = memchr(at, '$', end);

        end = dollar && dollar > at ? (size_t) (dollar - at) : dollar ? 1 : end;
    } else if (at[0] == at[1]) { /* "{{" or "}}" */
        r->literal[r->n++] = *at;
        return 2;
    } else if (*at == '{' && strchr(at, '}')) {
        end = strcspn(at, "}");
        read_hole(r, at + 1, end - 1);
        return end + 1;
    } else {
        manifest_fault(r->m, r->node, "'%s': '%c' has no '%c'; a brace itself is '%c%c'", r->out->env, *at,
                       *at == '{' ? '}' : '{', *at, *at);
        return 0;
    }
    memcpy(r->literal + r->n, at, end);
    r->n += end;
    return end;
}

static void read_variable(struct manifest *m, const yaml_node *key, struct workload_component *component,
                          struct workload_variable *out)
{
    const yaml_node *value = yaml_follow(key->value);
    const char *text = yaml_is_null(value) ? NULL : yaml_string(value);
    size_t n_holes = 0;

    out->place = manifest_place(key);
    out->env = manifest_copy(m, key->text);
    if (!text) {
        manifest_wrong(m, value, key->text, "a text");
        return;
    }
    if (strlen(text) > WORKLOAD_TEXT_MAX) {
        manifest_fault(m, value, "'%.80s' has more than %d bytes", key->text, WORKLOAD_TEXT_MAX);
        return;
    }
    for (const char *c = text; *c; c++)
        n_holes += *c == '{';
    manifest_count_parts(m, value, n_holes);
    struct reading r = { .m = m, .node = value, .component = component, .out = out };
    r.literal = manifest_take(m, strlen(text) + 1);
    out->pieces = manifest_take(m, (2 * n_holes + 1) * sizeof *out->pieces);
    for (size_t n = 1; r.literal && out->pieces && n > 0 && *text && m->faults.status == DIBS_OK; text += n)
        n = read_next(&r, text);
    if (m->faults.status == DIBS_OK && r.literal)
        end_literal(&r);
}

void manifest_variables(struct manifest *m, const yaml_node *map, struct workload_component *out)
{
    const yaml_node *env = yaml_get(map, "env");

    if (!env)
        return;
    if (env->kind != YAML_MAP) {
        manifest_wrong(m, env, "env", "a map of texts by variable");
        return;
    }
    if (env->n > WORKLOAD_VARIABLES_MAX)
        manifest_fault(m, env, "'env' must have at most %d variables, not %zu", WORKLOAD_VARIABLES_MAX,
                       env->n);
    out->variables = manifest_take(m, (env->n + 1) * sizeof *out->variables);
    for (const yaml_node *key = env->first; key && m->faults.status == DIBS_OK; key = key->next)
        read_variable(m, key, out, &out->variables[out->n_variables++]);
}

void manifest_directory(struct manifest *m, const yaml_node *map, struct workload_role *out)
{
    const yaml_node *cwd = yaml_get(map, "cwd");

    manifest_text(m, map, "cwd", &out->cwd);
    if (out->cwd && (!*out->cwd || strlen(out->cwd) > WORKLOAD_TEXT_MAX))
        manifest_fault(m, cwd, "'cwd' must have 1 to %d bytes", WORKLOAD_TEXT_MAX);
}
