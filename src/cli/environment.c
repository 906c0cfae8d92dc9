/* SPDX-License-Identifier: MIT */
#include "cli/environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/grow.h"
#include "cli/manifest.h"

#include "base/banned.h"

/* ---- formats ---- */

struct environment_format {
    const char *name;
    const char *before, *between; /* NULL: JSON */
    bool is_fish;
};

static const struct environment_format formats[] = {
    { "dotenv", "", "=", false },      { "export", "export ", "=", false },
    { "fish", "set -gx ", " ", true }, { "systemd", "", "=", false }, /* as EnvironmentFile= reads it */
    { "json", NULL, NULL, false },
};

const struct environment_format *environment_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

/* Add the text between quotes, with a backslash before each of the special characters. */
static void add_quoted(struct bytes *to, const char *text, char quote, const char *special)
{
    bytes_add(to, &quote, 1);
    for (; *text; text++) {
        if (strchr(special, *text))
            bytes_add(to, "\\", 1);
        bytes_add(to, text, 1);
    }
    bytes_add(to, &quote, 1);
}

static bool is_plain(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";

    return *text && !text[strspn(text, plain)];
}

/* Files for systemd and dotenv have the same quotes, but cannot join several quoted parts as a shell does. */
void environment_add_word(struct bytes *to, const char *word)
{
    if (is_plain(word))
        bytes_add_text(to, word);
    else if (!strchr(word, '\''))
        add_quoted(to, word, '\'', "");
    else
        add_quoted(to, word, '"', "\"\\$`");
}

void environment_begin(struct cli *cli, const struct environment_format *format)
{
    if (!format->before)
        jsonw_object(&cli->w);
}

bool environment_print(struct cli *cli, const struct environment_format *format, const char *name,
                       const char *text)
{
    AUTO(bytes_done) struct bytes word = { 0 };

    if (!format->before) {
        jsonw_key_string(&cli->w, name, text);
        return true;
    }
    if (format->is_fish && !is_plain(text))
        add_quoted(&word, text, '\'', "'\\");
    else
        environment_add_word(&word, text);
    bytes_add(&word, "", 1);
    if (!word.is_lost)
        (void) printf("%s%s%s%s\n", format->before, name, format->between, word.at);
    return !word.is_lost;
}

bool environment_print_outside(struct cli *cli, const struct environment_format *format,
                               const struct workload_needs *needs, const uint16_t *ports)
{
    bool is_whole = true;

    for (size_t i = 0; i < needs->n; i++) {
        uint16_t as = needs->all[i].port->as;
        bool is_first = as != 0;
        char name[40];
        char text[8];

        for (size_t k = 0; k < i && is_first; k++)
            is_first = needs->all[k].port->as != as;
        if (!is_first)
            continue;
        (void) snprintf(name, sizeof name, "DIBS_OUTSIDE_PORT_%u", as);
        (void) snprintf(text, sizeof text, "%u", ports[i]);
        is_whole = environment_print(cli, format, name, text) && is_whole;
    }
    return is_whole;
}

void environment_end(struct cli *cli, const struct environment_format *format)
{
    if (!format->before)
        jsonw_end_object(&cli->w);
}

/* ---- the whole group ---- */

typedef char long_name[DIBS_NAME_MAX + 8];

/* A pod with its needs and values. */
struct pod_values {
    struct workload_pod pod;
    struct workload_needs needs;
    struct workload_value *values;
};

/* A variable of one pod. */
struct entry {
    size_t pod, value; /* indices of its pod, and of the value in this pod */
    const char *name;
    char *own_name; /* owned: instead of a name that has several meanings; NULL: none */
    bool is_left_out;
};

struct whole {
    const struct workload_group *group;
    struct workload_needs needs;
    struct pod_values *pods;
    size_t n_pods, max_pods;
    struct entry *entries; /* in the order of the manifest */
    size_t n, max;
    struct entry **sorted;                /* by name */
    const struct workload_need **by_name; /* all needs */
};

static void whole_free(struct whole *w)
{
    for (size_t i = 0; i < w->n_pods; i++) {
        workload_needs_free(&w->pods[i].needs);
        free(w->pods[i].values);
    }
    for (size_t i = 0; i < w->n; i++)
        free(w->entries[i].own_name);
    workload_needs_free(&w->needs);
    free(w->pods);
    free(w->entries);
    free(w->sorted);
    free(w->by_name);
}

static const struct workload_value *value_of(const struct whole *w, const struct entry *entry)
{
    return &w->pods[entry->pod].values[entry->value];
}

