/* SPDX-License-Identifier: MIT */
#include "base/near.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "base/banned.h"

#define NEAR_DISTANCE 2u /* two slips of the finger */

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Letters that are missing, too many, wrong, or swapped with their neighbour. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][NEAR_MAX + 1]; /* the last three */
    size_t na = strnlen(a, NEAR_MAX + 1);
    size_t nb = strnlen(b, NEAR_MAX + 1);

    if (na > NEAR_MAX || nb > NEAR_MAX)
        return NEAR_MAX;
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

void near_offer(struct near *best, const char *name)
{
    unsigned d = distance(best->wanted, name);
    /* Whoever stopped too early is more likely than whoever swapped letters. */
    bool is_begun = strncmp(name, best->wanted, strlen(best->wanted)) == 0;
    bool is_nearer = !best->name || d < best->distance || (d == best->distance && is_begun);

    near_list_add(&best->all, name);
    /* A name of which no letter is right is no suggestion. */
    if (d <= NEAR_DISTANCE && d < strlen(name) && is_nearer) {
        best->name = name;
        best->distance = d;
    }
}

void near_list_add(struct near_list *list, const char *name)
{
    size_t room = sizeof list->text - sizeof ", ..." - list->used;

    if (list->is_cut)
        return;
    list->is_cut = strlen(name) + 2 > room;
    int n = snprintf(list->text + list->used, sizeof list->text - list->used, "%s%s", list->used ? ", " : "",
                     list->is_cut ? "..." : name);
    list->used += n > 0 ? (size_t) n : 0;
}

const char *near_say(const struct near *best, char *out, size_t size)
{
    char text[NEAR_HINT_MAX] = "";

    if (best->name)
        (void) snprintf(text, sizeof text, "; did you mean '%s'?", best->name);
    else if (best->all.used > 0)
        (void) snprintf(text, sizeof text, "; there are: %s", best->all.text);
    return text_safe(text, out, size);
}
