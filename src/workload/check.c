/* SPDX-License-Identifier: MIT */
/* Check a complete group: relations between values, and every bound, for any reader (INV-9). */
#include <string.h>

#include "base/err.h"
#include "base/suggest.h"
#include "base/text.h"
#include "net/bindings.h"
#include "workload/workload.h"

#include "base/banned.h"

/* Current position, for messages, and totals of the group. */
struct walk {
    const struct workload_group *group;
    const struct workload_role *role;
    const struct workload_component *component;
    uint64_t n_parts;  /* ports and references so far */
    uint64_t n_claims; /* so far */
    struct workload_faults faults;
};
#define fault(w, ...) workload_fault(&(w)->faults, __VA_ARGS__)

static bool is_good(const struct walk *w)
{
    return w->faults.status == DIBS_OK;
}

/* ---- values ---- */

static void check_text(struct walk *w, struct workload_place place, const char *what, const char *text,
                       size_t max)
{
    size_t len = text ? strnlen(text, max + 1) : 0;

    if (len == 0)
        fault(w, place, "%s is empty", what);
    if (len > max)
        fault(w, place, "%s '%.80s' has more than %zu bytes", what, text, max);
    for (size_t i = 0, step = 0; i < len && is_good(w); i += step) {
        unsigned char c = (unsigned char) text[i];

        step = text_utf8_length(text + i, len - i);
        if (step == 0 || c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char) text[i + 1] < 0xa0))
            fault(w, place, "%s '%.80s' has a control character or is not UTF-8", what, text);
    }
}

/* Check a variable; `what`: what it would be, "a port". */
static void check_env(struct walk *w, struct workload_place place, const char *env, const char *what)
{
    check_text(w, place, "env", env, WORKLOAD_ENV_MAX);
    if (is_good(w) && !workload_is_env_name(env))
        fault(w, place, "env '%.80s' is no name of a variable: letters, digits and '_', no digit first", env);
    if (is_good(w) && workload_env_danger(env))
        fault(w, place, "env '%s' cannot be %s: %s reads that variable; choose another name", env, what,
              workload_env_danger(env));
}

static void check_most(struct walk *w, struct workload_place place, const char *what, uint64_t has,
                       uint64_t max)
{
    if (has > max)
        fault(w, place, "%llu %s are too many: at most %llu", (unsigned long long) has, what,
              (unsigned long long) max);
}

/* Several ports or pods of one name. */
struct several {
    const char *what, *name;
    uint32_t count;
};

/* Return whether `name` is that of the second or a later one: "http.1" of "http". */
static bool is_one_of(const char *name, const struct several *all)
{
    size_t len = strlen(all->name);
    uint64_t number = 0;

    return all->count > 1 && strncmp(name, all->name, len) == 0 && name[len] == '.' && name[len + 1] != '0' &&
           text_number(name + len + 1, strlen(name + len + 1), all->count - 1, &number);
}

/* Refuse an ambiguous name: claim names differ ("http%2E1"), but a typed "http.1" could mean either. */
static void check_several(struct walk *w, struct workload_place place, const struct several *a,
                          const struct several *b)
{
    bool is_a = is_one_of(a->name, b);

    if (is_a || is_one_of(b->name, a))
        fault(w, place, "%s '%.80s' is also what one of the %u of '%.80s' is called", a->what,
              is_a ? a->name : b->name, is_a ? b->count : a->count, is_a ? b->name : a->name);
}

/* ---- ports ---- */

/* Return the component's number of pods, each with its own claim of a PodScoped port. */
static uint64_t pods_of(const struct walk *w)
{
    return (uint64_t) w->role->instances * w->component->size;
}

static void check_number(struct walk *w, const struct workload_port *port)
{
    bool is_required = port->mode == DIBS_REQUIRED;

    if (port->mode == DIBS_RANDOM)
        return;
    if (port->port == 0)
        fault(w, port->place, "port '%.80s': its number must be 1 to %d", port->name, DIBS_PORT_MAX);
    if (port->is_contiguous)
        fault(w, port->place, "port '%.80s': a contiguous block is placed by dibs, it cannot name a number",
              port->name);
    if (is_required && port->count > 1)
        fault(w, port->place, "port '%.80s': the number %u cannot be %u ports; use 'prefer', or no 'count'",
              port->name, port->port, port->count);
    if (is_required && port->scope == WORKLOAD_POD_SCOPED && pods_of(w) > 1)
        fault(w, port->place,
              "port '%.80s': the number %u cannot be each of %llu pods' own; use 'prefer', or the scope "
              "RoleScoped",
              port->name, port->port, (unsigned long long) pods_of(w));
}

