/* SPDX-License-Identifier: MIT */
/* Is a group whole? What no reader can see by looking at one value, and every bound, whoever filled the model
 * (INV-9). */
#include <string.h>

#include "base/err.h"
#include "base/near.h"
#include "base/text.h"
#include "net/bindings.h"
#include "workload/workload.h"

#include "base/banned.h"

enum { SHOWN = 80 };

/* Where we are, for messages and for what counts over the whole group. */
struct walk {
    const struct workload_group *group;
    const struct workload_role *role;
    const struct workload_component *component;
    uint64_t n_parts;  /* ports and references so far */
    uint64_t n_claims; /* so far */
};

/* ---- single values ---- */

static dibs_status check_text(const struct walk *w, struct workload_place place, const char *what,
                              const char *text, size_t max, dibs_err *err)
{
    char shown[SHOWN];
    size_t len = text ? strnlen(text, max + 1) : 0;

    if (len == 0)
        return workload_error(w->group, place, err, "%s is empty", what);
    if (len > max)
        return workload_error(w->group, place, err, "%s '%s' has more than %zu bytes", what,
                              text_safe(text, shown, sizeof shown), max);
    for (size_t i = 0, step = 0; i < len; i += step) {
        unsigned char c = (unsigned char) text[i];

        step = text_utf8_length(text + i, len - i);
        if (step == 0 || c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char) text[i + 1] < 0xa0))
            return workload_error(w->group, place, err, "%s '%s' has a control character or is not UTF-8",
                                  what, text_safe(text, shown, sizeof shown));
    }
    return DIBS_OK;
}

static dibs_status check_env(const struct walk *w, struct workload_place place, const char *env,
                             dibs_err *err)
{
    char shown[SHOWN];
    dibs_status s = check_text(w, place, "env", env, WORKLOAD_ENV_MAX, err);

    if (s != DIBS_OK || workload_is_env_name(env))
        return s;
    return workload_error(w->group, place, err,
                          "env '%s' is no name of a variable: letters, digits and '_', no digit first",
                          text_safe(env, shown, sizeof shown));
}

static dibs_status check_most(const struct walk *w, struct workload_place place, const char *what,
                              uint64_t has, uint64_t max, dibs_err *err)
{
    if (has <= max)
        return DIBS_OK;
    return workload_error(w->group, place, err, "%llu %s are too many: at most %llu",
                          (unsigned long long) has, what, (unsigned long long) max);
}

/* Ports or pods of one name. */
struct several {
    const char *what, *name;
    uint32_t count;
};

/* Is `name` what the second or a later one is called, "http.1" of "http"? */
static bool is_one_of(const char *name, const struct several *all)
{
    size_t len = strlen(all->name);
    uint64_t number = 0;

    return all->count > 1 && strncmp(name, all->name, len) == 0 && name[len] == '.' && name[len + 1] != '0' &&
           text_number(name + len + 1, strlen(name + len + 1), all->count - 1, &number);
}

/* Their claims' names differ ("http%2E1"), but whoever types or reads "http.1" could mean either. */
static dibs_status check_several(const struct walk *w, struct workload_place place, const struct several *a,
                                 const struct several *b, dibs_err *err)
{
    bool is_a = is_one_of(a->name, b);
    char shown[SHOWN];
    char of[SHOWN];

    if (!is_a && !is_one_of(b->name, a))
        return DIBS_OK;
    return workload_error(w->group, place, err, "%s '%s' is also what one of the %u of '%s' is called",
                          a->what, text_safe(is_a ? a->name : b->name, shown, sizeof shown),
                          is_a ? b->count : a->count, text_safe(is_a ? b->name : a->name, of, sizeof of));
}

/* ---- ports ---- */

/* How many pods of the component there are, each with its own claim of a PodScoped port. */
static uint64_t pods_of(const struct walk *w)
{
    return (uint64_t) w->role->instances * w->component->size;
}

static dibs_status check_number(const struct walk *w, const struct workload_port *port, dibs_err *err)
{
    char shown[SHOWN];
    const char *name = text_safe(port->name, shown, sizeof shown);

    if (port->mode == DIBS_RANDOM)
        return DIBS_OK;
    if (port->port == 0)
        return workload_error(w->group, port->place, err, "port '%s': its number must be 1 to %d", name,
                              DIBS_PORT_MAX);
    if (port->is_contiguous)
        return workload_error(w->group, port->place, err,
                              "port '%s': a contiguous block is placed by dibs, it cannot name a number",
                              name);
    if (port->mode != DIBS_REQUIRED)
        return DIBS_OK;
    if (port->count > 1)
        return workload_error(w->group, port->place, err,
                              "port '%s': the number %u cannot be %u ports; use 'prefer', or no 'count'",
                              name, port->port, port->count);
    if (port->scope == WORKLOAD_POD_SCOPED && pods_of(w) > 1)
        return workload_error(w->group, port->place, err,
                              "port '%s': the number %u cannot be each of %llu pods' own; use 'prefer', or "
                              "the scope RoleScoped",
                              name, port->port, (unsigned long long) pods_of(w));
    return DIBS_OK;
}

