/* SPDX-License-Identifier: MIT */
#include "host/nat/legacy.h"

#include <arpa/inet.h> /* before the kernel's headers, which then leave out what it has */
#include <fcntl.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/grow.h"
#include "host/nat/xtables.h"

#include "base/banned.h"

enum {
    STEPS_MAX = 1 << 21, /* entries in all; chains may jump to each other a lot */
    JUMPS_MAX = 64,
    TABLE_BYTES_MAX = 64 << 20, /* kube-proxy with 10,000 services has some 20 MiB */
    NAMES_BYTES = 512,
    OLD_MS = 1000,
};

/* An entry, of either family. */
struct entry {
    unsigned ip_proto;      /* 0: any */
    const uint8_t *address; /* NULL: any */
    bool is_goto;
    const uint8_t *parts; /* matches and target */
    size_t target_at, n;  /* in parts: where the target begins, and all */
    size_t next;          /* offset of the entry after it */
};

struct chain {
    uint32_t at;
    char name[XT_FUNCTION_MAXNAMELEN + 1];
};

struct walk {
    const struct legacy_table *table;
    struct nat_list *list;
    struct chain *chains; /* that users made, ascending */
    size_t n_chains, max_chains;
    uint32_t steps;
};

/* ---- entries ---- */

static bool is_full(const uint8_t *mask, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (mask[i] != 0xff)
            return false;
    return true;
}

static void read_v4(const uint8_t *bytes, struct entry *out)
{
    struct ipt_ip ip;

    memcpy(&ip, bytes, sizeof ip);
    out->ip_proto = ip.invflags & IPT_INV_PROTO ? 0 : ip.proto;
    if (!(ip.invflags & IPT_INV_DSTIP) && is_full((const uint8_t *) &ip.dmsk, sizeof ip.dmsk))
        out->address = bytes + offsetof(struct ipt_ip, dst);
    out->is_goto = ip.flags & IPT_F_GOTO;
}

static void read_v6(const uint8_t *bytes, struct entry *out)
{
    struct ip6t_ip6 ip;

    memcpy(&ip, bytes, sizeof ip);
    out->ip_proto = (ip.flags & IP6T_F_PROTO) && !(ip.invflags & IP6T_INV_PROTO) ? ip.proto : 0;
    if (!(ip.invflags & IP6T_INV_DSTIP) && is_full((const uint8_t *) &ip.dmsk, sizeof ip.dmsk))
        out->address = bytes + offsetof(struct ip6t_ip6, dst);
    out->is_goto = ip.flags & IP6T_F_GOTO;
}

/* False: no whole entry is there. */
static bool read_entry(const struct legacy_table *table, size_t at, struct entry *out)
{
    size_t head = table->is_v6 ? sizeof(struct ip6t_entry) : sizeof(struct ipt_entry);
    uint16_t target = 0;
    uint16_t next = 0;

    if (at > table->n || table->n - at < head)
        return false;
    const uint8_t *bytes = table->entries + at;
    memcpy(&target,
           bytes + (table->is_v6 ? offsetof(struct ip6t_entry, target_offset)
                                 : offsetof(struct ipt_entry, target_offset)),
           sizeof target);
    memcpy(&next,
           bytes + (table->is_v6 ? offsetof(struct ip6t_entry, next_offset)
                                 : offsetof(struct ipt_entry, next_offset)),
           sizeof next);
    if (target < head || next < target + sizeof(struct xt_entry_target) || next > table->n - at)
        return false;
    *out = (struct entry){
        .parts = bytes + head, .target_at = target - head, .n = next - head, .next = at + next
    };
    if (table->is_v6)
        read_v6(bytes, out);
    else
        read_v4(bytes, out);
    return true;
}

/* Read a match or a target, of which `left` bytes are there; returns its size, or 0: damaged. */
static size_t read_part(const struct walk *w, const uint8_t *bytes, size_t left, struct xtables_part *out,
                        char name[XT_EXTENSION_MAXNAMELEN])
{
    struct xt_entry_match head;

    if (left < sizeof head)
        return 0;
    memcpy(&head, bytes, sizeof head);
    if (head.u.match_size < sizeof head || head.u.match_size > left)
        return 0;
    memcpy(name, head.u.user.name, XT_EXTENSION_MAXNAMELEN);
    name[XT_EXTENSION_MAXNAMELEN - 1] = '\0';
    *out = (struct xtables_part){ .name = name,
                                  .revision = head.u.user.revision,
                                  .info = bytes + sizeof head,
                                  .len = head.u.match_size - sizeof head,
                                  .is_v6 = w->table->is_v6 };
    return head.u.match_size;
}

static bool read_target(const struct walk *w, const struct entry *entry, struct xtables_part *out,
                        char name[XT_EXTENSION_MAXNAMELEN])
{
    return read_part(w, entry->parts + entry->target_at, entry->n - entry->target_at, out, name) != 0;
}

/* ---- the walk ---- */

