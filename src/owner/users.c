/* SPDX-License-Identifier: MIT */
/* Whose uids these are: a user namespace has its own numbers, and root in one is not root of the host. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "owner/look.h"
#include "owner/owner.h"

#include "base/banned.h"

/* PROC_USER_INIT_INO of the kernel: fixed, part of its ABI. */
#define INITIAL_USERNS 0xEFFFFFFDu
/* 340 lines (the kernel's bound) of three numbers of ten digits, and blanks. */
#define MAP_TEXT_MAX 16384

/* The number at *p, which is left behind it; false at the end or when it is none. */
static bool next_number(const char **p, uint32_t *out)
{
    const char *first = *p + strspn(*p, " \t\n");
    const char *end = first + strcspn(first, " \t\n");
    int64_t value = 0;

    if (!look_number(first, end, &value) || value < 0 || value > UINT32_MAX)
        return false;
    *out = (uint32_t) value;
    *p = end;
    return true;
}

static bool parse_map(const char *text, struct owner_users *out)
{
    for (const char *p = text; p[strspn(p, " \t\n")] != '\0'; out->n++) {
        struct owner_extent *e = &out->extent[out->n];

        if (out->n == OWNER_EXTENTS_MAX || !next_number(&p, &e->inside) || !next_number(&p, &e->above) ||
            !next_number(&p, &e->n))
            return false;
    }
    return true;
}

dibs_status owner_users_load(struct owner_users *out, dibs_err *err)
{
    char text[MAP_TEXT_MAX];
    const char *p = text;
    uint64_t ours = look_namespace(AT_FDCWD, "/proc/self/ns/user");

    *out = (struct owner_users){ .overflow = OWNER_UID_UNKNOWN };
    /* No link: a kernel without user namespaces. */
    out->is_initial = ours == INITIAL_USERNS || (ours == 0 && errno == ENOENT);
    if (out->is_initial)
        return DIBS_OK;
    if (look_file(AT_FDCWD, "/proc/sys/kernel/overflowuid", text, sizeof text) < 0 ||
        !next_number(&p, &out->overflow) ||
        look_file(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0 || !parse_map(text, out))
        return err_set(err, DIBS_FAILURE,
                       "cannot read the uids of this user namespace in /proc/self/uid_map");
    return DIBS_OK;
}

uint32_t owner_uid_above(const struct owner_users *users, uint32_t uid)
{
    if (users->is_initial)
        return uid;
    for (size_t i = 0; i < users->n; i++) {
        const struct owner_extent *e = &users->extent[i];

        if (uid >= e->inside && uid - e->inside < e->n)
            return e->above + (uid - e->inside);
    }
    return OWNER_UID_UNKNOWN;
}

uint32_t owner_seen_uid(const struct owner_users *users, uint32_t uid)
{
    return uid == users->overflow ? OWNER_UID_UNKNOWN : owner_uid_above(users, uid);
}