static dibs_status check_count(const struct walk *w, const struct workload_port *port, dibs_err *err)
{
    char shown[SHOWN];
    const char *name = text_safe(port->name, shown, sizeof shown);

    if (port->count == 0 || port->count > WORKLOAD_COUNT_MAX)
        return workload_error(w->group, port->place, err, "port '%s': 'count' must be 1 to %d", name,
                              WORKLOAD_COUNT_MAX);
    if (port->is_contiguous && port->count == 1)
        return workload_error(w->group, port->place, err,
                              "port '%s': 'contiguous' needs a 'count' of 2 or more", name);
    return DIBS_OK;
}

/* Is this one's name, variable or annotation an earlier port's? */
static dibs_status check_twice(const struct walk *w, const struct workload_port *port, dibs_err *err)
{
    char shown[SHOWN];

    for (const struct workload_port *other = w->component->ports; other < port; other++) {
        const char *what = NULL;
        const char *text = NULL;

        if (strcmp(other->name, port->name) == 0)
            what = "port", text = port->name;
        else if (strcmp(other->env, port->env) == 0)
            what = "env", text = port->env;
        else if (other->annotation && port->annotation && strcmp(other->annotation, port->annotation) == 0)
            what = "annotation", text = port->annotation;
        if (what)
            return workload_error(w->group, port->place, err, "%s '%s' is there twice in one pod", what,
                                  text_safe(text, shown, sizeof shown));
        dibs_status s = check_several(w, port->place, &(struct several){ "port", port->name, port->count },
                                      &(struct several){ "port", other->name, other->count }, err);
        if (s != DIBS_OK)
            return s;
    }
    return DIBS_OK;
}

static dibs_status check_port(struct walk *w, const struct workload_port *port, dibs_err *err)
{
    dibs_status s = check_text(w, port->place, "name of a port", port->name, WORKLOAD_NAME_MAX, err);

    if (s == DIBS_OK)
        s = check_env(w, port->place, port->env, err);
    if (s == DIBS_OK && port->annotation)
        s = check_text(w, port->place, "annotation", port->annotation, WORKLOAD_ANNOTATION_MAX, err);
    if (s == DIBS_OK)
        s = check_count(w, port, err);
    if (s == DIBS_OK)
        s = check_number(w, port, err);
    if (s == DIBS_OK)
        s = check_most(w, port->place, "bindings", port->n_bindings, DIBS_BINDINGS_MAX, err);
    if (s == DIBS_OK)
        s = check_twice(w, port, err);
    if (s != DIBS_OK)
        return s;
    w->n_claims += port->count * (port->scope == WORKLOAD_ROLE_SCOPED ? 1 : pods_of(w));
    return check_most(w, port->place, "claims of the group, counted up to here,", w->n_claims, DIBS_BATCH_MAX,
                      err);
}

/* ---- references ---- */

/* "no port 'htp' in role 'api'; did you mean 'http'?" */
static dibs_status not_there(const struct walk *w, const struct workload_reference *reference,
                             const char *what, const struct near *best, dibs_err *err)
{
    char wanted[SHOWN];
    char role[SHOWN];
    char hint[NEAR_HINT_MAX];
    const struct workload_role *at = workload_role(w->group, reference->role);

    return workload_error(w->group, reference->place, err, "no %s '%s'%s%s%s%s", what,
                          text_safe(best->wanted, wanted, sizeof wanted), at ? " in role '" : "",
                          at ? text_safe(reference->role, role, sizeof role) : "", at ? "'" : "",
                          near_say(best, hint, sizeof hint));
}

static dibs_status no_role(const struct walk *w, const struct workload_reference *reference, dibs_err *err)
{
    struct near best = { .wanted = reference->role };

    for (size_t i = 0; i < w->group->n_roles; i++)
        near_offer(&best, w->group->roles[i].name);
    return not_there(w, reference, "role", &best, err);
}

static dibs_status no_component(const struct walk *w, const struct workload_reference *reference,
                                const struct workload_role *role, dibs_err *err)
{
    char shown[SHOWN];
    char port[SHOWN];
    struct near best = { .wanted = reference->component };

    if (!reference->component)
        return workload_error(
            w->group, reference->place, err, "role '%s' has components: say whose port '%s' is meant",
            text_safe(role->name, shown, sizeof shown), text_safe(reference->port, port, sizeof port));
    for (size_t i = 0; i < role->n_components; i++)
        if (role->components[i].name)
            near_offer(&best, role->components[i].name);
    return not_there(w, reference, "component", &best, err);
}