static void walk_chain(struct walk *w, const struct chain *chain, uint32_t policy,
                       const struct nat_packets *packets, int jumps);

static int compare_chains(const void *a, const void *b)
{
    uint32_t x = ((const struct chain *) a)->at;
    uint32_t y = ((const struct chain *) b)->at;

    return (x > y) - (x < y);
}

/* The entry before a user's chain has its name, in a target called ERROR. */
static void find_chains(struct walk *w)
{
    struct entry entry;
    struct xtables_part target;
    char name[XT_EXTENSION_MAXNAMELEN];

    for (size_t at = 0; w->steps++ < STEPS_MAX && read_entry(w->table, at, &entry); at = entry.next) {
        struct chain chain = { .at = (uint32_t) entry.next };

        if (!read_target(w, &entry, &target, name) || strcmp(name, XT_ERROR_TARGET) != 0 ||
            !grow((void **) &w->chains, w->n_chains, &w->max_chains, sizeof chain))
            continue;
        size_t n = target.len < sizeof chain.name - 1 ? target.len : sizeof chain.name - 1;
        if (n > 0)
            memcpy(chain.name, target.info, n);
        w->chains[w->n_chains++] = chain;
    }
}

/* Follow a standard target: a verdict, or a jump to an offset. */
static void take_verdict(struct walk *w, const struct entry *entry, const struct xtables_part *target,
                         const struct nat_packets *packets, int jumps)
{
    int32_t verdict = -1;

    if (target->len >= sizeof verdict)
        memcpy(&verdict, target->info, sizeof verdict);
    if (verdict < 0 || (size_t) verdict == entry->next) /* a rule without a target goes to the next entry */
        return;
    const struct chain wanted = { .at = (uint32_t) verdict };
    const struct chain *chain =
        w->n_chains ? bsearch(&wanted, w->chains, w->n_chains, sizeof *w->chains, compare_chains) : NULL;
    if (chain && jumps < JUMPS_MAX)
        walk_chain(w, chain, UINT32_MAX, packets, jumps + 1);
}

static void take_target(struct walk *w, const struct entry *entry, const struct nat_packets *packets,
                        int jumps)
{
    struct xtables_part target;
    char name[XT_EXTENSION_MAXNAMELEN];
    char action[NAT_ACTION_MAX + 1];
    struct nat_place place = { w->table->is_v6 ? "table nat of ip6tables-legacy"
                                               : "table nat of iptables-legacy",
                               action };

    if (!read_target(w, entry, &target, name))
        return;
    if (name[0] == '\0')
        take_verdict(w, entry, &target, packets, jumps);
    else if (xtables_target(&target, w->list->is_brief ? NULL : action))
        nat_list_add(w->list, packets, &place);
}

/* Apply the matches from `at` on, then the target. */
static void take_matches(struct walk *w, const struct entry *entry, size_t at, const struct chain *chain,
                         const struct nat_packets *before, int jumps)
{
    struct nat_packets packets = *before;
    struct xtables_part match;
    struct xtables_ports ports;
    char name[XT_EXTENSION_MAXNAMELEN];

    while (at < entry->target_at) {
        size_t n = read_part(w, entry->parts + at, entry->target_at - at, &match, name);

        if (n == 0)
            return;
        at += n;
        if (!xtables_match(&match, &ports))
            continue;
        if (ports.ip_proto && !nat_packets_proto(&packets, ports.ip_proto))
            return;
        for (size_t i = 0; i < ports.n && w->steps++ < STEPS_MAX; i++) {
            struct nat_packets one = packets;

            if (nat_packets_ports(&one, ports.ranges[i].first, ports.ranges[i].last, chain->name))
                take_matches(w, entry, at, chain, &one, jumps);
        }
        return;
    }
    take_target(w, entry, &packets, jumps);
}

static void walk_chain(struct walk *w, const struct chain *chain, uint32_t policy,
                       const struct nat_packets *packets, int jumps)
{
    struct entry entry;
    struct xtables_part target;
    char name[XT_EXTENSION_MAXNAMELEN];

    for (size_t at = chain->at; at != policy && read_entry(w->table, at, &entry); at = entry.next) {
        struct nat_packets one = *packets;

        if (w->steps++ >= STEPS_MAX) {
            w->list->is_cut = true;
            return;
        }
        if (!read_target(w, &entry, &target, name) || strcmp(name, XT_ERROR_TARGET) == 0)
            return; /* the next chain begins */
        if (entry.ip_proto && !nat_packets_proto(&one, entry.ip_proto))
            continue;
        if (entry.address && !nat_packets_address(&one, entry.address, w->table->is_v6 ? 16 : 4))
            continue;
        take_matches(w, &entry, 0, chain, &one, jumps);
    }
}

