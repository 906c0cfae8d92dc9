/* SPDX-License-Identifier: MIT */
#include "host/nat/ipvs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/bytes.h"

#include "base/banned.h"

enum { PART_BYTES = 65536 };

/* Parse `n` hexadecimal digits. */
static bool read_hex(const char *text, size_t n, uint32_t *out)
{
    static const char digits[] = "0123456789ABCDEF";

    *out = 0;
    for (size_t i = 0; i < n; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

        if (!digit)
            return false;
        *out = *out << 4 | (uint32_t) (digit - digits);
    }
    return true;
}

/* Parse "0A600001:01BB" or "[2001:0db8:...]:0035"; *len: of the address. */
static bool read_end(char *text, uint8_t address[16], size_t *len, uint16_t *port)
{
    uint32_t number = 0;
    char *end = NULL;

    if (text[0] == '[') {
        end = strchr(text, ']');
        *len = 16;
        if (!end)
            return false;
        *end++ = '\0';
        if (inet_pton(AF_INET6, text + 1, address) != 1)
            return false;
    } else {
        *len = 4;
        if (!read_hex(text, 8, &number))
            return false;
        end = text + 8;
        number = htonl(number);
        memcpy(address, &number, sizeof number);
    }
    if (*end != ':' || !read_hex(end + 1, 4, &number))
        return false;
    *port = (uint16_t) number;
    return true;
}

/* Read a service: "TCP  0A600001:01BB rr persistent 300". One with a firewall mark has no port. */
static bool take_service(const char *proto, char *rest, struct nat_list *list)
{
    static const struct {
        const char *text;
        unsigned ip_proto;
    } protos[] = { { "TCP", IPPROTO_TCP }, { "UDP", IPPROTO_UDP }, { "SCTP", IPPROTO_SCTP } };
    uint8_t address[16] = { 0 };
    size_t len = 0;
    uint16_t port = 0;
    struct nat_packets packets = nat_packets_of(0);

    for (size_t i = 0; i < sizeof protos / sizeof *protos; i++) {
        if (strcmp(proto, protos[i].text) != 0)
            continue;
        if (!read_end(rest, address, &len, &port))
            return false;
        if (port && nat_packets_proto(&packets, protos[i].ip_proto) &&
            nat_packets_address(&packets, address, len) && nat_packets_ports(&packets, port, port, ""))
            nat_list_add(list, &packets,
                         &(struct nat_place){ "IPVS", "a virtual service, see 'ipvsadm -Ln'" });
    }
    return true;
}

bool ipvs_publish(char *text, struct nat_list *list)
{
    char *line_state = NULL;

    for (char *line = strtok_r(text, "\n", &line_state); line; line = strtok_r(NULL, "\n", &line_state)) {
        char *state = NULL;
        char *proto = strtok_r(line, " ", &state);
        char *rest = strtok_r(NULL, " ", &state);

        if (proto && rest && !take_service(proto, rest, list))
            return false;
    }
    return true;
}

void ipvs_read(struct nat_list *list)
{
    AUTO(bytes_done) struct bytes text = { 0 };
    AUTO(fd_auto) int fd = open("/proc/net/ip_vs", O_RDONLY | O_CLOEXEC);
    char part[PART_BYTES];
    ssize_t n = 0;

    nat_list_clear(list);
    while (fd >= 0 && (n = read(fd, part, sizeof part)) > 0)
        bytes_add(&text, part, (size_t) n);
    bytes_add(&text, "", 1);
    if (fd < 0)
        return;
    list->is_cut = n < 0 || text.is_lost || !ipvs_publish(text.at, list) || list->is_cut;
}
