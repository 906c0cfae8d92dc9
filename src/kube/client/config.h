/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_CONFIG_H
#define DIBS_KUBE_CLIENT_CONFIG_H
/* Configuration of the API server client: address, trusted authorities and credentials. */
#include <stdbool.h>
#include <stddef.h>

#include "dibs/status.h"

enum {
    KUBEAPI_SERVER_MAX = 300,   /* a host name of 253 bytes, scheme, port and a short path */
    KUBEAPI_PATH_MAX = 1023,    /* of a file */
    KUBEAPI_NAMESPACE_MAX = 63, /* a DNS label */
    /* a service account's token has about 1,200 bytes; identity providers issue longer ones */
    KUBEAPI_TOKEN_MAX = 16383,
    KUBEAPI_PEM_MAX_BYTES = 1 << 20, /* room for hundreds of authorities */
};

/* A PEM text or a token, constant or from a file, which kubelet replaces before the token expires. */
struct kubeapi_credential {
    char *text;                      /* NULL: none */
    char file[KUBEAPI_PATH_MAX + 1]; /* "": the text is constant */
};
enum kubeapi_which {
    KUBEAPI_CA,   /* NULL: the system's authorities */
    KUBEAPI_CERT, /* certificate and key: both or neither */
    KUBEAPI_KEY,
    KUBEAPI_TOKEN,
    KUBEAPI_CREDENTIALS,
};

struct kubeapi_config {                  /* zero: empty; ended by kubeapi_config_done() */
    char server[KUBEAPI_SERVER_MAX + 1]; /* "https://10.0.0.1:443", without a trailing slash */
    struct kubeapi_credential credentials[KUBEAPI_CREDENTIALS];
    char ns[KUBEAPI_NAMESPACE_MAX + 1]; /* our pod's namespace, or the context's; otherwise "default" */
};

/* Load the configuration from the file `kubeconfig`; NULL: from $KUBECONFIG, else from the pod's service
 * account. INVALID says what is missing or unusable. */
dibs_status kubeapi_config_load(const char *kubeconfig, struct kubeapi_config *out, dibs_err *err);
void kubeapi_config_done(struct kubeapi_config *config); /* leaves no secret in memory */

/* Parse a kubeconfig, called `name` in messages. Read the files that it names, relative to `directory`. */
dibs_status kubeconfig_parse(const char *name, const char *text, size_t n, const char *directory,
                             struct kubeapi_config *out, dibs_err *err);
/* Reload the credential from its file, if any; set *is_new when it changed. The previous text stays while
 * the file is unreadable or empty: it may just be replaced. INVALID: there is no previous text. */
dibs_status kubeapi_renew(struct kubeapi_config *config, enum kubeapi_which which, bool *is_new,
                          dibs_err *err);
#endif
