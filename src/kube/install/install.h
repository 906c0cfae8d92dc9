/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INSTALL_INSTALL_H
#define DIBS_KUBE_INSTALL_INSTALL_H
/* The objects that install dibs in a cluster: the files of contrib/k8s with the user's values. A mark "#
 * {NAME}" behind a value in these files is the place of NAME. */
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/status.h"

#define INSTALL_NAMESPACE "dibs"                 /* in the files */
#define INSTALL_SERVICE "dibs-webhook"           /* the webhook's Service, in that namespace */
#define INSTALL_INSTALLATION "dibs-installation" /* the Secret of webhook and controller */
#define INSTALL_KEYS "installation"              /* its key */

struct install_value {
    const char *name;
    const char *text; /* NULL: the files' value stays */
    bool is_yaml;     /* already YAML, not to be quoted */
    bool is_dropped;  /* leave the line out, and those below it that are indented more */
};

/* The contents of the Secrets; ended by install_secrets_done(). */
struct install_secrets {
    char *authority, *server, *key; /* the webhook's certificates and key, in PEM */
    char *installation; /* the text of an installation (installation.h); NULL: there is none yet */
};

/* Read them from Secrets as printed by `kubectl get -o yaml` (or json), one or a list: ca.crt, tls.crt,
 * tls.key, installation. INVALID: one of the first three is missing or not PEM, or the installation is
 * damaged. Messages call the text `name`. */
dibs_status install_secrets_read(const char *name, const char *text, size_t len, struct install_secrets *out,
                                 dibs_err *err);
/* Make them for a server with the DNS name `name`, valid from `wall_ms` on. FAILURE: GnuTLS failed. */
dibs_status install_tls_make(const char *name, int64_t wall_ms, struct install_secrets *out, dibs_err *err);
void install_secrets_done(struct install_secrets *secrets); /* erases them */

/* INVALID: Kubernetes would refuse it as a namespace or as an image. */
dibs_status install_check_namespace(const char *text, dibs_err *err);
dibs_status install_check_image(const char *text, dibs_err *err);
/* Write the webhook's NetworkPolicy rule for address ranges ("10.0.0.0/28") as YAML. INVALID: not a range. */
dibs_status install_write_ingress(const char *const *ranges, size_t n, struct bytes *out, dibs_err *err);
/* Write all objects. `values` end with a NULL name; `secrets` gives the authority and the Secrets. `out` has
 * keys in it: the caller ends it with secret_done(). FAILURE: out of memory. */
dibs_status install_write(const struct install_value *values, const struct install_secrets *secrets,
                          struct bytes *out, dibs_err *err);
#endif
