/* SPDX-License-Identifier: MIT */
/* Finds the full name of a project's request.
 *
 * A directory must never get the port of another one with the same name, and `git switch` must not move a
 * port. So a directory keeps the group that its names have. One without names gets the requested group if no
 * other directory uses it, else that group with a hash of its path as suffix. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/text.h"
#include "core/core.h"

#include "base/banned.h"

enum { SUFFIX_BYTES = 7 }; /* '~' and six hex digits */

/* Find the first name that begins with `stem` and `next` ('\0': the stem itself); project NULL: any. */
static dibs_status find_first(const struct core_names *in, const char *stem, char next, const char *project,
                              char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    char from[DIBS_NAME_MAX + 2];
    char to[DIBS_NAME_MAX + 2];
    const struct ledger_names among = { in->call->principal, from, to, project };

    (void) snprintf(from, sizeof from, "%s%c", stem, next);
    (void) snprintf(to, sizeof to, "%s%c", stem, next + 1);
    return ledger_first_name(in->core->ledger, in->call, &among, out, err);
}

/* Append the hash of the project: "shop" -> "shop~1a2b3c". Cut a long group between characters. */
static void add_suffix(char group[DIBS_NAME_PART_MAX + 1], const char *project)
{
    size_t keep = strlen(group);
    uint64_t hash = hash_fnv1a(HASH_FNV_BASIS, project, strlen(project));

    if (keep > DIBS_NAME_PART_MAX - SUFFIX_BYTES)
        keep = DIBS_NAME_PART_MAX - SUFFIX_BYTES;
    while (keep > 0 && ((unsigned char) group[keep] & 0xc0) == 0x80)
        keep--;
    (void) snprintf(group + keep, SUFFIX_BYTES + 1, "~%06x", (unsigned) (hash & 0xffffff));
}

/* Find the group that the project already has: this one, or this one of another branch. */
static dibs_status own_group(const struct core_names *in, const char *project,
                             char group[DIBS_NAME_PART_MAX + 1], dibs_err *err)
{
    static const char next[] = { '/', '@', '~' };
    char stem[DIBS_NAME_PART_MAX + 1];
    char found[DIBS_NAME_MAX + 1];
    dibs_status s = find_first(in, group, '/', project, found, err);

    (void) text_copy(stem, sizeof stem, group);
    stem[strcspn(stem, "@~")] = '\0';
    for (size_t i = 0; i < sizeof next && s == DIBS_NOT_FOUND; i++)
        s = find_first(in, stem, next[i], project, found, err);
    if (s == DIBS_OK) {
        found[strcspn(found, "/")] = '\0';
        (void) text_copy(group, DIBS_NAME_PART_MAX + 1, found);
    }
    return s;
}

/* Return NOT_FOUND when no other project has that name. */
static dibs_status is_taken(const struct core_names *in, const char *name, const char *project, dibs_err *err)
{
    char found[DIBS_NAME_MAX + 1];
    dibs_status s = find_first(in, name, '\0', project, found, NULL);

    if (s == DIBS_OK)
        return DIBS_NOT_FOUND;
    return find_first(in, name, '\0', NULL, found, err);
}

static dibs_status join(const char *group, const char *rest, char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    char name[DIBS_NAME_PART_MAX + DIBS_NAME_MAX + 1];

    (void) snprintf(name, sizeof name, "%s%s", group, rest);
    return text_copy(out, DIBS_NAME_MAX + 1, name)
               ? DIBS_OK
               : err_set(err, DIBS_INVALID, "name '%s' has more than %d bytes", name, DIBS_NAME_MAX);
}

/* Find the group in which the project gets new names: its own, else the requested one, else that with a
 * suffix. Without names of its own the search reads all names of another project's group: a batch searches
 * once. */
static dibs_status find_group(struct core_names *in, const char *project, char group[DIBS_NAME_PART_MAX + 1],
                              dibs_err *err)
{
    char found[DIBS_NAME_MAX + 1];

    if (in->project && strcmp(in->project, project) == 0 && strcmp(in->asked, group) == 0) {
        (void) text_copy(group, DIBS_NAME_PART_MAX + 1, in->group);
        return DIBS_OK;
    }
    (void) text_copy(in->asked, sizeof in->asked, group);
    dibs_status s = own_group(in, project, group, err);
    if (s == DIBS_NOT_FOUND && find_first(in, group, '/', NULL, found, NULL) == DIBS_OK) {
        s = own_group(in, project, group, err); /* the name found may be our own project's first */
        if (s == DIBS_NOT_FOUND)
            add_suffix(group, project);
    }
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    (void) text_copy(in->group, sizeof in->group, group);
    in->project = project;
    return DIBS_OK;
}

dibs_status core_name(struct core_names *in, const char *name, const char *project,
                      char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    char group[DIBS_NAME_PART_MAX + 1];
    const char *rest = name + strcspn(name, "/");

    if (!project || !project[0]) {
        (void) text_copy(out, DIBS_NAME_MAX + 1, name);
        return DIBS_OK;
    }
    dibs_status s = find_first(in, name, '\0', project, out, err);
    if (s != DIBS_NOT_FOUND)
        return s;
    (void) snprintf(group, sizeof group, "%.*s", (int) (rest - name), name);
    s = find_group(in, project, group, err);
    if (s == DIBS_OK)
        s = join(group, rest, out, err);
    if (s == DIBS_OK)
        s = is_taken(in, out, project, err);
    if (s == DIBS_OK && !strchr(group, '~')) { /* two directories may have started at once */
        add_suffix(group, project);
        s = join(group, rest, out, err);
        if (s == DIBS_OK)
            s = is_taken(in, out, project, err);
    }
    if (s == DIBS_OK)
        return err_set(err, DIBS_TAKEN, "name '%s' belongs to another directory; set a group", out);
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}