/* Refuse a name, variable or annotation of an earlier port. */
static void check_twice(struct walk *w, const struct workload_port *port)
{
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
            fault(w, port->place, "%s '%.80s' is there twice in one pod", what, text);
        check_several(w, port->place, &(struct several){ "port", port->name, port->count },
                      &(struct several){ "port", other->name, other->count });
    }
}

static void check_port(struct walk *w, const struct workload_port *port)
{
    check_text(w, port->place, "name of a port", port->name, WORKLOAD_NAME_MAX);
    check_env(w, port->place, port->env, "a port");
    if (port->annotation)
        check_text(w, port->place, "annotation", port->annotation, WORKLOAD_ANNOTATION_MAX);
    if (!is_good(w))
        return;
    if (port->count == 0 || port->count > WORKLOAD_COUNT_MAX)
        fault(w, port->place, "port '%.80s': 'count' must be 1 to %d", port->name, WORKLOAD_COUNT_MAX);
    if (port->is_contiguous && port->count == 1)
        fault(w, port->place, "port '%.80s': 'contiguous' needs a 'count' of 2 or more", port->name);
    check_number(w, port);
    check_most(w, port->place, "bindings", port->n_bindings, DIBS_BINDINGS_MAX);
    check_twice(w, port);
    w->n_claims += port->count * (port->scope == WORKLOAD_ROLE_SCOPED ? 1 : pods_of(w));
    check_most(w, port->place, "claims of the group, counted up to here,", w->n_claims, DIBS_BATCH_MAX);
}

/* ---- references ---- */

/* Check that the referenced pod exists, unless the port is RoleScoped or the role scaled to zero. */
static void check_index(struct walk *w, const struct workload_reference *reference,
                        const struct workload_role *role, const struct workload_component *component,
                        const struct workload_port *port)
{
    bool is_said = reference->instance >= 0 || reference->pod >= 0;
    bool is_own = role == w->role && reference->instance < 0;
    uint32_t instance = reference->instance < 0 ? 0 : (uint32_t) reference->instance;
    uint32_t pod = reference->pod < 0 ? 0 : (uint32_t) reference->pod;

    if (w->role->instances == 0 || (port->scope == WORKLOAD_ROLE_SCOPED && !is_said))
        return;
    if (!is_own && instance >= role->instances)
        fault(w, reference->place, "role '%.80s' has %u instance%s, counted from 0: none is %u", role->name,
              role->instances, role->instances == 1 ? "" : "s", instance);
    if (pod >= component->size)
        fault(w, reference->place,
              "an instance of role '%.80s' has %u such pod%s, counted from 0: none is %u", role->name,
              component->size, component->size == 1 ? "" : "s", pod);
}

/* Report a missing target: "no port 'htp' in role 'api'; did you mean 'http'?" */
static void check_target(struct walk *w, const struct workload_reference *reference)
{
    const struct workload_role *role = workload_role(w->group, reference->role);
    const struct workload_component *component = role ? workload_component(role, reference->component) : NULL;
    const struct workload_port *port = component ? workload_port(component, reference->port) : NULL;
    const char *what = component ? "port" : role ? "component" : "role";
    struct suggest best = { .wanted = component ? reference->port
                                      : role    ? reference->component
                                                : reference->role };
    char hint[SUGGEST_HINT_MAX];

    if (port) {
        check_index(w, reference, role, component, port);
        return;
    }
    if (role && !best.wanted) {
        fault(w, reference->place, "role '%.80s' has components: say whose port '%.80s' is meant", role->name,
              reference->port);
        return;
    }
    for (size_t i = 0; component && i < component->n_ports; i++)
        suggest_offer(&best, component->ports[i].name);
    for (size_t i = 0; role && !component && i < role->n_components; i++)
        if (role->components[i].name)
            suggest_offer(&best, role->components[i].name);
    for (size_t i = 0; !role && i < w->group->n_roles; i++)
        suggest_offer(&best, w->group->roles[i].name);
    fault(w, reference->place, "no %s '%.80s'%s%.80s%s%s", what, best.wanted, role ? " in role '" : "",
          role ? reference->role : "", role ? "'" : "", suggest_format(&best, hint, sizeof hint));
}

dibs_status workload_check_target(const struct workload_group *group, const struct workload_role *from,
                                  const struct workload_reference *reference, dibs_err *err)
{
    struct walk w = { .group = group, .role = from, .faults = { group, DIBS_OK, err } };

    check_target(&w, reference);
    return w.faults.status;
}