void legacy_publish(const struct legacy_table *table, struct nat_list *list)
{
    static const struct {
        unsigned hook;
        const char *name;
    } entries[] = { { NF_INET_PRE_ROUTING, "PREROUTING" }, { NF_INET_LOCAL_OUT, "OUTPUT" } };
    struct walk w = { .table = table, .list = list };
    const struct nat_packets all = nat_packets_of(table->is_v6 ? AF_INET6 : AF_INET);

    find_chains(&w);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        struct chain chain = { .at = table->first[entries[i].hook] };

        memcpy(chain.name, entries[i].name, strlen(entries[i].name));
        if (table->hooks >> entries[i].hook & 1)
            walk_chain(&w, &chain, table->policy[entries[i].hook], &all, 0);
    }
    free(w.chains);
}

/* ---- the kernel's ---- */

_Static_assert(sizeof(struct ipt_getinfo) == sizeof(struct ip6t_getinfo),
               "both families are read alike, with options of the same numbers");
_Static_assert(offsetof(struct ipt_get_entries, entrytable) == offsetof(struct ip6t_get_entries, entrytable),
               "both families are read alike");

static int option_level(const struct legacy *legacy)
{
    return legacy->is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
}

/* Is there a NAT table? */
static bool has_table(struct legacy *legacy, int64_t now_ms)
{
    char names[NAMES_BYTES + 1] = "\n";

    if (legacy->names < 0 && now_ms - legacy->looked_ms < OLD_MS && legacy->looked_ms)
        return false;
    legacy->looked_ms = now_ms;
    if (legacy->names < 0)
        legacy->names = open(legacy->is_v6 ? "/proc/net/ip6_tables_names" : "/proc/net/ip_tables_names",
                             O_RDONLY | O_CLOEXEC);
    ssize_t n = legacy->names < 0 ? -1 : pread(legacy->names, names + 1, NAMES_BYTES - 1, 0);
    if (n <= 0)
        return false;
    names[n + 1] = '\0';
    return strstr(names, "\nnat\n");
}

/* Add to the list what the table has. */
static void read_entries(struct legacy *legacy)
{
    const struct ipt_getinfo *info = legacy->info;
    size_t head = offsetof(struct ipt_get_entries, entrytable);
    socklen_t size = (socklen_t) (head + info->size);
    AUTO(free_auto) uint8_t *answer = info->size <= TABLE_BYTES_MAX ? calloc(1, size) : NULL;
    struct legacy_table table = { .is_v6 = legacy->is_v6, .hooks = info->valid_hooks, .n = info->size };

    legacy->list.is_cut = !answer;
    if (!answer)
        return;
    memcpy(answer, info->name, sizeof info->name);
    memcpy(answer + offsetof(struct ipt_get_entries, size), &info->size, sizeof info->size);
    if (getsockopt(legacy->fd, option_level(legacy), IPT_SO_GET_ENTRIES, answer, &size) != 0) {
        legacy->list.is_cut = true; /* it has just changed: the next call reads it */
        legacy->read_ms = 0;
        return;
    }
    table.entries = answer + head;
    for (size_t i = 0; i < LEGACY_HOOKS; i++) {
        table.first[i] = info->hook_entry[i];
        table.policy[i] = info->underflow[i];
    }
    legacy_publish(&table, &legacy->list);
}

static bool is_old(const struct legacy *legacy, int64_t now_ms)
{
    return now_ms - legacy->read_ms >= OLD_MS || now_ms < legacy->read_ms || legacy->read_ms == 0;
}

void legacy_refresh(struct legacy *legacy, struct nat_cache *cache, int64_t now_ms)
{
    struct ipt_getinfo info = { .name = "nat" };
    socklen_t size = sizeof info;

    if (!has_table(legacy, now_ms)) {
        nat_list_clear(&legacy->list);
        legacy->read_ms = 0;
        return;
    }
    if (legacy->fd < 0)
        legacy->fd = socket(legacy->is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (!legacy->info)
        legacy->info = calloc(1, sizeof info);
    if (legacy->fd < 0 || !legacy->info ||
        getsockopt(legacy->fd, option_level(legacy), IPT_SO_GET_INFO, &info, &size) != 0)
        return;
    if (!is_old(legacy, now_ms) && memcmp(legacy->info, &info, sizeof info) == 0)
        return;
    memcpy(legacy->info, &info, sizeof info);
    const struct nat_cache_key key = { legacy->is_v6 ? "6" : "4", &info, sizeof info };
    bool has_many = info.num_entries >= NAT_CACHE_MANY;
    if (has_many && nat_cache_read(cache, &key, &legacy->list, &legacy->read_ms) && !is_old(legacy, now_ms))
        return;
    nat_list_clear(&legacy->list);
    legacy->list.is_brief = true;
    legacy->read_ms = now_ms;
    read_entries(legacy);
    if (has_many)
        nat_cache_write(cache, &key, &legacy->list, now_ms);
}

void legacy_load(struct legacy *legacy)
{
    legacy->list.is_brief = false;
    read_entries(legacy);
}

void legacy_done(struct legacy *legacy)
{
    fd_auto(&legacy->names);
    fd_auto(&legacy->fd);
    free(legacy->info);
    nat_list_done(&legacy->list);
}
