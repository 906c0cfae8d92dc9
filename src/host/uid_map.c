/* SPDX-License-Identifier: MIT */
#include "host/uid_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "host/proc_read.h"

#include "base/banned.h"

/* 340 lines (the kernel's limit) of three numbers of ten digits, and blanks. */
#define MAP_TEXT_MAX 16384

/* Read the number at *p and move *p behind it. Return false at the end or when it is no number. */
static bool next_number(const char **p, uint32_t *out)
{
    const char *word = NULL;
    int64_t value = 0;

    if (!proc_next_word(p, *p + strlen(*p), &word) || !proc_number(word, *p, &value) || value < 0 ||
        value > UINT32_MAX)
        return false;
    *out = (uint32_t) value;
    return true;
}

static bool parse_map(const char *text, struct uid_map *out)
{
    for (const char *p = text; p[strspn(p, " \t\n")] != '\0'; out->n++) {
        struct uid_map_extent *e = &out->extent[out->n];

        if (out->n == UID_MAP_EXTENTS_MAX || !next_number(&p, &e->inside) || !next_number(&p, &e->above) ||
            !next_number(&p, &e->n))
            return false;
    }
    return true;
}

dibs_status uid_map_load(struct uid_map *out, dibs_err *err)
{
    char text[MAP_TEXT_MAX];
    const char *p = text;
    uint64_t ours = proc_link_inode(AT_FDCWD, "/proc/self/ns/user", "user");

    *out = (struct uid_map){ .overflow = UID_MAP_UNKNOWN };
    /* No link: a kernel without user namespaces. */
    out->is_initial = ours == PROC_INITIAL_USERNS || (ours == 0 && errno == ENOENT);
    if (out->is_initial)
        return DIBS_OK;
    if (proc_read_file(AT_FDCWD, "/proc/sys/kernel/overflowuid", text, sizeof text) < 0 ||
        !next_number(&p, &out->overflow))
        return err_set(err, DIBS_FAILURE,
                       "cannot read the uid of unmapped users in /proc/sys/kernel/overflowuid; mount /proc "
                       "without subset=pid");
    if (proc_read_file(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0 || !parse_map(text, out))
        return err_set(err, DIBS_FAILURE,
                       "cannot read the uids of this user namespace in /proc/self/uid_map");
    return DIBS_OK;
}

uint32_t uid_map_above(const struct uid_map *map, uint32_t uid)
{
    if (map->is_initial)
        return uid;
    for (size_t i = 0; i < map->n; i++) {
        const struct uid_map_extent *e = &map->extent[i];

        if (uid >= e->inside && uid - e->inside < e->n)
            return e->above + (uid - e->inside);
    }
    return UID_MAP_UNKNOWN;
}

uint32_t uid_map_above_seen(const struct uid_map *map, uint32_t uid)
{
    return uid == map->overflow ? UID_MAP_UNKNOWN : uid_map_above(map, uid);
}
