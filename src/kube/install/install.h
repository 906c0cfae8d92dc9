/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INSTALL_INSTALL_H
#define DIBS_KUBE_INSTALL_INSTALL_H
/* The objects that bring dibs into a cluster: the files of contrib/k8s, with the values that are somebody's
 * own.
 *
 * Which values these are, the files say themselves: "# {NAME}" behind one is the place of NAME. */
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/status.h"

#define INSTALL_NAMESPACE "dibs"       /* as the files have it */
#define INSTALL_SERVICE "dibs-webhook" /* the webhook's, in that namespace */

struct install_value {
    const char *name;
    const char *text; /* NULL: what the files say stays */
    bool is_yaml;     /* it is YAML already, not a text to be quoted */
};

/* Certificates and key of the webhook, in PEM; ended by install_tls_done(). */
struct install_tls {
    char *authority, *server, *key;
};

/* Read them from a Secret as `kubectl get -o yaml` (or json) prints it: ca.crt, tls.crt, tls.key. INVALID:
 * one of them is missing or no PEM. `name` stands for the text in messages. */
dibs_status install_tls_read(const char *name, const char *text, size_t len, struct install_tls *out,
                             dibs_err *err);
/* Make them for a server that is asked for by the DNS name `name`, from `wall_ms` on. FAILURE: GnuTLS cannot.
 */
dibs_status install_tls_make(const char *name, int64_t wall_ms, struct install_tls *out, dibs_err *err);
void install_tls_done(struct install_tls *tls); /* leaves no key in memory */

/* INVALID: Kubernetes would refuse it as a namespace, or as an image. */
dibs_status install_check_namespace(const char *text, dibs_err *err);
dibs_status install_check_image(const char *text, dibs_err *err);
/* Where the API servers are, "10.0.0.0/28", becomes the YAML of who may come in. INVALID: an address is none.
 */
dibs_status install_write_peers(const char *const *ranges, size_t n, struct bytes *out, dibs_err *err);
/* `values` end with a name that is NULL. The authority and the Secret come from `tls`, in the namespace that
 * is among the values. The caller ends `out` with secret_done(): there is a key in it. FAILURE: out of
 * memory. */
dibs_status install_write(const struct install_value *values, const struct install_tls *tls,
                          struct bytes *out, dibs_err *err);
#endif
