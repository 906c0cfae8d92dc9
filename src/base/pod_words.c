/* SPDX-License-Identifier: MIT */
#include "base/pod_words.h"

#include <stdio.h>
#include <string.h>

#include "base/name_part.h"

#include "base/banned.h"

static bool is_of_namespace(const dibs_claim *claim)
{
    return strncmp(claim->principal, "ns:", strlen("ns:")) == 0;
}

static void copy_part(const char *name, size_t i, char out[DIBS_NAME_PART_MAX + 1])
{
    const char *part = name_part_at(name, i);

    (void) snprintf(out, DIBS_NAME_PART_MAX + 1, "%.*s", part ? (int) strcspn(part, "/") : 0,
                    part ? part : "");
}

bool pod_words_is_pending(const dibs_claim *claim)
{
    return is_of_namespace(claim) && claim->holder == DIBS_HELD_BY_LEASE;
}

bool pod_words_owner(const dibs_claim *claim, char *out, size_t size)
{
    char parts[DIBS_NAME_PARTS_MAX][DIBS_NAME_PART_MAX + 1];
    const char *set = strncmp(claim->keeper, "StatefulSet/", 12) == 0 ? claim->keeper + 12 : NULL;
    char who[256];

    if (strcmp(claim->principal, "kube:observed") == 0 && claim->keeper[0]) {
        (void) snprintf(out, size, "%s", claim->keeper);
        return true;
    }
    if (!is_of_namespace(claim))
        return false;
    for (size_t i = 0; i < DIBS_NAME_PARTS_MAX; i++)
        copy_part(claim->name, i, parts[i]);
    const char *bare = strncmp(parts[0], "Pod.", 4) == 0 ? parts[0] + 4 : NULL;
    const char *instance = parts[2];
    if (!claim->keeper[0] && strcmp(instance, "-") == 0)
        (void) snprintf(who, sizeof who, "role '%s', to which pods refer,", parts[1]);
    else if (!claim->keeper[0])
        (void) snprintf(who, sizeof who, "instance %s of role '%s', to which pods refer,", instance,
                        parts[1]);
    else if (strcmp(instance, "-") == 0)
        (void) snprintf(who, sizeof who, "all pods of role '%s'", parts[1]);
    else if (instance[0] == '~' && bare)
        (void) snprintf(who, sizeof who, "pod '%s'", bare);
    else if (instance[0] == '~')
        (void) snprintf(who, sizeof who, "a pod of role '%s'", parts[1]);
    else if (set)
        (void) snprintf(who, sizeof who, "pod '%s-%s'", set, instance);
    else if (strcmp(parts[3], "-") == 0)
        (void) snprintf(who, sizeof who, "pod %s of %s", instance, claim->keeper);
    else
        (void) snprintf(who, sizeof who, "the pod %s/%s of %s", instance, parts[3], claim->keeper);
    (void) snprintf(out, size, "%s in namespace '%s'", who, claim->principal + strlen("ns:"));
    return true;
}

bool pod_words_port(const dibs_claim *claim, char *out, size_t size)
{
    char port[DIBS_NAME_PART_MAX + 1];
    char who[512];

    if (!pod_words_owner(claim, who, sizeof who))
        return false;
    copy_part(claim->name, DIBS_NAME_PARTS_MAX - 1, port);
    (void) snprintf(out, size, "%s%s%s%s", is_of_namespace(claim) ? "port '" : "",
                    is_of_namespace(claim) ? port : "", is_of_namespace(claim) ? "' of " : "", who);
    return true;
}
