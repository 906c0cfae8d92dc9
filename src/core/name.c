/* SPDX-License-Identifier: MIT */
/* Which name a project's request has. Two clones of one repository have the same directory name, and so the
 * same group; handing one the other's port would be the worst failure of all (testing somebody else's
 * server). The first directory has the plain name, others a group marked with a hash of their path. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "core/core.h"

#include "base/banned.h"

enum { MARK_BYTES = 7 }; /* '~' and six hex digits */

static bool is_ours(const dibs_claim *claim, const char *project)
{
    return !claim->project[0] || strcmp(claim->project, project) == 0;
}

/* "shop/web" -> "shop~1a2b3c/web"; cut at a character, not inside one. */
static void marked(const char *name, const char *project, char out[DIBS_NAME_MAX + 1])
{
    size_t group = strcspn(name, "/");
    size_t keep = group;
    uint64_t hash = order_fnv1a(ORDER_FNV_BASIS, project, strlen(project));

    if (keep > DIBS_NAME_PART_MAX - MARK_BYTES)
        keep = DIBS_NAME_PART_MAX - MARK_BYTES;
    while (keep > 0 && ((unsigned char) name[keep] & 0xc0) == 0x80)
        keep--;
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%.*s~%06x%s", (int) keep, name, (unsigned) (hash & 0xffffff),
                    name + group);
}

dibs_status core_name(struct core *core, const char *name, const char *project, char out[DIBS_NAME_MAX + 1],
                      dibs_err *err)
{
    dibs_claim claim;
    char other[DIBS_NAME_MAX + 1];
    const char *principal = core->options.principal;

    (void) text_copy(out, DIBS_NAME_MAX + 1, name);
    if (!project || !project[0] || !strchr(name, '/'))
        return DIBS_OK;
    dibs_status s = ledger_find_name(core->ledger, principal, name, &claim, NULL, err);
    bool is_free = s == DIBS_NOT_FOUND;
    if ((s != DIBS_OK && !is_free) || (s == DIBS_OK && is_ours(&claim, project)))
        return is_free ? DIBS_OK : s;
    marked(name, project, other);
    if (strlen(name) > DIBS_NAME_MAX - MARK_BYTES)
        return err_set(err, DIBS_TAKEN,
                       "name '%s' belongs to %s, and is too long to be told apart; set a group", name,
                       claim.project);
    s = ledger_find_name(core->ledger, principal, other, &claim, NULL, err);
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    if (s == DIBS_OK || !is_free)
        (void) text_copy(out, DIBS_NAME_MAX + 1, other);
    return DIBS_OK;
}
