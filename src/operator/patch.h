/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_PATCH_H
#define DIBS_OPERATOR_PATCH_H
/* What a pod is told, as a JSONPatch (RFC 6902) of the pod as it came. What it says already is left alone, so
 * that a second time changes nothing. */
#include <stdint.h>

#include "base/bytes.h"
#include "json/json.h"

struct patch_pair {
    const char *name, *value;
};
struct patch_port {
    uint16_t port;
    const char *protocol; /* "TCP", "UDP", "SCTP" */
};
struct patch_plan {
    /* Variables of every container, init containers too: in place of those of the same name, else in front of
     * all, so that what follows can say $(NAME). */
    const struct patch_pair *env;
    size_t n_env;
    const struct patch_pair *annotations;
    size_t n_annotations;
    const char *gone; /* an annotation that is taken away, if it is there; NULL: none */
    /* Ports of the host, which the scheduler then keeps free: where the pod is in the host's network. */
    const struct patch_port *ports;
    size_t n_ports;
    const struct patch_port *obsolete; /* such ports that it brought along, and does not have */
    size_t n_obsolete;
};

bool patch_is_host_network(const json_value *pod);
/* Empty when there is nothing to change. INVALID names the field that makes no sense. */
dibs_status patch_write(const json_value *pod, const struct patch_plan *plan, struct bytes *out,
                        dibs_err *err);
#endif
