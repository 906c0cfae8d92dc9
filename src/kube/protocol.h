/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_PROTOCOL_H
#define DIBS_KUBE_PROTOCOL_H
/* Protocols as Kubernetes writes them: "TCP", "UDP", "SCTP". A set of them has bit (1 << proto) for each. */
#include "workload/workload.h"

enum { PROTOCOLS_END = DIBS_PROTO_MAX + 1 };

const char *protocol_name(dibs_proto proto);
/* The set with that one protocol; 0: Kubernetes has none of this name. */
uint8_t protocol_bit(const char *name);
/* The protocols that a port of a workload is bound to. */
uint8_t protocols_of(const struct workload_port *port);
#endif
