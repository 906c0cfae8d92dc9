/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_LATE_H
#define DIBS_BASE_LATE_H
/* A shared library that is loaded when it is first needed: commands that do not need it must not pay for it
 * at start-up. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "dibs/status.h"

struct late_symbol {
    const char *name;
    void *function; /* address of a function pointer */
};
#define LATE_SYMBOL(table, name) { #name, &(table).name },

struct late_library {
    const char *name;
    const char *what; /* it does: "serves HTTP" */
    const struct late_symbol *symbols;
    size_t n_symbols;
    /* Optional: after the symbols are there; other threads wait. What comes back is a trouble. */
    const char *(*begin)(void);
    atomic_bool is_loaded;
};
/* Its symbols of a table that an X macro lists. */
#define LATE_SYMBOLS(list) .symbols = (list), .n_symbols = sizeof(list) / sizeof(list)[0]

/* Every function pointer is filled, for the life of the process. FAILURE with the reason: it is tried again
 * when it is next needed, there may have been no descriptor left just then. */
dibs_status late_need(struct late_library *library, dibs_err *err);
#endif
