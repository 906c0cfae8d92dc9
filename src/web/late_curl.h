/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WEB_LATE_CURL_H
#define DIBS_WEB_LATE_CURL_H
/* libcurl, loaded by the first client and not before: it brings OpenSSL and a dozen others along, which costs
 * a light command more than all of its work. */
#define CURL_DISABLE_TYPECHECK /* its macros would stand in the way of calls by pointer */
#include <curl/curl.h>

#include "dibs/status.h"

/* One row is a function that we call; the types are the header's own. */
#define CURL_MAP(X)             \
    X(curl_global_init)         \
    X(curl_easy_init)           \
    X(curl_easy_cleanup)        \
    X(curl_easy_reset)          \
    X(curl_easy_setopt)         \
    X(curl_easy_getinfo)        \
    X(curl_easy_strerror)       \
    X(curl_slist_append)        \
    X(curl_slist_free_all)      \
    X(curl_multi_init)          \
    X(curl_multi_cleanup)       \
    X(curl_multi_add_handle)    \
    X(curl_multi_remove_handle) \
    X(curl_multi_setopt)        \
    X(curl_multi_socket_action) \
    X(curl_multi_info_read)

struct late_curl {
#define X(name) __typeof__(&(name)) name;
    CURL_MAP(X)
#undef X
};

/* Every function of it, for the life of the process. FAILURE when the library is missing. */
dibs_status late_curl(const struct late_curl **out, dibs_err *err);
#endif
