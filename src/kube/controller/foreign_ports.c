/* SPDX-License-Identifier: MIT */
#include "kube/controller/foreign_ports.h"

#include "base/grow.h"
#include "kube/protocol.h"

#include "base/banned.h"

static bool add_number(struct numbers *all, int64_t port, uint8_t proto)
{
    if (port < 1 || port > DIBS_PORT_MAX || !proto)
        return true;
    for (size_t i = 0; i < all->n; i++)
        if (all->all[i].port == port) {
            all->all[i].protos |= proto;
            return true;
        }
    if (all->n == NUMBERS_MAX)
        return true;
    if (!grow((void **) &all->all, all->n, &all->max, sizeof *all->all))
        return false;
    all->all[all->n++] = (struct number){ .port = (uint16_t) port, .protos = proto };
    return true;
}

/* Add the number `key` of each port in a list. */
static bool add_ports(struct numbers *all, const jsonr_value *ports, const char *key)
{
    bool is_whole = true;

    for (size_t i = 0; i < jsonr_array_size(ports) && is_whole; i++) {
        const jsonr_value *port = jsonr_array_at(ports, i);
        const char *protocol = "TCP";
        int64_t number = 0;

        (void) jsonr_get_string(port, "protocol", &protocol);
        (void) jsonr_get_int(port, key, &number);
        is_whole = add_number(all, number, protocol_bit(protocol));
    }
    return is_whole;
}

bool service_numbers(const jsonr_value *service, struct numbers *out)
{
    const jsonr_value *spec = jsonr_get(service, "spec");
    int64_t health = 0;

    (void) jsonr_get_int(spec, "healthCheckNodePort", &health);
    return add_ports(out, jsonr_get(spec, "ports"), "nodePort") &&
           add_number(out, health, 1u << DIBS_TCP); /* kube-proxy serves health checks there by HTTP */
}

bool pod_numbers(const jsonr_value *pod, struct numbers *out)
{
    static const char *const lists[] = { "containers", "initContainers" };
    bool is_whole = true;

    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        const jsonr_value *containers = jsonr_get(jsonr_get(pod, "spec"), lists[l]);

        for (size_t i = 0; i < jsonr_array_size(containers) && is_whole; i++)
            is_whole = add_ports(out, jsonr_get(jsonr_array_at(containers, i), "ports"), "hostPort");
    }
    return is_whole;
}
