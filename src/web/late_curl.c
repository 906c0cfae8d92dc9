/* SPDX-License-Identifier: MIT */
#include "web/late_curl.h"

#include <pthread.h>
#include <stdio.h>

#include "base/err.h"
#include "base/late.h"

#include "base/banned.h"

#define LIBRARY "libcurl.so.4"

/* Written once, under pthread_once, and only read afterwards. */
static struct late_curl curl;
static bool is_loaded;
static char trouble[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(curl, name)
        CURL_MAP(X)
#undef X
    };

    if (!late_load(LIBRARY, symbols, sizeof symbols / sizeof symbols[0], trouble, sizeof trouble))
        return;
    /* Here, because it may not run in two threads at once. */
    CURLcode code = curl.curl_global_init(CURL_GLOBAL_DEFAULT);
    is_loaded = code == CURLE_OK;
    if (!is_loaded)
        (void) snprintf(trouble, sizeof trouble, "%s", curl.curl_easy_strerror(code));
}

dibs_status late_curl(const struct late_curl **out, dibs_err *err)
{
    if (pthread_once(&once, load) != 0)
        return err_set(err, DIBS_FAILURE, "cannot load " LIBRARY);
    if (!is_loaded)
        return err_set(err, DIBS_FAILURE, "cannot load " LIBRARY ", which asks other servers: %s", trouble);
    *out = &curl;
    return DIBS_OK;
}
