/* SPDX-License-Identifier: MIT */
#include "workload/present.h"

#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"

#include "base/banned.h"

void present_free(struct present *p)
{
    free(p->claims);
    *p = (struct present){ 0 };
}

/* "group/role/0/component/port", "group/role/-/component/port", either with a number as a sixth part */
bool present_is_manifest_name(const char *name)
{
    int slashes = 0;
    bool is_instance = false;

    for (const char *c = name; *c; c++) {
        if (*c != '/' || ++slashes != 2)
            continue;
        size_t digits = strspn(c + 1, "0123456789");

        is_instance = (digits > 0 && c[1 + digits] == '/') || strncmp(c + 1, "-/", 2) == 0;
    }
    return is_instance && slashes >= DIBS_NAME_PARTS_MAX - 1;
}

size_t present_pod_length(const char *name)
{
    size_t len = strcspn(name, "/");

    for (int part = 1; part < DIBS_NAME_PARTS_MAX - 1; part++)
        len += 1 + strcspn(name + len + 1, "/");
    return len;
}

bool present_is_use(const dibs_claim *claim)
{
    return !claim->is_exclusive && !claim->is_kept && claim->holder == DIBS_HELD_BY_PROCESS;
}

static bool take_claim(void *ctx, const dibs_claim *claim)
{
    struct present *p = ctx;

    if (!present_is_manifest_name(claim->name))
        return true;
    p->is_full = !grow((void **) &p->claims, p->n, &p->max, sizeof *p->claims);
    if (p->is_full)
        return false;
    p->claims[p->n++] = *claim;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const dibs_claim *x = a;
    const dibs_claim *y = b;

    return strcmp(x->name, y->name);
}

static int name_to_claim(const void *name, const void *claim)
{
    const dibs_claim *c = claim;

    return strcmp(name, c->name);
}

dibs_status present_list(dibs *handle, const struct workload_group *group, struct present *out, dibs_err *err)
{
    dibs_filter filter = { .name_prefix = group->project ? NULL : group->group,
                           .project = group->project,
                           .principal = dibs_principal_of(handle),
                           .judge = true };
    dibs_status s = dibs_claim_list(handle, &filter, take_claim, out, err);

    if (s == DIBS_OK && out->is_full)
        s = err_set(err, DIBS_FAILURE, "workload: out of memory");
    if (s == DIBS_OK && out->n > 0)
        qsort(out->claims, out->n, sizeof *out->claims, by_name);
    return s;
}

size_t present_find(const struct present *p, const char *name)
{
    const dibs_claim *found = p->n ? bsearch(name, p->claims, p->n, sizeof *p->claims, name_to_claim) : NULL;

    return found ? (size_t) (found - p->claims) : p->n;
}

bool present_is_held(const dibs_claim *claim)
{
    return claim->holder != DIBS_HELD_BY_NOBODY && claim->life != DIBS_DEAD;
}

bool present_is_run_with(const dibs_claim *claim)
{
    return claim->holder == DIBS_HELD_BY_PROCESS && present_is_held(claim);
}

/* Find the first claim of that kind whose name begins with these bytes; NULL: none. */
static const dibs_claim *find_first(const struct present *p, const char *name, size_t len,
                                    bool (*is_it)(const dibs_claim *claim))
{
    for (size_t i = 0; i < p->n; i++)
        if (strncmp(p->claims[i].name, name, len) == 0 && is_it(&p->claims[i]))
            return &p->claims[i];
    return NULL;
}

size_t present_shared_length(const dibs_claim *claim)
{
    const char *role = strchr(claim->name, '/') + 1;
    const char *instance = strchr(role, '/') + 1;

    return instance[0] == '-' ? (size_t) (instance - claim->name) : 0;
}

const dibs_claim *present_role_user(const struct present *p, const dibs_claim *claim)
{
    size_t len = present_shared_length(claim);
    const dibs_claim *running = len > 0 ? find_first(p, claim->name, len, present_is_run_with) : NULL;

    return running || len == 0 ? running : find_first(p, claim->name, len, present_is_held);
}

/* Match the directory under any group name: the group may have been renamed since the pod started. */
static bool is_of(const dibs_claim *claim, const struct workload_group *group, const struct workload_pod *pod)
{
    char name[DIBS_NAME_MAX + 1];

    workload_pod_prefix(group, pod, name);
    size_t ours = group->project ? strcspn(name, "/") : 0;
    size_t theirs = group->project ? strcspn(claim->name, "/") : 0;
    size_t len = strlen(name) - ours;
    return len == present_pod_length(claim->name) - theirs &&
           strncmp(name + ours, claim->name + theirs, len) == 0;
}

static dibs_status refuse(const dibs_claim *claim, dibs_err *err)
{

    (void) err_set(err, DIBS_TAKEN,
                   "it runs already: pid %d (%s) holds '%s' (port %u)%s; wait for its end, or 'dibs stop'",
                   claim->process.pid, claim->command[0] ? claim->command : "?", claim->name, claim->port,
                   claim->is_orphan ? ", or a process that inherited its socket ('dibs who' names it)"
                   : claim->life == DIBS_UNKNOWN ? ", and it is unknown whether it is alive"
                                                 : "");
    if (err) {
        err->blocker = (dibs_blocker){ .relation = DIBS_REL_SAME_NAME,
                                       .port = claim->port,
                                       .pid = claim->process.pid,
                                       .uid = claim->uid,
                                       .since_ms = claim->created_ms };
        (void) text_copy(err->blocker.name, sizeof err->blocker.name, claim->name);
        (void) text_copy(err->blocker.command, sizeof err->blocker.command, claim->command);
    }
    return DIBS_TAKEN;
}

dibs_status workload_check_idle(dibs *handle, const struct workload_group *group,
                                const struct workload_pod *const *pods, size_t n, dibs_err *err)
{
    AUTO(present_free) struct present present = { 0 };
    dibs_status s = present_list(handle, group, &present, err);

    for (size_t i = 0; i < present.n && s == DIBS_OK; i++) {
        const dibs_claim *claim = &present.claims[i];

        if (!present_is_run_with(claim))
            continue; /* a lease does not block: its user may give the port to a process */
        for (size_t k = 0; k < n && s == DIBS_OK; k++)
            if (is_of(claim, group, pods[k]))
                s = refuse(claim, err);
    }
    return s;
}
