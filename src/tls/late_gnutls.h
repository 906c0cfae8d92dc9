/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TLS_LATE_GNUTLS_H
#define DIBS_TLS_LATE_GNUTLS_H
/* GnuTLS, loaded by who makes certificates and not before. It is there wherever libmicrohttpd is. */
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "dibs/status.h"

/* One row is a function that we call; the types are the header's own. */
#define GNUTLS_MAP(X)                        \
    X(gnutls_strerror)                       \
    X(gnutls_rnd)                            \
    X(gnutls_x509_privkey_init)              \
    X(gnutls_x509_privkey_deinit)            \
    X(gnutls_x509_privkey_generate)          \
    X(gnutls_x509_privkey_export_pkcs8)      \
    X(gnutls_x509_crt_init)                  \
    X(gnutls_x509_crt_deinit)                \
    X(gnutls_x509_crt_set_version)           \
    X(gnutls_x509_crt_set_serial)            \
    X(gnutls_x509_crt_set_dn)                \
    X(gnutls_x509_crt_set_activation_time)   \
    X(gnutls_x509_crt_set_expiration_time)   \
    X(gnutls_x509_crt_set_key)               \
    X(gnutls_x509_crt_get_key_id)            \
    X(gnutls_x509_crt_set_subject_key_id)    \
    X(gnutls_x509_crt_set_authority_key_id)  \
    X(gnutls_x509_crt_set_basic_constraints) \
    X(gnutls_x509_crt_set_key_usage)         \
    X(gnutls_x509_crt_set_key_purpose_oid)   \
    X(gnutls_x509_crt_set_subject_alt_name)  \
    X(gnutls_x509_crt_sign2)                 \
    X(gnutls_x509_crt_export)

struct late_gnutls {
#define X(name) __typeof__(&(name)) name;
    GNUTLS_MAP(X)
#undef X
};

/* Every function of it, for the life of the process. FAILURE when the library is missing. */
dibs_status late_gnutls(const struct late_gnutls **out, dibs_err *err);
#endif
