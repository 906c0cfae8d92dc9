/* SPDX-License-Identifier: MIT */
#include "http/late_mhd.h"

#include <pthread.h>

#include "base/err.h"
#include "base/late.h"

#include "base/banned.h"

#define LIBRARY "libmicrohttpd.so.12"

/* Written once, under pthread_once, and only read afterwards. */
static struct late_mhd mhd;
static bool is_loaded;
static char trouble[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(mhd, name)
        MHD_MAP(X)
#undef X
    };

    is_loaded = late_load(LIBRARY, symbols, sizeof symbols / sizeof symbols[0], trouble, sizeof trouble);
}

dibs_status late_mhd(const struct late_mhd **out, dibs_err *err)
{
    if (pthread_once(&once, load) != 0)
        return err_set(err, DIBS_FAILURE, "cannot load " LIBRARY);
    if (!is_loaded)
        return err_set(err, DIBS_FAILURE, "cannot load " LIBRARY ", which serves HTTP: %s", trouble);
    *out = &mhd;
    return DIBS_OK;
}