static dibs_status no_port(const struct walk *w, const struct workload_reference *reference,
                           const struct workload_component *component, dibs_err *err)
{
    struct near best = { .wanted = reference->port };

    for (size_t i = 0; i < component->n_ports; i++)
        near_offer(&best, component->ports[i].name);
    return not_there(w, reference, "port", &best, err);
}

/* Does the pod exist that is meant? A RoleScoped port belongs to none, and a role that is scaled to zero asks
 * for nothing. */
static dibs_status check_index(const struct walk *w, const struct workload_reference *reference,
                               const struct workload_role *role, const struct workload_component *component,
                               const struct workload_port *port, dibs_err *err)
{
    char shown[SHOWN];
    bool is_said = reference->instance >= 0 || reference->pod >= 0;
    bool is_own = role == w->role && reference->instance < 0;
    uint32_t instance = reference->instance < 0 ? 0 : (uint32_t) reference->instance;
    uint32_t pod = reference->pod < 0 ? 0 : (uint32_t) reference->pod;
    const char *name = text_safe(role->name, shown, sizeof shown);

    if (w->role->instances == 0 || (port->scope == WORKLOAD_ROLE_SCOPED && !is_said))
        return DIBS_OK;
    if (!is_own && instance >= role->instances)
        return workload_error(w->group, reference->place, err,
                              "role '%s' has %u instance%s, counted from 0: none is %u", name,
                              role->instances, role->instances == 1 ? "" : "s", instance);
    if (pod >= component->size)
        return workload_error(w->group, reference->place, err,
                              "an instance of role '%s' has %u such pod%s, counted from 0: none is %u", name,
                              component->size, component->size == 1 ? "" : "s", pod);
    return DIBS_OK;
}

static dibs_status check_target(const struct walk *w, const struct workload_reference *reference,
                                dibs_err *err)
{
    const struct workload_role *role = workload_role(w->group, reference->role);

    if (!role)
        return no_role(w, reference, err);
    const struct workload_component *component = workload_component(role, reference->component);
    if (!component)
        return no_component(w, reference, role, err);
    const struct workload_port *port = workload_port(component, reference->port);
    if (!port)
        return no_port(w, reference, component, err);
    return check_index(w, reference, role, component, port, err);
}

dibs_status workload_check_target(const struct workload_group *group, const struct workload_role *from,
                                  const struct workload_reference *reference, dibs_err *err)
{
    return check_target(&(struct walk){ .group = group, .role = from }, reference, err);
}

static dibs_status check_reference(const struct walk *w, const struct workload_reference *reference,
                                   dibs_err *err)
{
    char shown[SHOWN];
    bool is_twice = false;
    dibs_status s = check_env(w, reference->place, reference->env, err);

    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < w->component->n_ports; i++)
        is_twice = is_twice || strcmp(w->component->ports[i].env, reference->env) == 0;
    for (const struct workload_reference *other = w->component->references; other < reference; other++)
        is_twice = is_twice || strcmp(other->env, reference->env) == 0;
    if (is_twice)
        return workload_error(w->group, reference->place, err, "env '%s' is there twice in one pod",
                              text_safe(reference->env, shown, sizeof shown));
    return check_target(w, reference, err);
}

/* ---- the whole ---- */

static dibs_status check_component(struct walk *w, dibs_err *err)
{
    const struct workload_component *component = w->component;
    char shown[SHOWN];
    dibs_status s =
        check_most(w, component->place, "pods of an instance", component->size, WORKLOAD_INSTANCES_MAX, err);

    if (s == DIBS_OK && (component->name || w->role->n_components > 1))
        s = check_text(w, component->place, "name of a component", component->name, WORKLOAD_NAME_MAX, err);
    if (s == DIBS_OK)
        s = check_most(w, component->place, "ports", component->n_ports, WORKLOAD_PORTS_MAX, err);
    if (s == DIBS_OK)
        s = check_most(w, component->place, "references", component->n_references, WORKLOAD_REFERENCES_MAX,
                       err);
    for (const struct workload_component *other = w->role->components; s == DIBS_OK && other < component;
         other++) {
        s = check_several(w, component->place,
                          &(struct several){ "component", component->name, component->size },
                          &(struct several){ "component", other->name, other->size }, err);
        if (strcmp(other->name, component->name) == 0)
            s = workload_error(w->group, component->place, err, "component '%s' is there twice",
                               text_safe(component->name, shown, sizeof shown));
    }
    w->n_parts += component->n_ports + component->n_references;
    if (s == DIBS_OK)
        s = check_most(w, component->place, "ports and references of the group, counted up to here,",
                       w->n_parts, WORKLOAD_PARTS_MAX, err);
    for (size_t i = 0; s == DIBS_OK && i < component->n_ports; i++)
        s = check_port(w, &component->ports[i], err);
    return s;
}

