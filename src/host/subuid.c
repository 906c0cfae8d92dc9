/* SPDX-License-Identifier: MIT */
#include "host/subuid.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/grow.h"
#include "base/secret.h"
#include "base/text.h"

#include "base/banned.h"

struct subuid_range {
    uint32_t first, n, owner;
};

static int by_first(const void *a, const void *b)
{
    const struct subuid_range *x = a;
    const struct subuid_range *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Parse a user: a uid, or a name that the host knows. */
static bool parse_owner(const char *word, uint32_t *out)
{
    char text[4096]; /* the fields of a user */
    struct passwd user;
    struct passwd *found = NULL;
    uint64_t uid = 0;

    if (text_number(word, strlen(word), UINT32_MAX - 1, &uid)) {
        *out = (uint32_t) uid;
        return true;
    }
    if (!word[0] || getpwnam_r(word, &user, text, sizeof text, &found) != 0 || !found)
        return false;
    *out = user.pw_uid;
    return true;
}

/* Parse "OWNER:FIRST:COUNT"; the line is modified. */
static bool parse_line(char *line, struct subuid_range *out)
{
    const char *owner = strsep(&line, ":");
    const char *first = line ? strsep(&line, ":") : NULL;
    const char *count = line;
    uint64_t from = 0;
    uint64_t n = 0;

    if (!count || !text_number(first, strlen(first), UINT32_MAX - 1, &from) ||
        !text_number(count, strlen(count), UINT32_MAX - from, &n) || n == 0)
        return false;
    out->first = (uint32_t) from;
    out->n = (uint32_t) n;
    return parse_owner(owner, &out->owner);
}

void subuids_parse(struct subuids *map, const char *text)
{
    AUTO(free_auto) char *copy = strdup(text);
    char *rest = copy;

    map->n = 0;
    while (rest) {
        struct subuid_range range;

        if (!parse_line(strsep(&rest, "\n"), &range))
            continue;
        if (!grow((void **) &map->range, map->n, &map->max, sizeof range))
            break; /* out of memory: these users have limits of their own */
        map->range[map->n++] = range;
    }
    if (map->n > 0)
        qsort(map->range, map->n, sizeof *map->range, by_first);
}

bool subuids_refresh(struct subuids *map, const char *path)
{
    AUTO(free_auto) char *text = NULL;
    struct stat st = { 0 };

    (void) stat(path, &st);
    if (st.st_ino == map->file.st_ino && st.st_size == map->file.st_size &&
        st.st_mtim.tv_sec == map->file.st_mtim.tv_sec && st.st_mtim.tv_nsec == map->file.st_mtim.tv_nsec)
        return false;
    map->file = st;
    (void) file_read_text("subordinate uids", path, SUBUID_FILE_MAX_BYTES, &text, NULL);
    subuids_parse(map, text ? text : "");
    return true;
}

void subuids_done(struct subuids *map)
{
    free(map->range);
    *map = (struct subuids){ 0 };
}

static const struct subuid_range *find(const struct subuids *map, uint32_t uid)
{
    size_t from = 0;
    size_t to = map->n; /* the range is in [from, to) */

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct subuid_range *range = &map->range[middle];

        if (uid < range->first)
            to = middle;
        else if (uid - range->first < range->n)
            return range;
        else
            from = middle + 1;
    }
    return NULL;
}

uint32_t subuids_owner(const struct subuids *map, uint32_t uid)
{
    const struct subuid_range *range = find(map, uid);

    return range ? range->owner : uid;
}

uint32_t subuids_account(const struct subuids *map, uint32_t uid)
{
    const struct subuid_range *range = find(map, uid);

    return !range ? uid : range->owner ? range->owner : range->first;
}
