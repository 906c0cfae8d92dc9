/* SPDX-License-Identifier: MIT */
/* Variables of a pod and their values. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/text.h"
#include "workload/restarts.h"

#include "base/banned.h"

enum { CHECKSUM_BYTES = 10 }; /* '~', eight digits, NUL */

/* Return the index of a need by its name without the group, which the ledger may have renamed since. Needs
 * are few, and the pod's own come first. */
static size_t find(const struct workload_needs *needs, const char *name)
{
    size_t i = 0;

    while (i < needs->n && strcmp(strchr(needs->all[i].name, '/'), strchr(name, '/')) != 0)
        i++;
    return i;
}

void workload_value_text(const struct workload_port *port, const uint16_t *ports, char *out, size_t size)
{
    size_t used = 0;
    uint32_t n = port->is_contiguous ? 1 : port->count;

    for (uint32_t i = 0; i < n && used < size; i++)
        used += (size_t) snprintf(out + used, size - used, "%s%u", i ? "," : "", ports[i]);
}

size_t workload_n_values(const struct workload_component *component)
{
    return component->n_ports + component->n_references + component->n_variables;
}

/* Values of one pod while they are computed. */
struct filling {
    const struct workload_group *group;
    const struct workload_pod *pod;
    const struct workload_needs *needs;
    const uint16_t *ports;
    char *space; /* for the next text, behind the values */
    size_t left;
};

/* Find the port that a reference means, and write its numbers. *first is the first of them. */
static dibs_status write_numbers(struct filling *f, const struct workload_reference *to,
                                 const struct workload_port **port, uint16_t *first, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_status s = workload_reference_name(f->group, f->pod, to, name, port, err);
    size_t at = s == DIBS_OK ? find(f->needs, name) : 0;

    if (s != DIBS_OK)
        return s;
    if (at == f->needs->n)
        return err_set(err, DIBS_FAILURE, "workload: no need has the name '%s'", name);
    *first = f->ports[at];
    workload_value_text(*port, f->ports + at, f->space, f->left);
    f->left -= strlen(f->space);
    f->space += strlen(f->space);
    return DIBS_OK;
}

/* Set the value of one of the pod's ports or references. */
static dibs_status set_value(struct filling *f, const struct workload_reference *to,
                             struct workload_value *out, dibs_err *err)
{
    out->text = f->space;
    dibs_status s = write_numbers(f, to, &out->port, &out->first, err);
    f->space++; /* behind the NUL */
    f->left--;
    return s;
}

static dibs_status set_variable(struct filling *f, const struct workload_variable *variable,
                                struct workload_value *out, dibs_err *err)
{
    const struct workload_port *port = NULL;
    uint16_t first = 0;
    dibs_status s = DIBS_OK;

    out->env = variable->env;
    out->text = f->space;
    for (size_t i = 0; i < variable->n_pieces && s == DIBS_OK; i++) {
        const struct workload_piece *piece = &variable->pieces[i];
        size_t n = piece->text ? strlen(piece->text) : 0;

        if (piece->text)
            memcpy(f->space, piece->text, n);
        else
            s = write_numbers(f, &piece->to, &port, &first, err);
        f->space += n;
        f->left -= n;
    }
    *f->space++ = '\0';
    f->left--;
    return s;
}

/* Return the bytes that the values and their texts need at most. */
static size_t values_size(const struct workload_component *component)
{
    size_t size = (workload_n_values(component) + 1) * sizeof(struct workload_value);

    size += (component->n_ports + component->n_references) * (size_t) WORKLOAD_VALUE_MAX;
    for (size_t i = 0; i < component->n_variables; i++) {
        const struct workload_variable *variable = &component->variables[i];

        for (size_t k = 0; k < variable->n_pieces; k++)
            size += variable->pieces[k].text ? strlen(variable->pieces[k].text) : WORKLOAD_VALUE_MAX;
        size++;
    }
    return size;
}

dibs_status workload_values(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_needs *needs, const uint16_t *ports,
                            struct workload_value **out, dibs_err *err)
{
    const struct workload_component *component = pod->component;
    size_t n = workload_n_values(component);
    size_t size = values_size(component);
    AUTO(free_auto) struct workload_value *values = calloc(1, size);
    dibs_status s = DIBS_OK;

