/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HTTP_LATE_MHD_H
#define DIBS_HTTP_LATE_MHD_H
/* libmicrohttpd, loaded by the first server and not before: it brings GnuTLS along, and that costs a light
 * command more than all of its work. */
#include <microhttpd.h>

#include "dibs/status.h"

/* One row is a function that we call; the types are the header's own. */
#define MHD_MAP(X)                                            \
    X(MHD_start_daemon)                                       \
    X(MHD_stop_daemon)                                        \
    X(MHD_run)                                                \
    X(MHD_get_timeout)                                        \
    X(MHD_get_daemon_info)                                    \
    X(MHD_add_connection)                                     \
    X(MHD_get_connection_info)                                \
    X(MHD_lookup_connection_value)                            \
    X(MHD_suspend_connection)                                 \
    X(MHD_resume_connection)                                  \
    X(MHD_create_response_from_buffer_with_free_callback_cls) \
    X(MHD_create_response_from_callback)                      \
    X(MHD_add_response_header)                                \
    X(MHD_queue_response)                                     \
    X(MHD_destroy_response)

struct late_mhd {
#define X(name) __typeof__(&(name)) name;
    MHD_MAP(X)
#undef X
};

/* Every function of it, for the life of the process. FAILURE when the library is missing. */
dibs_status late_mhd(const struct late_mhd **out, dibs_err *err);
#endif
