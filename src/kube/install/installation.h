/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INSTALL_INSTALLATION_H
#define DIBS_KUBE_INSTALL_INSTALLATION_H
/* One installation of dibs in a cluster. Its id says which cluster a ledger serves, and its keys sign what
 * the webhook assigns to a pod, since every user who may create pods can write the annotations. Webhook and
 * controller read it from one file, which `dibs kube install` makes:
 *
 *     id 5b0c...
 *     key 83ff...
 *
 * The first key signs; the signatures of all keys are valid. */
#include <stdbool.h>
#include <stddef.h>

#include "dibs/status.h"

enum {
    INSTALLATION_ID_MAX = 63,
    INSTALLATION_KEYS_MAX = 8,   /* the current one and those of earlier rotations */
    INSTALLATION_KEY_MIN = 32,   /* bytes */
    INSTALLATION_KEY_MAX = 128,  /* bytes */
    INSTALLATION_TEXT_MAX = 128, /* of a new installation */
    INSTALLATION_SIGNATURE_MAX = 64,
};

struct installation {
    char id[INSTALLATION_ID_MAX + 1];
    char keys[INSTALLATION_KEYS_MAX][INSTALLATION_KEY_MAX + 1];
    size_t n_keys;
};

/* Read the file, which other users must not be able to read (DENIED). INVALID: it has another
 * form, or the path is NULL. */
dibs_status installation_read(const char *path, struct installation *out, dibs_err *err);
/* Parse the text of such a file, called `name` in messages. */
dibs_status installation_parse(const char *name, const char *text, struct installation *out, dibs_err *err);
/* Make the text of a new installation: a random id and a random key. */
dibs_status installation_make(char out[INSTALLATION_TEXT_MAX], dibs_err *err);
void installation_done(struct installation *installation); /* erases the keys */

/* The signed statement: the pod of this principal with this id has these claims. */
struct installation_statement {
    const char *principal, *id, *assigned;
};
/* Write the signature (HMAC-SHA256, in hex). FAILURE: GnuTLS failed. */
dibs_status installation_sign(const struct installation *installation,
                              const struct installation_statement *statement,
                              char out[INSTALLATION_SIGNATURE_MAX + 1], dibs_err *err);
/* Return whether the signature is valid; NULL is not. */
bool installation_has_signed(const struct installation *installation,
                             const struct installation_statement *statement, const char *signature);
#endif
