/* SPDX-License-Identifier: MIT */
#include "tls/late_gnutls.h"

#include <pthread.h>

#include "base/err.h"
#include "base/late.h"

#include "base/banned.h"

#define LIBRARY "libgnutls.so.30"

/* Written once, under pthread_once, and only read afterwards. */
static struct late_gnutls gnutls;
static bool is_loaded;
static char trouble[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(gnutls, name)
        GNUTLS_MAP(X)
#undef X
    };

    is_loaded = late_load(LIBRARY, symbols, sizeof symbols / sizeof symbols[0], trouble, sizeof trouble);
}

dibs_status late_gnutls(const struct late_gnutls **out, dibs_err *err)
{
    if (pthread_once(&once, load) != 0)
        return err_set(err, DIBS_FAILURE, "cannot load " LIBRARY);
    if (!is_loaded)
        return err_set(err, DIBS_FAILURE, "cannot load " LIBRARY ", which makes certificates: %s", trouble);
    *out = &gnutls;
    return DIBS_OK;
}