static void check_reference(struct walk *w, const struct workload_reference *reference)
{
    bool is_twice = false;

    check_env(w, reference->place, reference->env, "a port");
    if (!is_good(w))
        return;
    for (size_t i = 0; i < w->component->n_ports; i++)
        is_twice = is_twice || strcmp(w->component->ports[i].env, reference->env) == 0;
    for (const struct workload_reference *other = w->component->references; other < reference; other++)
        is_twice = is_twice || strcmp(other->env, reference->env) == 0;
    if (is_twice)
        fault(w, reference->place, "env '%.80s' is there twice in one pod", reference->env);
    check_target(w, reference);
}

/* ---- variables ---- */

static void check_variable(struct walk *w, const struct workload_variable *variable)
{
    const struct workload_component *component = w->component;
    bool is_twice = false;

    check_env(w, variable->place, variable->env, "set for a command");
    for (size_t i = 0; i < component->n_ports; i++)
        is_twice = is_twice || strcmp(component->ports[i].env, variable->env) == 0;
    for (size_t i = 0; i < component->n_references; i++)
        is_twice = is_twice || strcmp(component->references[i].env, variable->env) == 0;
    for (const struct workload_variable *other = component->variables; other < variable; other++)
        is_twice = is_twice || strcmp(other->env, variable->env) == 0;
    if (is_twice)
        fault(w, variable->place, "env '%.80s' is there twice in one pod", variable->env);
    for (size_t i = 0; i < variable->n_pieces && is_good(w); i++) {
        const struct workload_piece *piece = &variable->pieces[i];

        if (!piece->text && piece->to.role)
            check_target(w, &piece->to);
        else if (piece->text)
            check_text(w, variable->place, "text of a variable", piece->text, WORKLOAD_TEXT_MAX);
    }
}

/* ---- group ---- */

static void check_component(struct walk *w)
{
    const struct workload_component *component = w->component;

    check_most(w, component->place, "pods of an instance", component->size, WORKLOAD_INSTANCES_MAX);
    if (component->name || w->role->n_components > 1)
        check_text(w, component->place, "name of a component", component->name, WORKLOAD_NAME_MAX);
    check_most(w, component->place, "ports", component->n_ports, WORKLOAD_PORTS_MAX);
    check_most(w, component->place, "references", component->n_references, WORKLOAD_REFERENCES_MAX);
    check_most(w, component->place, "variables", component->n_variables, WORKLOAD_VARIABLES_MAX);
    for (const struct workload_component *other = w->role->components;
         is_good(w) && component->name && other < component; other++) {
        if (strcmp(other->name, component->name) == 0)
            fault(w, component->place, "component '%.80s' is there twice", component->name);
        check_several(w, component->place, &(struct several){ "component", component->name, component->size },
                      &(struct several){ "component", other->name, other->size });
    }
    w->n_parts += component->n_ports + component->n_references;
    check_most(w, component->place, "ports and references of the group, counted up to here,", w->n_parts,
               WORKLOAD_PARTS_MAX);
    for (size_t i = 0; is_good(w) && i < component->n_ports; i++)
        check_port(w, &component->ports[i]);
}

static void check_role(struct walk *w)
{
    const struct workload_role *role = w->role;

    check_text(w, role->place, "name of a role", role->name, WORKLOAD_NAME_MAX);
    if (is_good(w) && workload_role(w->group, role->name) != role)
        fault(w, role->place, "role '%.80s' is there twice", role->name);
    check_most(w, role->place, "instances", role->instances, WORKLOAD_INSTANCES_MAX);
    if (role->cwd)
        check_text(w, role->place, "cwd", role->cwd, WORKLOAD_TEXT_MAX);
    check_most(w, role->place, "components", role->n_components, WORKLOAD_COMPONENTS_MAX);
    for (size_t i = 0; is_good(w) && i < role->n_components; i++) {
        w->component = &role->components[i];
        check_component(w);
    }
}

/* Check the references, after all names. */
static void check_references(struct walk *w)
{
    for (size_t i = 0; i < w->role->n_components; i++) {
        w->component = &w->role->components[i];
        for (size_t k = 0; is_good(w) && k < w->component->n_references; k++)
            check_reference(w, &w->component->references[k]);
        for (size_t k = 0; is_good(w) && k < w->component->n_variables; k++)
            check_variable(w, &w->component->variables[k]);
    }
}

/* ---- numbers ---- */