    if (!values)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    struct workload_value *next = values;
    size_t used = (n + 1) * sizeof *values;
    struct filling f = { group, pod, needs, ports, (char *) values + used, size - used };
    for (size_t i = 0; i < component->n_ports && s == DIBS_OK; i++, next++) {
        const struct workload_port *port = &component->ports[i];

        next->env = port->env;
        next->annotation = port->annotation;
        s = set_value(&f, &(struct workload_reference){ .port = port->name }, next, err);
    }
    for (size_t i = 0; i < component->n_references && s == DIBS_OK; i++, next++) {
        next->env = component->references[i].env;
        next->is_reference = true;
        s = set_value(&f, &component->references[i], next, err);
    }
    for (size_t i = 0; i < component->n_variables && s == DIBS_OK; i++, next++)
        s = set_variable(&f, &component->variables[i], next, err);
    if (s != DIBS_OK)
        return s;
    *out = TAKE(values);
    return DIBS_OK;
}

bool workload_directory(const struct workload_group *group, const struct workload_role *role, char *out,
                        size_t size)
{
    const char *slash = group->source ? strrchr(group->source, '/') : NULL;
    char path[PATH_MAX];
    char resolved[PATH_MAX];
    int n = 0;

    if (!role->cwd)
        return false;
    if (role->cwd[0] == '/' || !slash)
        n = snprintf(path, sizeof path, "%s", role->cwd);
    else
        n = snprintf(path, sizeof path, "%.*s/%s", (int) (slash - group->source), group->source, role->cwd);
    return n > 0 && (size_t) n < sizeof path &&
           text_copy(out, size, realpath(path, resolved) ? resolved : path);
}

static bool has_variable(const struct workload_value *values, size_t n, const char *variable)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i].env, variable) == 0)
            return true;
    return false;
}

void workload_each_variable(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_value *values, workload_variable_fn *fn, void *ctx)
{
    size_t n = workload_n_values(pod->component);
    char directory[PATH_MAX];
    char number[16];

    (void) snprintf(number, sizeof number, "%u", n > 0 ? values[0].first : 0u);
    if (pod->component->n_ports > 0 && !has_variable(values, n, "PORT"))
        fn(ctx, "PORT", number);
    (void) snprintf(number, sizeof number, "%u", pod->id);
    if (pod->component->size > 1 && !has_variable(values, n, "DIBS_POD"))
        fn(ctx, "DIBS_POD", number);
    if (workload_directory(group, pod->role, directory, sizeof directory))
        fn(ctx, "PWD", directory);
    for (size_t i = 0; i < n; i++)
        fn(ctx, values[i].env, values[i].text);
}

/* Return whether the record contains a text itself. */
static bool is_recorded(const char *text)
{
    return *text && !text[strspn(text, "0123456789,")];
}

static void add_variable(void *ctx, const char *variable, const char *text)
{
    struct bytes *to = ctx;
    char checksum[CHECKSUM_BYTES];

    (void) snprintf(checksum, sizeof checksum, "~%08x",
                    (uint32_t) hash_fnv1a(HASH_FNV_BASIS, text, strlen(text)));
    if (to->n > 0)
        bytes_add_text(to, " ");
    bytes_add_text(to, variable);
    bytes_add_text(to, "=");
    bytes_add_text(to, is_recorded(text) ? text : checksum);
}

char *workload_env_text(const struct workload_group *group, const struct workload_pod *pod,
                        const struct workload_value *values)
{
    struct bytes text = { 0 };

    workload_each_variable(group, pod, values, add_variable, &text);
    bytes_add(&text, "", 1);
    if (!text.is_lost)
        return text.at;
    bytes_done(&text);
    return NULL;
}

struct variable {
    const char *name, *text;
};

static bool is_checksum(const char *text)
{
    return text[0] == '~' && strspn(text + 1, "0123456789abcdef") == CHECKSUM_BYTES - 2 &&
           !text[CHECKSUM_BYTES - 1];
}

/* Split the text, which comes from a record that any program may have written. SIZE_MAX: invalid. */
static size_t cut(char *text, struct variable *out)
{
    size_t n = 0;
    char *rest = text;

    for (char *word = strsep(&rest, " "); word && word[0]; word = strsep(&rest, " ")) {
        char *value = strchr(word, '=');

        if (!value || !(is_recorded(value + 1) || is_checksum(value + 1)))
            return SIZE_MAX;
        *value = '\0';
        if (!workload_is_env_name(word))
            return SIZE_MAX;
        out[n++] = (struct variable){ word, value + 1 };
    }
    return n;
}

static const char *text_of(const struct variable *all, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].text;
    return NULL;
}

/* Return what is shown of a recorded text: nothing is known of one with a checksum. */
static const char *shown(const char *recorded)
{
    return recorded && recorded[0] == '~' ? "another text" : recorded;
}