/* Write "web/0/http" as WEB_0_HTTP_PORT, or as WEB_HTTP_PORT when the role has one instance. */
static void write_long_name(const struct workload_pod *pod, const struct workload_port *port, long_name out)
{
    char typed[DIBS_NAME_MAX + 1];
    bool is_shared = port->scope == WORKLOAD_ROLE_SCOPED;
    char instance[16] = "";
    char component[WORKLOAD_NAME_MAX + 16] = "";

    if (!is_shared && pod->role->instances > 1)
        (void) snprintf(instance, sizeof instance, "/%u", pod->instance);
    if (pod->component->name && pod->component->size > 1 && !is_shared)
        (void) snprintf(component, sizeof component, "/%s/%u", pod->component->name, pod->id);
    else if (pod->component->name)
        (void) snprintf(component, sizeof component, "/%s", pod->component->name);
    (void) snprintf(typed, sizeof typed, "%s%s%s/%s", pod->role->name, instance, component, port->name);
    workload_port_env(typed, out, sizeof(long_name));
}

static dibs_status add_pod(struct whole *w, const struct workload_pod *pod, dibs_err *err)
{
    size_t n = workload_n_values(pod->component);

    if (!grow((void **) &w->pods, w->n_pods, &w->max_pods, sizeof *w->pods))
        return err_set(err, DIBS_FAILURE, "out of memory");
    w->pods[w->n_pods++] = (struct pod_values){ .pod = *pod };
    for (size_t i = 0; i < n; i++) {
        if (!grow((void **) &w->entries, w->n, &w->max, sizeof *w->entries))
            return err_set(err, DIBS_FAILURE, "out of memory");
        w->entries[w->n++] = (struct entry){ .pod = w->n_pods - 1, .value = i };
    }
    return DIBS_OK;
}

static dibs_status find_pods(struct whole *w, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t r = 0; r < w->group->n_roles; r++) {
        struct workload_pod pod = { .role = &w->group->roles[r] };

        for (; pod.instance < pod.role->instances; pod.instance++)
            for (size_t c = 0; c < pod.role->n_components; c++) {
                pod.component = &pod.role->components[c];
                for (pod.id = 0; pod.id < pod.component->size && s == DIBS_OK; pod.id++)
                    s = add_pod(w, &pod, err);
            }
    }
    return s;
}

static int by_need_name(const void *a, const void *b)
{
    const struct workload_need *const *x = a;
    const struct workload_need *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static const struct workload_need *find_need(const struct whole *w, const struct workload_need *need)
{
    const struct workload_need **found =
        w->needs.n
            ? bsearch(&need, w->by_name, w->needs.n, sizeof(const struct workload_need *), by_need_name)
            : NULL;

    return found ? *found : NULL;
}

static dibs_status sort_needs(struct whole *w, dibs_err *err)
{
    free(w->by_name);
    w->by_name = calloc(w->needs.n + 1, sizeof(const struct workload_need *));
    if (!w->by_name)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < w->needs.n; i++)
        w->by_name[i] = &w->needs.all[i];
    qsort(w->by_name, w->needs.n, sizeof(const struct workload_need *), by_need_name);
    return DIBS_OK;
}

/* Find the needs of all pods. That of a reference to a role without instances is no need of the group. */
static dibs_status find_needs(struct whole *w, dibs_err *err)
{
    dibs_status s = workload_needs_all(w->group, &w->needs, err);

    if (s == DIBS_OK)
        s = sort_needs(w, err);
    for (size_t i = 0; i < w->n_pods && s == DIBS_OK; i++) {
        struct workload_needs *own = &w->pods[i].needs;

        s = workload_needs_of(w->group, &w->pods[i].pod, own, err);
        for (size_t k = 0; k < own->n && s == DIBS_OK; k++) {
            if (find_need(w, &own->all[k]))
                continue;
            if (!grow((void **) &w->needs.all, w->needs.n, &w->needs.max, sizeof *w->needs.all))
                return err_set(err, DIBS_FAILURE, "out of memory");
            w->needs.all[w->needs.n++] = own->all[k];
            s = sort_needs(w, err);
        }
    }
    return s;
}

/* Compute the values of one pod with the ports of all needs. */
static dibs_status compute_pod(const struct whole *w, struct pod_values *pod, const uint16_t *ports,
                               dibs_err *err)
{
    AUTO(free_auto) uint16_t *own = calloc(pod->needs.n + 1, sizeof *own);

    if (!own)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < pod->needs.n; i++) {
        const struct workload_need *need = find_need(w, &pod->needs.all[i]);

        own[i] = need ? ports[need - w->needs.all] : 0;
    }
    free(pod->values);
    pod->values = NULL;
    return workload_values(w->group, &pod->pod, &pod->needs, own, &pod->values, err);
}

static dibs_status compute(struct whole *w, const uint16_t *ports, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < w->n_pods && s == DIBS_OK; i++)
        s = compute_pod(w, &w->pods[i], ports, err);
    return s;
}

static const char *printed_name(const struct entry *entry)
{
    return entry->own_name ? entry->own_name : entry->name;
}

/* By name; the entries of one name in the order of the manifest. */
static int by_name(const void *a, const void *b)
{
    const struct entry *const *x = a;
    const struct entry *const *y = b;
    int order = strcmp(printed_name(*x), printed_name(*y));

    return order ? order : *x < *y ? -1 : 1;
}

/* Keep the first of these entries with one name and one text; if their texts differ, rename ports, and leave
 * out the others. */