/* A port with a required number, and its owner. */
struct numbered {
    const struct workload_port *port;
    const struct workload_role *role;
};

static void check_pair(struct walk *w, const struct numbered *first, const struct numbered *second)
{
    size_t n_first = 0;
    size_t n_second = 0;
    const dibs_binding *of_first = workload_bindings(first->port, &n_first);
    const dibs_binding *of_second = workload_bindings(second->port, &n_second);

    if (bindings_conflict(of_first, n_first, of_second, n_second))
        fault(w, second->port->place,
              "port '%.80s': the number %u is that of port '%.80s' of role '%.80s' already, at %u:%u",
              second->port->name, second->port->port, first->port->name, first->role->name,
              first->port->place.line, first->port->place.column);
}

/* Collect the required numbers of a role's pods, if it has any. */
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

static bool shares_proto(const struct workload_port *a, const struct workload_port *b)
{
    return (workload_has_proto(a, DIBS_TCP) && workload_has_proto(b, DIBS_TCP)) ||
           (workload_has_proto(a, DIBS_UDP) && workload_has_proto(b, DIBS_UDP));
}

/* Check the number that the group's processes use for a port. They share one space of numbers. */
static void check_as(struct walk *w, const struct numbered *all, size_t at)
{
    const struct workload_port *port = all[at].port;

    if (port->count > 1)
        fault(w, port->place, "port '%.80s': the number %u inside cannot be %u ports", port->name, port->as,
              port->count);
    if (workload_has_proto(port, DIBS_SCTP))
        fault(w, port->place, "port '%.80s': only tcp and udp have a number inside, not sctp", port->name);
    for (size_t i = 0; i < at && is_good(w); i++)
        if (all[i].port->as == port->as && shares_proto(all[i].port, port))
            fault(w, port->place,
                  "port '%.80s': the number %u inside is that of port '%.80s' of role '%.80s' already, at "
                  "%u:%u",
                  port->name, port->as, all[i].port->name, all[i].role->name, all[i].port->place.line,
                  all[i].port->place.column);
}

static void check_all_as(struct walk *w)
{
    AUTO(free_auto) struct numbered *all = calloc(w->n_parts + 1, sizeof *all);
    size_t n = 0;

    if (!all) {
        w->faults.status = err_set(w->faults.err, DIBS_FAILURE, "workload: out of memory");
        return;
    }
    for (size_t r = 0; r < w->group->n_roles; r++) {
        const struct workload_role *role = &w->group->roles[r];

        for (size_t c = 0; c < role->n_components; c++)
            for (size_t p = 0; p < role->components[c].n_ports; p++)
                if (role->components[c].ports[p].as)
                    all[n++] = (struct numbered){ &role->components[c].ports[p], role };
    }
    if (n > WORKLOAD_AS_MAX)
        fault(w, all[WORKLOAD_AS_MAX].port->place, "more than %d ports have 'as'", WORKLOAD_AS_MAX);
    for (size_t i = 0; i < n && is_good(w); i++)
        check_as(w, all, i);
}

/* Refuse one number for two ports with conflicting bindings. */
static void check_numbers(struct walk *w)
{
    AUTO(free_auto) struct numbered *all = calloc(w->n_parts + 1, sizeof *all);
    size_t n = 0;

    if (!all) {
        w->faults.status = err_set(w->faults.err, DIBS_FAILURE, "workload: out of memory");
        return;
    }
    for (size_t i = 0; i < w->group->n_roles; i++)
        n += take_numbers(&w->group->roles[i], all + n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n && is_good(w); k++)
            if (all[k].port->port == all[i].port->port)
                check_pair(w, &all[i], &all[k]);
}

dibs_status workload_check(const struct workload_group *group, dibs_err *err)
{
    struct walk w = { .group = group, .faults = { group, DIBS_OK, err } };

    check_most(&w, (struct workload_place){ 0 }, "roles", group->n_roles, WORKLOAD_ROLES_MAX);
    if (group->name)
        check_text(&w, group->place, "name of the group", group->name, WORKLOAD_NAME_MAX);
    for (size_t i = 0; is_good(&w) && i < group->n_roles; i++) {
        w.role = &group->roles[i];
        check_role(&w);
    }
    for (size_t i = 0; is_good(&w) && i < group->n_roles; i++) {
        w.role = &group->roles[i];
        check_references(&w);
    }
    if (is_good(&w))
        check_numbers(&w);
    if (is_good(&w))
        check_all_as(&w);
    return w.faults.status;
}
