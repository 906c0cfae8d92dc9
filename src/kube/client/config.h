/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_CONFIG_H
#define DIBS_KUBE_CLIENT_CONFIG_H
/* Where the API server is, whom we trust there, and who we are to it. */
#include <stdbool.h>
#include <stddef.h>

#include "dibs/status.h"

enum {
    KUBEAPI_SERVER_MAX = 300,        /* a host's name of 253 bytes, scheme, port and a short path */
    KUBEAPI_PATH_MAX = 1023,         /* of a file */
    KUBEAPI_NAMESPACE_MAX = 63,      /* a DNS label */
    KUBEAPI_TOKEN_MAX = 16383,       /* of a service account: some 1,200 bytes; of identity providers more */
    KUBEAPI_PEM_MAX_BYTES = 1 << 20, /* hundreds of authorities */
};

/* A PEM text or a token, fixed or from a file that somebody else renews: kubelet puts a new token there long
 * before the old one ends. */
struct kubeapi_credential {
    char *text;                      /* NULL: none */
    char file[KUBEAPI_PATH_MAX + 1]; /* "": it is fixed */
};
enum kubeapi_which {
    KUBEAPI_CA,   /* none: the authorities of the system */
    KUBEAPI_CERT, /* both or none */
    KUBEAPI_KEY,
    KUBEAPI_TOKEN,
    KUBEAPI_CREDENTIALS,
};

struct kubeapi_config {                  /* zero: nothing; ended by kubeapi_config_done() */
    char server[KUBEAPI_SERVER_MAX + 1]; /* "https://10.0.0.1:443", without a slash at its end */
    struct kubeapi_credential credentials[KUBEAPI_CREDENTIALS];
    char ns[KUBEAPI_NAMESPACE_MAX + 1]; /* where we run, or what the context says; "default" else */
};

/* `kubeconfig` names a file; NULL: $KUBECONFIG, else the service account of the pod that we are in. INVALID
 * says what is missing, or cannot be used. */
dibs_status kubeapi_config_load(const char *kubeconfig, struct kubeapi_config *out, dibs_err *err);
void kubeapi_config_done(struct kubeapi_config *config); /* leaves no secret in memory */

/* The text of a kubeconfig. `name` stands for it in messages; files that it names are relative to
 * `directory`, and read here. */
dibs_status kubeconfig_parse(const char *name, const char *text, size_t n, const char *directory,
                             struct kubeapi_config *out, dibs_err *err);
/* Read the credential from its file, if it has one; *is_new is set when it is another one than before. A file
 * that cannot be read, or has nothing that it should have, may be written just now: the text before stays.
 * INVALID: and there is none yet. */
dibs_status kubeapi_renew(struct kubeapi_config *config, enum kubeapi_which which, bool *is_new,
                          dibs_err *err);
#endif
