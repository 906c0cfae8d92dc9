/* SPDX-License-Identifier: MIT */
/* Any text as a manifest, YAML or JSON: what is accepted is a sound group whose claims all have different
 * names, and every reference finds its target; what is refused has a place and a reason that is safe to
 * print.
 */
#include <stdlib.h>
#include <string.h>

#include "dibs/settings.h"
#include "support/check.h"
#include "workload/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const dibs_err *err)
{
    CHECK(err->code == DIBS_INVALID);
    CHECK(strncmp(err->msg, "file:", 5) == 0);
    for (const char *at = err->msg; *at; at++)
        CHECK((unsigned char) *at >= 0x20 && *at != 0x7f);
}

static int compare_names(const void *a, const void *b)
{
    const struct workload_need *x = a;
    const struct workload_need *y = b;

    return strcmp(x->name, y->name);
}

static void check_names(const struct workload_group *group)
{
    struct workload_needs needs = { 0 };
    dibs_err err = { .code = DIBS_OK };

    CHECK(workload_needs_all(group, &needs, &err) == DIBS_OK);
    CHECK(needs.n <= DIBS_BATCH_MAX);
    if (needs.n)
        qsort(needs.all, needs.n, sizeof *needs.all, compare_names);
    for (size_t i = 0; i < needs.n; i++) {
        CHECK(dibs_name_check(needs.all[i].name, &err) == DIBS_OK);
        CHECK(i == 0 || strcmp(needs.all[i - 1].name, needs.all[i].name) != 0);
    }
    workload_needs_free(&needs);
}

/* The first pod of each component gets every variable. */
static void check_pods(const struct workload_group *group)
{
    for (size_t r = 0; r < group->n_roles; r++) {
        const struct workload_role *role = &group->roles[r];

        CHECK(role->n_components > 0);
        for (size_t c = 0; role->instances > 0 && c < role->n_components; c++) {
            const struct workload_component *component = &role->components[c];
            struct workload_pod pod = { .role = role, .component = component };
            struct workload_needs needs = { 0 };
            dibs_err err = { .code = DIBS_OK };

            if (component->size == 0)
                continue;
            CHECK(workload_needs_of(group, &pod, &needs, &err) == DIBS_OK);
            for (size_t i = 0; i < component->n_ports; i++)
                CHECK(workload_is_env_name(component->ports[i].env));
            workload_needs_free(&needs);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct workload_group *group = NULL;
    dibs_err err = { .code = DIBS_OK };

    if (workload_manifest_parse("file", (const char *) data, size, &group, &err) != DIBS_OK) {
        CHECK(group == NULL);
        check_refusal(&err);
        return 0;
    }
    CHECK(workload_check(group, &err) == DIBS_OK);
    for (size_t i = 0; i < group->n_settings; i++)
        CHECK(strlen(group->settings[i].value) <= DIBS_SETTING_VALUE_MAX);
    memcpy(group->group, "group", sizeof "group");
    check_names(group);
    check_pods(group);
    workload_free(group);
    return 0;
}
