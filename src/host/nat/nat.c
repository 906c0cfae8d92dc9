/* SPDX-License-Identifier: MIT */
#include "host/nat/nat.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "host/kernel.h"
#include "host/nat/cache.h"
#include "host/nat/ipvs.h"
#include "host/nat/legacy.h"
#include "host/nat/nft.h"

#include "base/banned.h"

enum {
    OLD_MS = 1000, /* what no number of changes tells about is read again after this time */
    TRIES_MAX = 5, /* to read rules that change meanwhile */
    LISTS = 4,
};

struct nat {
    struct nat_cache cache;
    struct nat_netlink nl;
    bool is_known; /* `nft` is of this generation */
    uint32_t generation;
    struct nat_list nft, ipvs;
    struct legacy legacy[2]; /* IPv4, IPv6 */
    const char *why;
    int64_t looked_ms, hidden_ms, ipvs_ms;
};

struct nat *nat_open(const char *cache, const char *boot_id)
{
    struct nat *nat = calloc(1, sizeof *nat);

    if (!nat)
        return NULL;
    nat->nl.fd = -1;
    nat->cache = (struct nat_cache){ .path = cache, .boot_id = boot_id };
    nat->why = "they have not been read yet";
    for (size_t i = 0; i < 2; i++)
        nat->legacy[i] = (struct legacy){ .is_v6 = i == 1, .names = -1, .fd = -1 };
    return nat;
}

void nat_close(struct nat *nat)
{
    if (!nat)
        return;
    nat_netlink_close(&nat->nl);
    nat_list_done(&nat->nft);
    nat_list_done(&nat->ipvs);
    for (size_t i = 0; i < 2; i++)
        legacy_done(&nat->legacy[i]);
    free(nat);
}

/* ---- reading ---- */

/* The rules may have changed between the number and the list. */
static bool is_current(struct nat *nat)
{
    uint32_t now = 0;

    return nat_netlink_generation(&nat->nl, &now) == 0 && now == nat->generation;
}

static int read_nft(struct nat *nat)
{
    uint32_t generation = 0;
    int64_t unused_ms = 0;
    const struct nat_cache_key key = { "", &generation, sizeof generation };
    int failed = nat->nl.fd < 0 ? nat_netlink_open(&nat->nl) : 0;

    for (int i = 0; i < TRIES_MAX && (!failed || failed == EAGAIN); i++) {
        failed = nat_netlink_generation(&nat->nl, &generation);
        if (failed || (nat->is_known && nat->generation == generation))
            return failed;
        nat->generation = generation;
        nat->is_known = nat_cache_read(&nat->cache, &key, &nat->nft, &unused_ms);
        if (nat->is_known)
            return 0;
        nat_list_clear(&nat->nft);
        failed = nft_read(&nat->nl, &nat->nft);
        nat->is_known = !failed;
        if (!failed && nat->nft.n_read >= NAT_CACHE_MANY && is_current(nat))
            nat_cache_write(&nat->cache, &key, &nat->nft, 0);
        if (!failed)
            return 0;
    }
    return failed;
}

static const char *why_of(int failed)
{
    switch (failed) {
    case EPERM: return "that needs CAP_NET_ADMIN";
    case EPROTONOSUPPORT:
    case EINVAL: return "this kernel has no nf_tables";
    case EAGAIN: return "they change faster than they can be read";
    default: return "the kernel does not list them";
    }
}

void nat_refresh(struct nat *nat, int64_t now_ms)
{
    if (now_ms == nat->looked_ms) /* a server makes many claims in a millisecond */
        return;
    nat->looked_ms = now_ms;
    if (nat->hidden_ms && now_ms - nat->hidden_ms < OLD_MS && now_ms >= nat->hidden_ms)
        return;
    int failed = read_nft(nat);

    nat->why = failed ? why_of(failed) : NULL;
    nat->hidden_ms = failed ? now_ms : 0;
    if (failed) {
        nat->is_known = false;
        nat_netlink_close(&nat->nl); /* a late answer must not be taken for the next one */
    }
    for (size_t i = 0; i < 2 && failed != EPERM; i++)
        legacy_refresh(&nat->legacy[i], &nat->cache, now_ms);
    if (nat->ipvs_ms && now_ms - nat->ipvs_ms < OLD_MS && now_ms >= nat->ipvs_ms)
        return;
    nat->ipvs_ms = now_ms;
    ipvs_read(&nat->ipvs);
}

