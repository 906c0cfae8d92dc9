/* SPDX-License-Identifier: MIT */
#include "base/suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "base/banned.h"

#define SUGGEST_DISTANCE 2u /* two typing errors */

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Damerau-Levenshtein: missing, surplus and wrong letters, and swapped neighbours. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][SUGGEST_MAX + 1]; /* the last three rows */
    size_t na = strnlen(a, SUGGEST_MAX + 1);
    size_t nb = strnlen(b, SUGGEST_MAX + 1);

    if (na > SUGGEST_MAX || nb > SUGGEST_MAX)
        return SUGGEST_MAX;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = (unsigned) j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3];

        row[0] = (unsigned) i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1, row[j]);
        }
    }
    return rows[na % 3][nb];
}

void suggest_offer(struct suggest *best, const char *name)
{
    unsigned d = distance(best->wanted, name);
    /* An incomplete name is more likely than one with swapped letters. */
    bool is_begun = strncmp(name, best->wanted, strlen(best->wanted)) == 0;
    bool is_nearer = !best->name || d < best->distance || (d == best->distance && is_begun);

    suggest_list_add(&best->all, name);
    /* A name without a common letter is no suggestion. */
    if (d <= SUGGEST_DISTANCE && d < strlen(name) && is_nearer) {
        best->name = name;
        best->distance = d;
    }
}

void suggest_list_add(struct suggest_list *list, const char *name)
{
    size_t left = sizeof list->text - sizeof ", ..." - list->used;

    if (list->is_cut)
        return;
    list->is_cut = strlen(name) + 2 > left;
    int n = snprintf(list->text + list->used, sizeof list->text - list->used, "%s%s", list->used ? ", " : "",
                     list->is_cut ? "..." : name);
    list->used += n > 0 ? (size_t) n : 0;
}

const char *suggest_format(const struct suggest *best, char *out, size_t size)
{
    char text[SUGGEST_HINT_MAX] = "";

    if (best->name)
        (void) snprintf(text, sizeof text, "; did you mean '%s'?", best->name);
    else if (best->all.used > 0)
        (void) snprintf(text, sizeof text, "; there are: %s", best->all.text);
    return text_safe(text, out, size);
}
