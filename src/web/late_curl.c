/* SPDX-License-Identifier: MIT */
#include "web/late_curl.h"

#include "base/late.h"

#include "base/banned.h"

static struct late_curl curl;

/* Once, because it may not run in two threads at the same time. */
static const char *begin(void)
{
    CURLcode code = curl.curl_global_init(CURL_GLOBAL_DEFAULT);

    return code == CURLE_OK ? NULL : curl.curl_easy_strerror(code);
}

dibs_status late_curl(const struct late_curl **out, dibs_err *err)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(curl, name)
        CURL_MAP(X)
#undef X
    };
    static struct late_library library = {
        .name = "libcurl.so.4", .what = "asks other servers", LATE_SYMBOLS(symbols), .begin = begin
    };

    *out = &curl;
    return late_need(&library, err);
}
