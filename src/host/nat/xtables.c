/* SPDX-License-Identifier: MIT */
#include "host/nat/xtables.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_sctp.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <netinet/in.h>
#include <string.h>

#include "base/banned.h"

static bool one_range(unsigned ip_proto, const uint16_t ports[2], bool is_inverted, struct xtables_ports *out)
{
    if (is_inverted || ports[0] > ports[1])
        return false;
    *out = (struct xtables_ports){ .ip_proto = ip_proto, .n = 1, .ranges = { { ports[0], ports[1] } } };
    return true;
}

static bool match_tcp(const struct xtables_part *match, struct xtables_ports *out)
{
    struct xt_tcp info;

    if (match->len < sizeof info)
        return false;
    memcpy(&info, match->info, sizeof info);
    return one_range(IPPROTO_TCP, info.dpts, info.invflags & XT_TCP_INV_DSTPT, out);
}

static bool match_udp(const struct xtables_part *match, struct xtables_ports *out)
{
    struct xt_udp info;

    if (match->len < sizeof info)
        return false;
    memcpy(&info, match->info, sizeof info);
    return one_range(IPPROTO_UDP, info.dpts, info.invflags & XT_UDP_INV_DSTPT, out);
}

static bool match_sctp(const struct xtables_part *match, struct xtables_ports *out)
{
    struct xt_sctp_info info;

    if (match->len < sizeof info)
        return false;
    memcpy(&info, match->info, sizeof info);
    return (info.flags & XT_SCTP_DEST_PORTS) &&
           one_range(IPPROTO_SCTP, info.dpts, info.invflags & XT_SCTP_DEST_PORTS, out);
}

static bool match_multiport(const struct xtables_part *match, struct xtables_ports *out)
{
    struct xt_multiport_v1 info;

    if (match->len < sizeof info || match->revision != 1)
        return false;
    memcpy(&info, match->info, sizeof info);
    if (info.invert || info.flags == XT_MULTIPORT_SOURCE || info.count > XT_MULTI_PORTS)
        return false;
    *out = (struct xtables_ports){ 0 };
    for (size_t i = 0; i < info.count; i++) {
        dibs_range range = { info.ports[i], info.ports[i] };

        if (info.pflags[i] && i + 1 < info.count)
            range.last = info.ports[++i];
        if (range.first <= range.last)
            out->ranges[out->n++] = range;
    }
    return out->n > 0;
}

bool xtables_match(const struct xtables_part *match, struct xtables_ports *out)
{
    static const struct {
        const char *name;
        bool (*read)(const struct xtables_part *match, struct xtables_ports *out);
    } rows[] = {
        { "tcp", match_tcp }, { "udp", match_udp }, { "sctp", match_sctp }, { "multiport", match_multiport }
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(match->name, rows[i].name) == 0)
            return rows[i].read(match, out);
    return false;
}

/* Read where a target sends to, in one of the kernel's two forms. */
static bool read_range(const struct xtables_part *target, bool is_old, struct nf_nat_range *out)
{
    struct nf_nat_ipv4_multi_range_compat old;

    if (target->len < (is_old ? sizeof old : sizeof *out))
        return false;
    if (!is_old) {
        memcpy(out, target->info, sizeof *out); /* also of nf_nat_range2, which begins with it */
        return true;
    }
    memcpy(&old, target->info, sizeof old);
    *out = (struct nf_nat_range){ .flags = old.range[0].flags,
                                  .min_addr.ip = old.range[0].min_ip,
                                  .min_proto = old.range[0].min };
    return true;
}

bool xtables_target(const struct xtables_part *target, char *action)
{
    bool is_dnat = strcmp(target->name, "DNAT") == 0;
    bool is_redirect = strcmp(target->name, "REDIRECT") == 0;
    struct nf_nat_range range = { 0 };

    if (!is_dnat && !is_redirect)
        return false;
    if (!action)
        return true;
    /* What cannot be read is only missing in the text. */
    (void) read_range(target, !target->is_v6 && target->revision == 0, &range);
    bool has_address = is_dnat && (range.flags & NF_NAT_RANGE_MAP_IPS);
    bool has_port = range.flags & NF_NAT_RANGE_PROTO_SPECIFIED;
    nat_action(is_dnat ? "dnat" : "redirect", has_address ? (const uint8_t *) &range.min_addr : NULL,
               target->is_v6 ? 16 : 4, has_port ? ntohs(range.min_proto.all) : 0, action);
    return true;
}
