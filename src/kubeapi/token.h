/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBEAPI_TOKEN_H
#define DIBS_KUBEAPI_TOKEN_H
/* A token that somebody else renews: kubelet puts a new one into the file long before the old one ends. */
#include <sys/stat.h>

#include "kubeapi/config.h"

struct token {
    char header[KUBEAPI_TOKEN_MAX + 32]; /* "Authorization: Bearer ..."; "": there is none */
    struct stat seen;                    /* the file, when it was read */
};

/* Read when it is another file than before, or a changed one. A file that cannot be read leaves the token as
 * it was: it may be written just now. INVALID: and there is none yet. */
dibs_status token_look(struct token *token, const struct kubeapi_config *config, dibs_err *err);
void token_done(struct token *token);
#endif
