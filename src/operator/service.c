/* SPDX-License-Identifier: MIT */
#include "operator/service.h"

#include <string.h>

#include "base/banned.h"

static uint8_t proto_bit(const json_value *port)
{
    static const struct {
        const char *name;
        dibs_proto proto;
    } names[] = { { "TCP", DIBS_TCP }, { "UDP", DIBS_UDP }, { "SCTP", DIBS_SCTP } };
    const char *name = "TCP";

    (void) json_get_string(port, "protocol", &name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return (uint8_t) (1u << names[i].proto);
    return 0;
}

struct collecting {
    struct number *out;
    size_t n, max;
};

static struct number *find(const struct collecting *c, uint16_t port)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->out[i].port == port)
            return &c->out[i];
    return NULL;
}

static void collect(struct collecting *c, int64_t port, uint8_t proto)
{
    if (port < 1 || port > DIBS_PORT_MAX || !proto)
        return;
    struct number *known = find(c, (uint16_t) port);
    if (known) {
        known->is_doubled = known->is_doubled || known->protos & proto;
        known->protos |= proto;
    } else if (c->n < c->max) {
        c->out[c->n++] = (struct number){ .port = (uint16_t) port, .protos = proto };
    }
}

size_t service_numbers(const json_value *service, struct number *out, size_t max)
{
    const json_value *spec = json_get(service, "spec");
    const json_value *ports = json_get(spec, "ports");
    struct collecting c = { .out = out, .max = max };
    int64_t health = 0;

    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_value *port = json_array_at(ports, i);
        int64_t number = 0;

        (void) json_get_int(port, "nodePort", &number);
        collect(&c, number, proto_bit(port));
    }
    if (json_get_int(spec, "healthCheckNodePort", &health))
        collect(&c, health, 1u << DIBS_TCP); /* kube-proxy answers there by HTTP */
    return c.n;
}

static void collect_containers(struct collecting *c, const json_value *containers)
{
    for (size_t i = 0; i < json_array_size(containers); i++) {
        const json_value *ports = json_get(json_array_at(containers, i), "ports");

        for (size_t k = 0; k < json_array_size(ports); k++) {
            const json_value *port = json_array_at(ports, k);
            int64_t number = 0;

            (void) json_get_int(port, "hostPort", &number);
            collect(c, number, proto_bit(port));
        }
    }
}

size_t pod_numbers(const json_value *pod, struct number *out, size_t max)
{
    const json_value *spec = json_get(pod, "spec");
    struct collecting c = { .out = out, .max = max };

    collect_containers(&c, json_get(spec, "containers"));
    collect_containers(&c, json_get(spec, "initContainers"));
    return c.n;
}
