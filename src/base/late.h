/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_LATE_H
#define DIBS_BASE_LATE_H
/* A shared library that is loaded when it is first needed: commands that do not need it must not pay for it
 * at start-up. */
#include <stdbool.h>
#include <stddef.h>

struct late_symbol {
    const char *name;
    void *function; /* address of a function pointer */
};
#define LATE_SYMBOL(table, name) { #name, &(table).name },

/* Fills every function pointer; false with the reason. The library stays for the life of the process. */
bool late_load(const char *library, const struct late_symbol *symbols, size_t n, char *trouble, size_t size);
#endif
