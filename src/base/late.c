/* SPDX-License-Identifier: MIT */
#include "base/late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* NULL: every function is there. */
static const char *find_all(struct late_library *library, void *handle)
{
    for (size_t i = 0; i < library->n_symbols; i++) {
        void *found = dlsym(handle, library->symbols[i].name);

        if (!found)
            return library->symbols[i].name;
        memcpy(library->symbols[i].function, &found,
               sizeof found); /* ISO C has no cast from object to function pointer */
    }
    return NULL;
}

static dibs_status load(struct late_library *library, dibs_err *err)
{
    void *handle = dlopen(library->name, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? NULL : dlerror();
    const char *missing = handle ? find_all(library, handle) : NULL;

    if (!handle)
        why = why ? why : "unknown reason";
    else if (!missing && library->begin)
        why = library->begin();
    if (!why && !missing) {
        atomic_store_explicit(&library->is_loaded, true, memory_order_release);
        return DIBS_OK;
    }
    if (handle)
        (void) dlclose(handle);
    return err_set(err, DIBS_FAILURE, "cannot load %s, which %s: %s%s", library->name, library->what,
                   missing ? "it has no function " : "", missing ? missing : why);
}

dibs_status late_need(struct late_library *library, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    if (atomic_load_explicit(&library->is_loaded, memory_order_acquire))
        return DIBS_OK;
    (void) pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&library->is_loaded, memory_order_relaxed))
        s = load(library, err);
    (void) pthread_mutex_unlock(&lock);
    return s;
}
