/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_PROTOCOL_H
#define DIBS_KUBE_PROTOCOL_H
/* Protocols as Kubernetes writes them: "TCP", "UDP", "SCTP". A set has bit (1 << proto) for each. */
#include "codec/json.h"
#include "workload/workload.h"

enum { PROTOCOLS_END = DIBS_PROTO_MAX + 1 };

const char *protocol_name(dibs_proto proto);
/* Return the set with that one protocol; 0: unknown name. */
uint8_t protocol_bit(const char *name);
/* Return the protocols of a workload port's bindings. */
uint8_t protocols_of(const struct workload_port *port);
/* Write the key "protocols" with the names of a set. */
void protocols_write(struct jsonw *w, uint8_t protos);
/* Write the bindings of these protocols on all addresses. */
void protocols_bind(uint8_t protos, dibs_binding bindings[DIBS_BINDINGS_MAX], size_t *n);
#endif
