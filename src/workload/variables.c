/* SPDX-License-Identifier: MIT */
/* The variables that a pod's process is started with, as the text that its claim records (dibs_claim.env),
 * and the differences between two such texts. */
#include <string.h>

#include "base/bytes.h"
#include "workload/restarts.h"

#include "base/banned.h"

/* ---- writing ---- */

static bool has_variable(const struct workload_value *values, size_t n, const char *variable)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i].env, variable) == 0)
            return true;
    return false;
}

void workload_each_variable(const struct workload_pod *pod, const struct workload_value *values,
                            workload_variable_fn *fn, void *ctx)
{
    size_t n = pod->component->n_ports + pod->component->n_references;
    char number[16];

    (void) snprintf(number, sizeof number, "%u", n > 0 ? values[0].first : 0u);
    if (pod->component->n_ports > 0 && !has_variable(values, n, "PORT"))
        fn(ctx, "PORT", number);
    (void) snprintf(number, sizeof number, "%u", pod->id);
    if (pod->component->size > 1 && !has_variable(values, n, "DIBS_POD"))
        fn(ctx, "DIBS_POD", number);
    for (size_t i = 0; i < n; i++)
        fn(ctx, values[i].env, values[i].text);
}

static void add_variable(void *ctx, const char *variable, const char *text)
{
    struct bytes *to = ctx;

    if (to->n > 0)
        bytes_add_text(to, " ");
    bytes_add_text(to, variable);
    bytes_add_text(to, "=");
    bytes_add_text(to, text);
}

char *workload_env_text(const struct workload_pod *pod, const struct workload_value *values)
{
    struct bytes text = { 0 };

    workload_each_variable(pod, values, add_variable, &text);
    bytes_add(&text, "", 1);
    if (!text.is_lost)
        return text.at;
    bytes_done(&text);
    return NULL;
}

/* ---- comparing ---- */

struct variable {
    const char *name, *text;
};

/* Cut the text up. It comes from a record, which any program may have written. SIZE_MAX: it is no such
 * text. */
static size_t cut(char *text, struct variable *out)
{
    size_t n = 0;
    char *rest = text;

    for (char *word = strsep(&rest, " "); word && word[0]; word = strsep(&rest, " ")) {
        char *value = strchr(word, '=');

        if (!value || !value[1] || value[1 + strspn(value + 1, "0123456789,")])
            return SIZE_MAX;
        *value = '\0';
        if (!workload_is_env_name(word))
            return SIZE_MAX;
        out[n++] = (struct variable){ word, value + 1 };
    }
    return n;
}

static const char *find(const struct variable *all, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].text;
    return NULL;
}

void restart_compare(struct workload_restart *r)
{
    /* A word has three bytes and a blank at least. */
    AUTO(free_auto) struct variable *before = calloc(strlen(r->was) / 4 + 1, sizeof *before);
    AUTO(free_auto) struct variable *after = calloc(strlen(r->now) / 4 + 1, sizeof *after);
    size_t n_before = before ? cut(r->was, before) : SIZE_MAX;
    size_t n_after = after ? cut(r->now, after) : SIZE_MAX;

    if (n_before == SIZE_MAX || n_after == SIZE_MAX)
        return;
    struct workload_difference *all = calloc(n_before + n_after + 1, sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < n_after && all; i++) {
        const char *old = find(before, n_before, after[i].name);

        if (!old || strcmp(old, after[i].text) != 0)
            all[n++] = (struct workload_difference){ after[i].name, old, after[i].text, false };
    }
    for (size_t i = 0; i < n_before && all; i++)
        if (!find(after, n_after, before[i].name))
            all[n++] = (struct workload_difference){ before[i].name, before[i].text, NULL, false };
    r->all = all;
    r->n = n;
}

void restart_free(struct workload_restart *restart)
{
    free(restart->all);
    free(restart->was);
    free(restart->now);
}
