/* SPDX-License-Identifier: MIT */
#include "host/user_names.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/text.h"

#include "base/banned.h"

enum { USERS_MAX = 65536 }; /* in a file; more are in a directory of the network */

static int by_uid(const void *a, const void *b)
{
    uint32_t x = ((const struct user_name *) a)->uid;
    uint32_t y = ((const struct user_name *) b)->uid;

    return x < y ? -1 : x > y;
}

void user_names_load(struct user_names *out)
{
    FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *user = NULL;

    while (file && out->n < USERS_MAX && (user = fgetpwent(file)) != NULL) {
        if (!grow((void **) &out->list, out->n, &out->max, sizeof *out->list))
            break;
        struct user_name *name = &out->list[out->n];
        name->uid = user->pw_uid;
        out->n += text_copy(name->name, sizeof name->name, user->pw_name);
    }
    if (file)
        (void) fclose(file);
    if (out->n > 1)
        qsort(out->list, out->n, sizeof *out->list, by_uid);
}

void user_names_done(struct user_names *names)
{
    free(names->list);
    *names = (struct user_names){ 0 };
}

const char *user_names_find(const struct user_names *names, uint32_t uid)
{
    const struct user_name key = { .uid = uid };
    const struct user_name *found =
        names->n > 0 ? bsearch(&key, names->list, names->n, sizeof key, by_uid) : NULL;

    return found ? found->name : NULL;
}