void restart_compare(struct workload_restart *r)
{
    /* A variable takes at least three bytes and a blank. */
    AUTO(free_auto) struct variable *before = calloc(strlen(r->was) / 4 + 1, sizeof *before);
    AUTO(free_auto) struct variable *after = calloc(strlen(r->now) / 4 + 1, sizeof *after);
    size_t n_before = before ? cut(r->was, before) : SIZE_MAX;
    size_t n_after = after ? cut(r->now, after) : SIZE_MAX;

    if (n_before == SIZE_MAX || n_after == SIZE_MAX)
        return;
    struct workload_difference *all = calloc(n_before + n_after + 1, sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < n_after && all; i++) {
        const char *old = text_of(before, n_before, after[i].name);

        if (!old || strcmp(old, after[i].text) != 0)
            all[n++] = (struct workload_difference){ .variable = after[i].name,
                                                     .was = shown(old),
                                                     .now = after[i].text };
    }
    for (size_t i = 0; i < n_before && all; i++)
        if (!text_of(after, n_after, before[i].name))
            all[n++] =
                (struct workload_difference){ .variable = before[i].name, .was = shown(before[i].text) };
    r->all = all;
    r->n = n;
}

/* Replace the checksum of this variable by its text. */
static void set_text(void *ctx, const char *variable, const char *text)
{
    struct workload_restart *r = ctx;

    for (size_t i = 0; i < r->n; i++) {
        struct workload_difference *d = &r->all[i];

        if (!d->now || d->now[0] != '~' || d->text || strcmp(d->variable, variable) != 0)
            continue;
        d->text = strdup(text);
        d->now = d->text ? d->text : shown(d->now);
    }
}

void restart_set_texts(struct workload_restart *r, const struct workload_group *group,
                       const struct workload_pod *pod, const struct workload_value *values)
{
    workload_each_variable(group, pod, values, set_text, r);
}

void restart_free(struct workload_restart *restart)
{
    for (size_t i = 0; i < restart->n; i++)
        free(restart->all[i].text);
    free(restart->all);
    free(restart->was);
    free(restart->now);
}

dibs_status workload_obtain(dibs *handle, const struct workload_group *group,
                            const struct workload_needs *needs, int32_t pid, uint16_t **out, dibs_err *err)
{
    AUTO(free_auto) dibs_request *requests = calloc(needs->n + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(needs->n + 1, sizeof *claims);
    AUTO(free_auto) uint16_t *ports = calloc(needs->n + 1, sizeof *ports);
    dibs_batch batch = { .requests = requests, .n = needs->n };

    if (!requests || !claims || !ports)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < needs->n; i++) {
        requests[i] = workload_request(group, &needs->all[i]);
        if (!pid)
            continue;
        requests[i].holder = DIBS_HELD_BY_PROCESS;
        requests[i].pid = pid;
        requests[i].keep = requests[i].is_lookup = requests[i].is_adopted = false;
    }
    dibs_status s = workload_advise(group, dibs_claim_ports(handle, &batch, claims, err), err);
    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < needs->n; i++)
        ports[i] = claims[i].port;
    *out = TAKE(ports);
    return DIBS_OK;
}

dibs_status workload_advise(const struct workload_group *group, dibs_status status, dibs_err *err)
{
    if (status != DIBS_TAKEN || !err || !err->blocker.differs || !present_is_manifest_name(err->blocker.name))
        return status;
    dibs_blocker blocker = err->blocker;
    (void) err_set(err, status,
                   "'%s' has port %u, which is not what %s says of it now; 'dibs plan' shows what changed, "
                   "'dibs up' makes it so",
                   blocker.name, blocker.port, group->source ? group->source : "the group");
    err->blocker = blocker;
    return status;
}

bool workload_user_of(dibs *handle, const struct workload_group *group, const dibs_blocker *blocker,
                      dibs_claim *out)
{
    AUTO(present_free) struct present present = { 0 };
    const dibs_claim *user = NULL;

    if (present_list(handle, group, &present, NULL) != DIBS_OK)
        return false;
    for (size_t i = 0; i < present.n && !user; i++) {
        const dibs_claim *claim = &present.claims[i];

        /* The blocker may have the name NAME/PORT, which the rolled-back sync gave it. */
        if (claim->port == blocker->port && strncmp(blocker->name, claim->name, strlen(claim->name)) == 0)
            user = present_is_held(claim) ? claim : present_role_user(&present, claim);
    }
    if (!user || user->holder != DIBS_HELD_BY_PROCESS)
        return false;
    *out = *user;
    return true;
}
