/* SPDX-License-Identifier: MIT */
#include "base/late.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

bool late_load(const char *library, const struct late_symbol *symbols, size_t n, char *trouble, size_t size)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        const char *why = dlerror();

        (void) snprintf(trouble, size, "%s", why ? why : "unknown reason");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, symbols[i].name);

        if (!found) {
            (void) snprintf(trouble, size, "%s has no function %s", library, symbols[i].name);
            return false;
        }
        memcpy(symbols[i].function, &found,
               sizeof found); /* ISO C has no cast from object to function pointer */
    }
    return true;
}
