/* SPDX-License-Identifier: MIT */
/* Values of maps, merged ones too. */
#include <string.h>

#include "base/text.h"
#include "kube/objects.h"

#include "base/banned.h"

enum { MERGES_MAX = 64, PATH_MAX_BYTES = 64 };

static const yaml_node *get_within(const yaml_node *map, const char *key, unsigned *budget)
{
    const yaml_node *found = yaml_get(map, key);
    const yaml_node *merged = found ? NULL : yaml_get(map, "<<");

    if (!merged || *budget == 0)
        return found;
    --*budget;
    if (merged->kind == YAML_MAP)
        return get_within(merged, key, budget);
    for (const yaml_node *item = merged->first; !found && merged->kind == YAML_LIST && item;
         item = item->next)
        found = get_within(yaml_follow(item), key, budget);
    return found;
}

const yaml_node *kube_get(const yaml_node *map, const char *key)
{
    unsigned budget = MERGES_MAX;

    return get_within(map, key, &budget);
}

const yaml_node *kube_at(const yaml_node *map, const char *path)
{
    char key[PATH_MAX_BYTES] = "";

    for (;; path++) {
        size_t len = strcspn(path, ".");

        (void) text_copy(key, len + 1 < sizeof key ? len + 1 : sizeof key, path);
        map = kube_get(map, key);
        path += len;
        if (!map || !*path)
            return map;
    }
}
