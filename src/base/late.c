/* SPDX-License-Identifier: MIT */
#include "base/late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void load(struct late_library *library)
{
    void *handle = dlopen(library->name, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? NULL : dlerror();

    if (!handle)
        why = why ? why : "unknown reason";
    for (size_t i = 0; i < library->n_symbols && !why; i++) {
        void *found = dlsym(handle, library->symbols[i].name);

        if (!found) {
            (void) snprintf(library->trouble, sizeof library->trouble, "it has no function %s",
                            library->symbols[i].name);
            return;
        }
        memcpy(library->symbols[i].function, &found,
               sizeof found); /* ISO C has no cast from object to function pointer */
    }
    if (!why && library->begin)
        why = library->begin();
    if (why)
        (void) snprintf(library->trouble, sizeof library->trouble, "%s", why);
    else
        atomic_store_explicit(&library->is_loaded, true, memory_order_release);
}

dibs_status late_need(struct late_library *library, dibs_err *err)
{
    if (atomic_load_explicit(&library->is_loaded, memory_order_acquire))
        return DIBS_OK;
    (void) pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&library->is_loaded, memory_order_relaxed) && !library->trouble[0])
        load(library);
    (void) pthread_mutex_unlock(&lock);
    return library->trouble[0] ? err_set(err, DIBS_FAILURE, "cannot load %s, which %s: %s", library->name,
                                         library->what, library->trouble)
                               : DIBS_OK;
}
