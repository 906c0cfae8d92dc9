/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_SUGGEST_H
#define DIBS_BASE_SUGGEST_H
/* Suggest the known name that is nearest to a mistyped one. */
#include <stdbool.h>
#include <stddef.h>

enum {
    SUGGEST_MAX = 64,       /* bytes; a longer name gets no suggestion */
    SUGGEST_HINT_MAX = 300, /* size of suggest_format()'s text */
};

/* A list for messages: "web, api, ..." */
struct suggest_list {
    char text[256];
    size_t used;
    bool is_cut;
};
void suggest_list_add(struct suggest_list *list, const char *name);

struct suggest {
    const char *wanted;
    const char *name; /* the nearest so far; NULL: none is near */
    unsigned distance;
    struct suggest_list all; /* all offered names */
};

/* Compare one known name and keep it if it is the nearest so far. `name` is borrowed. */
void suggest_offer(struct suggest *best, const char *name);
/* Write "; did you mean 'web'?", or "; there are: web, api" when no name is near; safe to print. */
const char *suggest_format(const struct suggest *best, char *out, size_t size);
#endif
