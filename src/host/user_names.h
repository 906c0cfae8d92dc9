/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_USER_NAMES_H
#define DIBS_HOST_USER_NAMES_H
/* The users of /etc/passwd. A daemon must not ask the name service, which may wait for a network. */
#include <stddef.h>
#include <stdint.h>

enum { USER_NAME_MAX = 32 }; /* as useradd allows */

struct user_name {
    uint32_t uid;
    char name[USER_NAME_MAX + 1];
};
struct user_names { /* start with zeros; ascending by uid */
    struct user_name *list;
    size_t n, max;
};

/* Read the file. Without it, or without memory, some users have no name. */
void user_names_load(struct user_names *out);
void user_names_done(struct user_names *names);
/* Return the name of a user, or NULL. */
const char *user_names_find(const struct user_names *names, uint32_t uid);
#endif