static dibs_status check_role(struct walk *w, dibs_err *err)
{
    const struct workload_role *role = w->role;
    char shown[SHOWN];
    dibs_status s = check_text(w, role->place, "name of a role", role->name, WORKLOAD_NAME_MAX, err);

    if (s == DIBS_OK && workload_role(w->group, role->name) != role)
        s = workload_error(w->group, role->place, err, "role '%s' is there twice",
                           text_safe(role->name, shown, sizeof shown));
    if (s == DIBS_OK)
        s = check_most(w, role->place, "instances", role->instances, WORKLOAD_INSTANCES_MAX, err);
    if (s == DIBS_OK)
        s = check_most(w, role->place, "components", role->n_components, WORKLOAD_COMPONENTS_MAX, err);
    for (size_t i = 0; s == DIBS_OK && i < role->n_components; i++) {
        w->component = &role->components[i];
        s = check_component(w, err);
    }
    return s;
}

/* After all names are known to be sound. */
static dibs_status check_references(struct walk *w, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; s == DIBS_OK && i < w->role->n_components; i++) {
        w->component = &w->role->components[i];
        for (size_t k = 0; s == DIBS_OK && k < w->component->n_references; k++)
            s = check_reference(w, &w->component->references[k], err);
    }
    return s;
}

/* ---- numbers ---- */

/* A port that names its number, and whose it is. */
struct numbered {
    const struct workload_port *port;
    const struct workload_role *role;
};

static int by_number(const void *a, const void *b)
{
    const struct workload_port *x = ((const struct numbered *) a)->port;
    const struct workload_port *y = ((const struct numbered *) b)->port;

    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    if (x->place.line != y->place.line)
        return x->place.line < y->place.line ? -1 : 1;
    return x->place.column < y->place.column ? -1 : x->place.column > y->place.column;
}

static dibs_status check_pair(const struct walk *w, const struct numbered *first,
                              const struct numbered *second, dibs_err *err)
{
    size_t n_first = 0;
    size_t n_second = 0;
    const dibs_binding *of_first = workload_bindings(first->port, &n_first);
    const dibs_binding *of_second = workload_bindings(second->port, &n_second);
    char name[SHOWN];
    char other[SHOWN];
    char role[SHOWN];

    if (!bindings_conflict(of_first, n_first, of_second, n_second))
        return DIBS_OK;
    return workload_error(w->group, second->port->place, err,
                          "port '%s': the number %u is that of port '%s' of role '%s' already, at %u:%u",
                          text_safe(second->port->name, name, sizeof name), second->port->port,
                          text_safe(first->port->name, other, sizeof other),
                          text_safe(first->role->name, role, sizeof role), first->port->place.line,
                          first->port->place.column);
}

/* All that a role's pods, if there are any, need by number. */
static size_t take_numbers(const struct workload_role *role, struct numbered *out)
{
    size_t n = 0;

    for (size_t c = 0; c < role->n_components; c++)
        for (size_t p = 0; p < role->components[c].n_ports; p++) {
            const struct workload_port *port = &role->components[c].ports[p];
            bool is_there =
                port->scope == WORKLOAD_ROLE_SCOPED || (role->instances > 0 && role->components[c].size > 0);

            if (port->mode == DIBS_REQUIRED && is_there)
                out[n++] = (struct numbered){ port, role };
        }
    return n;
}

/* No two ports can have one number where their bindings conflict. */
static dibs_status check_numbers(const struct walk *w, dibs_err *err)
{
    AUTO(free_auto) struct numbered *all = calloc(w->n_parts + 1, sizeof *all);
    size_t n = 0;
    dibs_status s = DIBS_OK;

    if (!all)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < w->group->n_roles; i++)
        n += take_numbers(&w->group->roles[i], all + n);
    qsort(all, n, sizeof *all, by_number);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n && all[k].port->port == all[i].port->port && s == DIBS_OK; k++)
            s = check_pair(w, &all[i], &all[k], err);
    return s;
}

dibs_status workload_check(const struct workload_group *group, dibs_err *err)
{
    struct walk w = { .group = group };
    struct workload_place nowhere = { 0 };
    dibs_status s = check_most(&w, nowhere, "roles", group->n_roles, WORKLOAD_ROLES_MAX, err);

    if (s == DIBS_OK && group->name)
        s = check_text(&w, group->place, "name of the group", group->name, WORKLOAD_NAME_MAX, err);
    for (size_t i = 0; s == DIBS_OK && i < group->n_roles; i++) {
        w.role = &group->roles[i];
        s = check_role(&w, err);
    }
    for (size_t i = 0; s == DIBS_OK && i < group->n_roles; i++) {
        w.role = &group->roles[i];
        s = check_references(&w, err);
    }
    return s == DIBS_OK ? check_numbers(&w, err) : s;
}
