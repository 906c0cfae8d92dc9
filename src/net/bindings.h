/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_BINDINGS_H
#define DIBS_NET_BINDINGS_H
/* Protocols times addresses, as people write them, for every door alike. */
#include "dibs/claim.h"

enum { BINDINGS_PROTOS_MAX = 3 }; /* there are no more different ones */

/* "tcp", "tcp,udp", "tcp+udp"; each counts once. */
dibs_status bindings_protos(const char *text, dibs_proto out[BINDINGS_PROTOS_MAX], size_t *n, dibs_err *err);
/* One binding more for each protocol and each address that `text` stands for; those that are there already
 * are left out. */
dibs_status bindings_add(const char *text, const dibs_proto *protos, size_t n_protos,
                         dibs_binding out[DIBS_BINDINGS_MAX], size_t *n, dibs_err *err);
/* What is left of them on a host without IPv6: "*" is 0.0.0.0, and "localhost" its IPv4 half. False: all of
 * them, as they are. */
bool bindings_narrow(const dibs_binding *wide, size_t n, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n_out);
/* Would the kernel refuse one of the first and one of the others on one port (INV-1)? */
bool bindings_conflict(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b);
bool bindings_have(const dibs_binding *bindings, size_t n, const dibs_binding *one);
/* The same ones, in any order? Neither has one twice. */
bool bindings_same(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b);
#endif
