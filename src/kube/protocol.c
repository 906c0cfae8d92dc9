/* SPDX-License-Identifier: MIT */
#include "kube/protocol.h"

#include <string.h>

#include "net/bindings.h"
#include "net/proto.h"

#include "base/banned.h"

const char *protocol_name(dibs_proto proto)
{
    return proto_row(proto)->kubernetes;
}

uint8_t protocol_bit(const char *name)
{
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if (strcmp(protocol_name(proto), name) == 0)
            return (uint8_t) (1u << proto);
    return 0;
}

uint8_t protocols_of(const struct workload_port *port)
{
    size_t n = 0;
    const dibs_binding *bindings = workload_bindings(port, &n);
    unsigned protos = 0;

    for (size_t i = 0; i < n; i++)
        protos |= 1u << bindings[i].proto;
    return (uint8_t) protos;
}

void protocols_write(struct jsonw *w, uint8_t protos)
{
    jsonw_key_array(w, "protocols");
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if (protos & 1u << proto)
            jsonw_string(w, protocol_name(proto));
    jsonw_end_array(w);
}

void protocols_bind(uint8_t protos, dibs_binding bindings[DIBS_BINDINGS_MAX], size_t *n)
{
    dibs_proto all[DIBS_PROTO_MAX];
    size_t n_protos = 0;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if (protos & 1u << proto)
            all[n_protos++] = proto;
    (void) !bindings_add("*", all, n_protos, bindings, n, NULL); /* cannot fail: "*" is an address */
}