/* ---- looking ---- */

static struct nat_list *list_at(struct nat *nat, size_t i)
{
    struct nat_list *const lists[LISTS] = { &nat->nft, &nat->legacy[0].list, &nat->legacy[1].list,
                                            &nat->ipvs };

    return lists[i];
}

/* Read the rules of a list that is brief. If that fails, its ports stay published. */
static const struct nat_list *rules_at(struct nat *nat, size_t i)
{
    struct nat_list *list = list_at(nat, i);

    if (!list->is_brief)
        return list;
    if (i > 0) {
        legacy_load(&nat->legacy[i - 1]);
        return list;
    }
    list->is_brief = false;
    if (nft_read(&nat->nl, list) != 0) {
        list->is_cut = true;
        nat->is_known = false;
        nat_netlink_close(&nat->nl);
    }
    return list;
}

/* Is it an address of this host? Packets to others pass through, whatever a server here binds. */
static bool is_ours(const dibs_address *address)
{
    const dibs_binding udp = { DIBS_UDP, *address };
    union kernel_sockaddr name;
    socklen_t size = kernel_sockaddr(address, 0, &name);
    AUTO(fd_auto) int fd = kernel_open(&udp);

    return fd < 0 || bind(fd, &name.any, size) == 0 || errno != EADDRNOTAVAIL;
}

void nat_each(struct nat *nat, bool (*fn)(void *ctx, const struct nat_rule *rule), void *ctx)
{
    for (size_t i = 0; i < LISTS; i++) {
        const struct nat_list *list = rules_at(nat, i);

        for (size_t k = 0; k < list->n; k++) {
            const struct nat_rule *rule = &list->rules[k];

            if ((dibs_address_is_wildcard(&rule->address) || is_ours(&rule->address)) && !fn(ctx, rule))
                return;
        }
    }
}

static bool takes(const struct nat_rule *rule, const dibs_binding *binding, uint16_t port)
{
    return rule->proto == binding->proto && rule->ports.first <= port && port <= rule->ports.last &&
           dibs_address_conflict(&rule->address, &binding->address) &&
           (dibs_address_is_wildcard(&rule->address) ||
            dibs_address_equal(&rule->address, &binding->address) || is_ours(&rule->address));
}

size_t nat_find(struct nat *nat, const struct nat_question *question, const struct nat_rule **out, size_t max)
{
    static const struct nat_rule beyond = { .proto = DIBS_TCP,
                                            .address = { .len = 16 },
                                            .text = "one of more rules than dibs reads" };
    size_t found = 0;

    for (size_t i = 0; i < question->n * LISTS; i++) {
        const dibs_binding *binding = &question->bindings[i / LISTS];
        size_t before = found;

        if (!portbits_has(&list_at(nat, i % LISTS)->ports[binding->proto], question->port))
            continue;
        const struct nat_list *list = rules_at(nat, i % LISTS);
        for (size_t k = 0; k < list->n && found < max; k++)
            if (takes(&list->rules[k], binding, question->port))
                out[found++] = &list->rules[k];
        if (list->is_cut && found == before && found < max)
            out[found++] = &beyond;
    }
    return found;
}

struct nat_view nat_view(struct nat *nat)
{
    struct nat_view view = { .why = nat->why };

    for (size_t i = 0; i < LISTS; i++) {
        const struct nat_list *list = rules_at(nat, i);

        view.n += list->n;
        view.is_cut = view.is_cut || list->is_cut;
    }
    return view;
}
