/* SPDX-License-Identifier: MIT */
#include "host/nat/published.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/grow.h"
#include "net/proto.h"

#include "base/banned.h"

enum {
    ALIKE_MAX = 64, /* a service has a rule for each of its servers, one after the other: one is enough */
};

struct nat_packets nat_packets_of(int family)
{
    return (struct nat_packets){
        .protos = ~0u, .is_v4 = family != AF_INET6, .is_v6 = family != AF_INET, .chain = ""
    };
}

bool nat_packets_proto(struct nat_packets *packets, unsigned ip_proto)
{
    unsigned one = 0;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        if ((unsigned) proto_row(proto)->ip_proto == ip_proto)
            one = 1u << proto;
    packets->protos &= one;
    return packets->protos != 0;
}

bool nat_packets_family(struct nat_packets *packets, int family)
{
    packets->is_v4 = packets->is_v4 && family == AF_INET;
    packets->is_v6 = packets->is_v6 && family == AF_INET6;
    return packets->is_v4 || packets->is_v6;
}

bool nat_packets_ports(struct nat_packets *packets, uint16_t first, uint16_t last, const char *chain)
{
    bool is_any = packets->ports.first == 0;

    if (first <= 1 && last == DIBS_PORT_MAX) /* every port: no match */
        return true;
    first = first ? first : 1;
    if (!is_any && packets->ports.first > first)
        first = packets->ports.first;
    if (!is_any && packets->ports.last < last)
        last = packets->ports.last;
    if (first > last)
        return false;
    packets->ports = (dibs_range){ first, last };
    packets->chain = chain;
    return true;
}

bool nat_packets_address(struct nat_packets *packets, const uint8_t *bytes, size_t len)
{
    dibs_address address = { .len = (uint8_t) len };

    memcpy(address.bytes, bytes, len);
    if (packets->has_address)
        return dibs_address_equal(&packets->address, &address);
    packets->has_address = true;
    packets->address = address;
    return nat_packets_family(packets, len == 4 ? AF_INET : AF_INET6);
}

static dibs_address destination(const struct nat_packets *packets)
{
    if (packets->has_address)
        return packets->address;
    return (dibs_address){ .len = packets->is_v6 ? 16 : 4, .v6only = !packets->is_v4 };
}

static bool is_listed(const struct nat_list *list, const struct nat_rule *rule)
{
    if (!portbits_has(&list->ports[rule->proto], rule->ports.first))
        return false;
    for (size_t i = list->n; i > 0 && i + ALIKE_MAX > list->n; i--) {
        const struct nat_rule *other = &list->rules[i - 1];

        if (other->proto == rule->proto && other->ports.first == rule->ports.first &&
            other->ports.last == rule->ports.last && dibs_address_equal(&other->address, &rule->address))
            return true;
    }
    return false;
}

void nat_list_add(struct nat_list *list, const struct nat_packets *packets, const struct nat_place *place)
{
    struct nat_rule rule = { .address = destination(packets), .ports = packets->ports };

    if (packets->ports.first == 0)
        return;
    if (list->is_brief) {
        for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
            if (packets->protos >> proto & 1)
                portbits_add_range(&list->ports[proto], packets->ports);
        return;
    }
    (void) snprintf(rule.text, sizeof rule.text, "%s%s%s: %s", place->table,
                    packets->chain[0] ? ", chain " : "", packets->chain, place->action);
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++) {
        rule.proto = proto;
        if (!(packets->protos >> proto & 1) || is_listed(list, &rule))
            continue;
        portbits_add_range(&list->ports[proto], rule.ports);
        if (list->n < NAT_RULES_MAX && grow((void **) &list->rules, list->n, &list->max, sizeof *list->rules))
            list->rules[list->n++] = rule;
        else
            list->is_cut = true;
    }
}

void nat_list_clear(struct nat_list *list)
{
    if (list->n > 0 || list->is_cut || list->is_brief)
        memset(list->ports, 0, sizeof list->ports);
    list->n = list->n_read = 0;
    list->is_cut = list->is_brief = false;
}

void nat_list_done(struct nat_list *list)
{
    free(list->rules);
    *list = (struct nat_list){ 0 };
}

void nat_action(const char *word, const uint8_t *address, size_t len, uint16_t port,
                char out[NAT_ACTION_MAX + 1])
{
    char text[INET6_ADDRSTRLEN] = "";
    bool is_v6 = len == 16;
    char number[8] = "";

    if (address && !inet_ntop(is_v6 ? AF_INET6 : AF_INET, address, text, sizeof text))
        text[0] = '\0';
    if (port)
        (void) snprintf(number, sizeof number, ":%u", port);
    bool has_brackets = is_v6 && text[0] && port;
    (void) snprintf(out, NAT_ACTION_MAX + 1, "%s%s%s%s%s%s", word, text[0] || port ? " to " : "",
                    has_brackets ? "[" : "", text, has_brackets ? "]" : "", number);
}