static dibs_status settle_name(struct whole *w, struct entry **same, size_t n, size_t *n_left_out,
                               dibs_err *err)
{
    bool differ = false;
    long_name name;

    for (size_t i = 1; i < n; i++)
        differ = differ || strcmp(value_of(w, same[i])->text, value_of(w, same[0])->text) != 0;
    for (size_t i = differ ? 0 : 1; i < n; i++) {
        const struct workload_value *value = value_of(w, same[i]);

        same[i]->is_left_out = !differ || !value->port || value->is_reference;
        if (same[i]->is_left_out)
            continue;
        write_long_name(&w->pods[same[i]->pod].pod, value->port, name);
        same[i]->own_name = strdup(name);
        if (!same[i]->own_name)
            return err_set(err, DIBS_FAILURE, "out of memory");
    }
    *n_left_out += differ;
    return DIBS_OK;
}

/* Refuse one name with two texts; leave out the second of one text. */
static dibs_status check_names(struct whole *w, dibs_err *err)
{
    const struct entry *last = NULL;

    qsort(w->sorted, w->n, sizeof(struct entry *), by_name);
    for (size_t i = 0; i < w->n; i++) {
        struct entry *entry = w->sorted[i];

        if (entry->is_left_out)
            continue;
        if (!last || strcmp(printed_name(last), printed_name(entry)) != 0)
            last = entry;
        else if (strcmp(value_of(w, last)->text, value_of(w, entry)->text) == 0)
            entry->is_left_out = true;
        else
            return err_set(err, DIBS_INVALID,
                           "env: two ports would both be $%s; ask for one role: dibs env ROLE",
                           printed_name(entry));
    }
    return DIBS_OK;
}

/* Decide on the names, before anything is claimed: the texts contain the numbers of needs instead of ports.
 */
static dibs_status name_all(struct whole *w, size_t *n_left_out, dibs_err *err)
{
    AUTO(free_auto) uint16_t *numbers = calloc(w->needs.n + 1, sizeof *numbers);

    w->sorted = calloc(w->n + 1, sizeof(struct entry *));
    if (!numbers || !w->sorted)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < w->needs.n; i++)
        numbers[i] = (uint16_t) (i + 1);
    dibs_status s = compute(w, numbers, err);
    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < w->n; i++) {
        w->sorted[i] = &w->entries[i];
        w->entries[i].name = value_of(w, &w->entries[i])->env;
    }
    qsort(w->sorted, w->n, sizeof(struct entry *), by_name);
    for (size_t i = 0, next = 0; i < w->n && s == DIBS_OK; i = next) {
        for (next = i + 1; next < w->n && strcmp(w->sorted[next]->name, w->sorted[i]->name) == 0;)
            next++;
        s = settle_name(w, w->sorted + i, next - i, n_left_out, err);
    }
    return s == DIBS_OK ? check_names(w, err) : s;
}

/* Note a few of the names that have several meanings. */
static void note_left_out(const struct cli *cli, const struct whole *w)
{
    char names[160] = "";
    const char *last = "";

    for (size_t i = 0; i < w->n; i++) {
        const struct entry *entry = &w->entries[i];
        size_t used = strlen(names);
        bool is_new = entry->own_name && strcmp(last, entry->name) != 0 && !strstr(names, entry->name);

        if (is_new)
            (void) snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", entry->name);
        last = is_new ? entry->name : last;
    }
    cli_note(cli,
             "%s%s more than one meaning here: such a port is called after its role, and 'dibs env ROLE' has "
             "the variables of a role",
             names[0] ? names : "a variable", strchr(names, ',') ? " have" : " has");
}

dibs_status environment_print_group(struct cli *cli, const struct environment_format *format, int32_t pid,
                                    dibs_err *err)
{
    AUTO(whole_free) struct whole w = { .group = cli->manifest };
    AUTO(free_auto) uint16_t *ports = NULL;
    size_t n_left_out = 0;
    bool is_whole = true;
    dibs_status s = find_pods(&w, err);

    if (s == DIBS_OK)
        s = find_needs(&w, err);
    if (s == DIBS_OK)
        s = name_all(&w, &n_left_out, err);
    if (s == DIBS_OK)
        s = workload_obtain(cli->handle, w.group, &w.needs, pid, &ports, err);
    if (s == DIBS_OK)
        s = compute(&w, ports, err);
    if (s != DIBS_OK)
        return s;
    environment_begin(cli, format);
    for (size_t i = 0; i < w.n; i++)
        if (!w.entries[i].is_left_out)
            is_whole = environment_print(cli, format, printed_name(&w.entries[i]),
                                         value_of(&w, &w.entries[i])->text) &&
                       is_whole;
    is_whole = environment_print_outside(cli, format, &w.needs, ports) && is_whole;
    environment_end(cli, format);
    if (n_left_out > 0)
        note_left_out(cli, &w);
    return is_whole ? DIBS_OK : err_set(err, DIBS_FAILURE, "out of memory");
}
