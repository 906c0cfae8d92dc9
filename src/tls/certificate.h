/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TLS_CERTIFICATE_H
#define DIBS_TLS_CERTIFICATE_H
/* A certificate for one server, and the authority that says so.
 *
 * The authority's key is thrown away when it has signed: nobody can have it sign anything else, and who needs
 * another certificate makes both anew. */
#include <stdint.h>

#include "dibs/status.h"

#define CERTIFICATE_PEM_MAX 2048 /* with P-256 and a name of 253 bytes they are around 900 */
#define CERTIFICATE_YEARS 10 /* one that runs out stops a cluster's admissions, and nobody remembers why */

struct certificate { /* texts in PEM */
    char authority[CERTIFICATE_PEM_MAX];
    char server[CERTIFICATE_PEM_MAX];
    char key[CERTIFICATE_PEM_MAX]; /* of the server, unencrypted */
};

/* For a server that is asked for by the DNS name `name`, from `wall_ms` on. The caller ends it with
 * certificate_done(). FAILURE: GnuTLS is missing, or cannot. */
dibs_status certificate_make(const char *name, int64_t wall_ms, struct certificate *out, dibs_err *err);
void certificate_done(struct certificate *c); /* leaves no key in memory */
#endif
