/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBEAPI_CONFIG_H
#define DIBS_KUBEAPI_CONFIG_H
/* Where the API server is, whom we trust there, and who we are to it. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "dibs/status.h"

enum {
    KUBEAPI_SERVER_MAX = 300,        /* a host's name of 253 bytes, scheme, port and a short path */
    KUBEAPI_PATH_MAX = 1023,         /* of a file */
    KUBEAPI_NAMESPACE_MAX = 63,      /* a DNS label */
    KUBEAPI_TOKEN_MAX = 16383,       /* of a service account: some 1,200 bytes; of identity providers more */
    KUBEAPI_PEM_MAX_BYTES = 1 << 20, /* hundreds of authorities */
};

struct kubeapi_config {                  /* zero: nothing; ended by kubeapi_config_done() */
    char server[KUBEAPI_SERVER_MAX + 1]; /* "https://10.0.0.1:443", without a slash at its end */
    char *ca_pem;                        /* NULL: the authorities of the system */
    char *cert_pem, *key_pem;            /* both or none */
    char ca_file[KUBEAPI_PATH_MAX + 1];  /* where these came from: read again when it changes; "": none */
    char cert_file[KUBEAPI_PATH_MAX + 1], key_file[KUBEAPI_PATH_MAX + 1];
    char *token;                           /* fixed; NULL: none, or the file's */
    char token_file[KUBEAPI_PATH_MAX + 1]; /* read again when it changes; "": none */
    char ns[KUBEAPI_NAMESPACE_MAX + 1];    /* where we run, or what the context says; "default" else */
};

/* `kubeconfig` names a file; NULL: $KUBECONFIG, else the service account of the pod that we are in. INVALID
 * says what is missing, or cannot be used. */
dibs_status kubeapi_config_load(const char *kubeconfig, struct kubeapi_config *out, dibs_err *err);
void kubeapi_config_done(struct kubeapi_config *config); /* leaves no secret in memory */

/* The text of a kubeconfig. `name` stands for it in messages; files that it names are relative to
 * `directory`, and read here. */
dibs_status kubeconfig_parse(const char *name, const char *text, size_t n, const char *directory,
                             struct kubeapi_config *out, dibs_err *err);
/* The whole of a file, NUL-terminated; the caller frees it. `what` says which one it is. */
dibs_status kubeapi_read_file(const char *what, const char *path, size_t max_bytes, char **out,
                              dibs_err *err);
/* Is it the same file, and as it was? */
bool kubeapi_is_same_file(const struct stat *a, const struct stat *b);
#endif
