/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INSTALL_INSTALL_H
#define DIBS_KUBE_INSTALL_INSTALL_H
/* The objects that install dibs in a cluster: the files of contrib/k8s with the user's values. A mark "#
 * {NAME}" behind a value in these files is the place of NAME. */
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/status.h"

#define INSTALL_NAMESPACE "dibs"       /* in the files */
#define INSTALL_SERVICE "dibs-webhook" /* the webhook's Service, in that namespace */

struct install_value {
    const char *name;
    const char *text; /* NULL: the files' value stays */
    bool is_yaml;     /* already YAML, not to be quoted */
    bool is_dropped;  /* leave the line out, and those below it that are indented more */
};

/* The webhook's certificates and key, in PEM; ended by install_tls_done(). */
struct install_tls {
    char *authority, *server, *key;
};

/* Read them from a Secret as printed by `kubectl get -o yaml` (or json): ca.crt, tls.crt, tls.key. INVALID:
 * one is missing or not PEM. Messages call the text `name`. */
dibs_status install_tls_read(const char *name, const char *text, size_t len, struct install_tls *out,
                             dibs_err *err);
/* Make them for a server with the DNS name `name`, valid from `wall_ms` on. FAILURE: GnuTLS failed. */
dibs_status install_tls_make(const char *name, int64_t wall_ms, struct install_tls *out, dibs_err *err);
void install_tls_done(struct install_tls *tls); /* erases the key */

/* INVALID: Kubernetes would refuse it as a namespace or as an image. */
dibs_status install_check_namespace(const char *text, dibs_err *err);
dibs_status install_check_image(const char *text, dibs_err *err);
/* Write the webhook's NetworkPolicy rule for address ranges ("10.0.0.0/28") as YAML. INVALID: not a range. */
dibs_status install_write_ingress(const char *const *ranges, size_t n, struct bytes *out, dibs_err *err);
/* Write all objects. `values` end with a NULL name; `tls` gives the authority and the Secret. `out` has a
 * key in it: the caller ends it with secret_done(). FAILURE: out of memory. */
dibs_status install_write(const struct install_value *values, const struct install_tls *tls,
                          struct bytes *out, dibs_err *err);
#endif
