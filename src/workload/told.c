/* SPDX-License-Identifier: MIT */
#include "workload/told.h"

#include <string.h>

#include "base/bytes.h"

#include "base/banned.h"

/* The kernel takes 128 KiB for one variable; whoever has more than half of it is not looked at. */
enum { TOLD_MAX = 64 << 10 };

/* ---- writing ---- */

static bool is_said(const struct workload_value *values, size_t n, const char *variable)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i].env, variable) == 0)
            return true;
    return false;
}

void workload_each_number(const struct workload_pod *pod, const struct workload_value *values,
                          workload_say *say, void *ctx)
{
    size_t n = pod->component->n_ports + pod->component->n_references;
    char number[16];

    (void) snprintf(number, sizeof number, "%u", n > 0 ? values[0].first : 0u);
    if (pod->component->n_ports > 0 && !is_said(values, n, "PORT"))
        say(ctx, "PORT", number);
    (void) snprintf(number, sizeof number, "%u", pod->id);
    if (pod->component->size > 1 && !is_said(values, n, "DIBS_POD"))
        say(ctx, "DIBS_POD", number);
    for (size_t i = 0; i < n; i++)
        say(ctx, values[i].env, values[i].text);
}

static void add_number(void *ctx, const char *variable, const char *text)
{
    bytes_add_text(ctx, " ");
    bytes_add_text(ctx, variable);
    bytes_add_text(ctx, "=");
    bytes_add_text(ctx, text);
}

char *workload_told_text(const struct workload_group *group, const struct workload_pod *pod,
                         const struct workload_value *values, int32_t pid)
{
    struct bytes text = { 0 };
    char name[DIBS_NAME_MAX + 1];
    char head[DIBS_NAME_MAX + 16];

    workload_pod_prefix(group, pod, name);
    /* Without its group, by which it is no other: the group may be renamed. */
    (void) snprintf(head, sizeof head, "%d %s", pid, strchr(name, '/') + 1);
    bytes_add_text(&text, head);
    workload_each_number(pod, values, add_number, &text);
    bytes_add(&text, "", 1);
    if (!text.is_lost && text.n <= TOLD_MAX)
        return text.at;
    bytes_done(&text);
    return NULL;
}

/* ---- comparing ---- */

/* "123 web/0/-": for which process and pod it was written. */
static size_t head_length(const char *text)
{
    size_t len = strcspn(text, " ");

    return text[len] ? len + 1 + strcspn(text + len + 1, " ") : len;
}

struct number {
    const char *variable, *text;
};

/* Cuts the text up. It comes from the memory of a process, which may have written there what it likes.
 * SIZE_MAX: it is no text of ours. */
static size_t cut(char *text, struct number *out)
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
        out[n++] = (struct number){ word, value + 1 };
    }
    return n;
}

static const char *find(const struct number *all, size_t n, const char *variable)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].variable, variable) == 0)
            return all[i].text;
    return NULL;
}

bool told_compare(struct workload_restart *r)
{
    char *was = r->was;
    char *now = r->now;
    size_t head = head_length(now);

    if (strncmp(was, now, head) != 0 || strlen(was) > TOLD_MAX || (was[head] && was[head] != ' '))
        return false;
    /* A word has three bytes and a blank at least. */
    AUTO(free_auto) struct number *before = calloc(strlen(was) / 4 + 1, sizeof *before);
    AUTO(free_auto) struct number *after = calloc(strlen(now) / 4 + 1, sizeof *after);
    size_t n_before = before ? cut(was + head + (was[head] != '\0'), before) : SIZE_MAX;
    size_t n_after = after ? cut(now + head + (now[head] != '\0'), after) : SIZE_MAX;

    if (n_before == SIZE_MAX || n_after == SIZE_MAX)
        return false;
    struct workload_difference *all = calloc(n_before + n_after + 1, sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < n_after && all; i++) {
        const char *old = find(before, n_before, after[i].variable);

        if (!old || strcmp(old, after[i].text) != 0)
            all[n++] = (struct workload_difference){ after[i].variable, old, after[i].text, false };
    }
    for (size_t i = 0; i < n_before && all; i++)
        if (!find(after, n_after, before[i].variable))
            all[n++] = (struct workload_difference){ before[i].variable, before[i].text, NULL, false };
    r->all = all;
    r->n = n;
    return n > 0;
}

void told_free(struct workload_restart *restart)
{
    free(restart->all);
    free(restart->was);
    free(restart->now);
}
