/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_BINDINGS_H
#define DIBS_NET_BINDINGS_H
/* Bindings from protocols and addresses as text: one parser for every front end. */
#include "dibs/claim.h"
#include "net/proto.h"

/* Append one binding for each protocol and each address of `text` that the list does not cover. */
dibs_status bindings_add(const char *text, const dibs_proto *protos, size_t n_protos,
                         dibs_binding out[DIBS_BINDINGS_MAX], size_t *n, dibs_err *err);
/* Narrow bindings to IPv4: "*" becomes 0.0.0.0, "localhost" its IPv4 half. False: nothing changed. */
bool bindings_narrow(const dibs_binding *wide, size_t n, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n_out);
/* Return whether the kernel would refuse a binding of each list together on one port (INV-1). */
bool bindings_conflict(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b);
/* Return whether the list covers this binding: it is in the list, or both are wildcards. 0.0.0.0 and an
 * IPv6-only :: beside it leave no address of the port to others, so the list then has "*" instead. */
bool bindings_cover(dibs_binding *bindings, size_t n, const dibs_binding *one);
/* Return whether every binding of `inner` is within one of `wide`. IPv4 is within "*", but not within "::".
 */
bool bindings_include(const dibs_binding *wide, size_t n_wide, const dibs_binding *inner, size_t n_inner);
bool bindings_have(const dibs_binding *bindings, size_t n, const dibs_binding *one);
/* Return whether both are the same set of bindings. Neither may contain duplicates. */
bool bindings_same(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b);
#endif
