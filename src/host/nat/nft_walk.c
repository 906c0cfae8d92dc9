/* SPDX-License-Identifier: MIT */
/* Follow the packets through the rules of nf_tables. A rule is a program of the kernel's small machine: it
 * loads fields of the packet into registers and compares them. So remember for every byte of the registers
 * which byte of the packet it has, or its value; a comparison then says what the packets are. */
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <stdio.h>
#include <string.h>

#include "host/nat/nft.h"
#include "host/nat/xtables.h"

#include "base/banned.h"

enum {
    STEPS_MAX = 1 << 21, /* expressions and elements in all: a second; chains may jump to each other a lot */
    JUMPS_MAX = 16,      /* as the kernel's NFT_JUMP_STACK_SIZE */
    FORKS_MAX = 8,       /* sets that one rule looks up one after the other */
    BYTES = 64,          /* of all registers */
};

/* What a byte of the registers has. */
enum origin {
    UNKNOWN = 0,
    VALUE, /* a constant, in state.value */
    FAMILY,
    PROTO,
    PORT,                /* of two bytes, the first and the second */
    ADDRESS4 = PORT + 2, /* of 4 */
    ADDRESS6 = ADDRESS4 + 4,
    ORIGINS = ADDRESS6 + 16,
};

struct state {
    struct nat_packets packets;
    uint8_t origin[BYTES];
    uint8_t value[BYTES];
    int forks;
};

struct walk {
    struct nft_rules *rules;
    struct nat_list *list;
    uint32_t steps;
};

/* Where the walk is. */
struct place {
    const struct nft_chain *chain;
    struct nat_attrs rest; /* of the rule's expressions */
    int jumps;
};

static bool is_over(struct walk *w)
{
    if (w->steps++ < STEPS_MAX)
        return false;
    w->list->is_cut = true;
    return true;
}

/* ---- registers ---- */

/* Return the bytes of a register, or BYTES: none of it is one. */
static size_t register_at(struct nat_attrs attrs, unsigned type)
{
    uint64_t number = nat_attrs_number(attrs, type, 0);

    if (number >= NFT_REG_1 && number <= NFT_REG_4)
        return (size_t) (number - NFT_REG_1) * NFT_REG_SIZE;
    if (number >= NFT_REG32_00 && number <= NFT_REG32_15)
        return (size_t) (number - NFT_REG32_00) * NFT_REG32_SIZE;
    return BYTES;
}

static void set_unknown(struct state *state, size_t at, size_t n)
{
    if (at < BYTES)
        memset(state->origin + at, UNKNOWN, n < BYTES - at ? n : BYTES - at);
}

static void set_value(struct state *state, size_t at, const uint8_t *bytes, size_t n)
{
    if (at >= BYTES || n > BYTES - at)
        return;
    memset(state->origin + at, VALUE, n);
    memcpy(state->value + at, bytes, n);
}

/* Do `n` bytes have the parts of a field, from the first? */
static bool has_field(const struct state *state, size_t at, unsigned field, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at + i >= BYTES || state->origin[at + i] != field + i)
            return false;
    return true;
}

static uint16_t number_of(const uint8_t *bytes)
{
    return (uint16_t) (bytes[0] << 8 | bytes[1]);
}

/* Narrow the packets to those for which the registers from `at` on are between `low` and `high`. */
static bool narrow(struct state *state, const char *chain, size_t at, const uint8_t *low, const uint8_t *high,
                   size_t n)
{
    struct nat_packets *packets = &state->packets;
    bool is_left = true;

    for (size_t i = 0; i < n && at + i < BYTES && is_left; i++) {
        const uint8_t *bytes = low + i;
        size_t from = at + i;

        if (n - i >= 2 && has_field(state, from, PORT, 2))
            is_left = nat_packets_ports(packets, number_of(bytes), number_of(high + i), chain);
        else if (n - i >= 4 && has_field(state, from, ADDRESS4, 4) && memcmp(bytes, high + i, 4) == 0)
            is_left = nat_packets_address(packets, bytes, 4);
        else if (n - i >= 16 && has_field(state, from, ADDRESS6, 16) && memcmp(bytes, high + i, 16) == 0)
            is_left = nat_packets_address(packets, bytes, 16);
        else if (state->origin[from] == PROTO && *bytes == high[i])
            is_left = nat_packets_proto(packets, *bytes);
        else if (state->origin[from] == FAMILY && *bytes == high[i])
            is_left = nat_packets_family(packets, *bytes == NFPROTO_IPV4 ? AF_INET : AF_INET6);
    }
    return is_left;
}

/* ---- expressions that end or narrow ---- */

/* An expression returns false when no packet passes it, or none stays in this chain. */

static bool run_payload(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    size_t at = register_at(e, NFTA_PAYLOAD_DREG);
    uint64_t base = nat_attrs_number(e, NFTA_PAYLOAD_BASE, UINT64_MAX);
    uint64_t offset = nat_attrs_number(e, NFTA_PAYLOAD_OFFSET, UINT64_MAX);
    uint64_t n = nat_attrs_number(e, NFTA_PAYLOAD_LEN, 0);
    bool is_v4 = state->packets.is_v4 && !state->packets.is_v6;
    bool is_v6 = state->packets.is_v6 && !state->packets.is_v4;

    (void) w;
    (void) place;
    for (uint64_t i = 0; i < n && at + i < BYTES; i++) {
        uint64_t byte = offset + i;
        unsigned origin = UNKNOWN;

        if (base == NFT_PAYLOAD_TRANSPORT_HEADER && byte - 2 < 2)
            origin = (unsigned) (PORT + byte - 2);
        else if (base == NFT_PAYLOAD_NETWORK_HEADER && is_v4)
            origin = byte == 9 ? PROTO : byte - 16 < 4 ? (unsigned) (ADDRESS4 + byte - 16) : UNKNOWN;
        else if (base == NFT_PAYLOAD_NETWORK_HEADER && is_v6)
            origin = byte == 6 ? PROTO : byte - 24 < 16 ? (unsigned) (ADDRESS6 + byte - 24) : UNKNOWN;
        state->origin[at + i] = (uint8_t) origin;
    }
    return true;
}

static bool run_meta(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    size_t at = register_at(e, NFTA_META_DREG);
    uint64_t key = nat_attrs_number(e, NFTA_META_KEY, UINT64_MAX);

    (void) w;
    (void) place;
    set_unknown(state, at, NFT_REG_SIZE);
    if (at < BYTES && key == NFT_META_L4PROTO)
        state->origin[at] = PROTO;
    if (at < BYTES && key == NFT_META_NFPROTO)
        state->origin[at] = FAMILY;
    return true;
}

static bool find_value(struct nat_attrs e, unsigned type, struct nat_attr *out)
{
    struct nat_attr data;

    return nat_attrs_find(e, type, &data) && nat_attrs_find(nat_attrs_of(data), NFTA_DATA_VALUE, out) &&
           out->len > 0 && out->len <= BYTES;
}

static bool run_cmp(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    uint8_t least[BYTES] = { 0 };
    uint8_t most[BYTES];
    size_t at = register_at(e, NFTA_CMP_SREG);
    uint64_t op = nat_attrs_number(e, NFTA_CMP_OP, NFT_CMP_NEQ);
    struct nat_attr value;

    (void) w;
    memset(most, 0xff, sizeof most);
    if (!find_value(e, NFTA_CMP_DATA, &value))
        return true;
    const uint8_t *low = op == NFT_CMP_EQ || op == NFT_CMP_GT || op == NFT_CMP_GTE ? value.bytes : least;
    const uint8_t *high = op == NFT_CMP_EQ || op == NFT_CMP_LT || op == NFT_CMP_LTE ? value.bytes : most;
    return narrow(state, place->chain->key.name, at, low, high, value.len);
}

static bool run_range(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    struct nat_attr from;
    struct nat_attr to;

    (void) w;
    if (nat_attrs_number(e, NFTA_RANGE_OP, NFT_RANGE_EQ) != NFT_RANGE_EQ ||
        !find_value(e, NFTA_RANGE_FROM_DATA, &from) || !find_value(e, NFTA_RANGE_TO_DATA, &to) ||
        from.len != to.len)
        return true;
    return narrow(state, place->chain->key.name, register_at(e, NFTA_RANGE_SREG), from.bytes, to.bytes,
                  from.len);
}

/* A mask that keeps whole bytes keeps what they are: a prefix of an address is no address. */
static bool run_bitwise(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    size_t from = register_at(e, NFTA_BITWISE_SREG);
    size_t to = register_at(e, NFTA_BITWISE_DREG);
    size_t n = (size_t) nat_attrs_number(e, NFTA_BITWISE_LEN, BYTES) % (BYTES + 1);
    struct nat_attr mask;

    (void) w;
    (void) place;
    if (to >= BYTES)
        return true;
    bool has_mask = find_value(e, NFTA_BITWISE_MASK, &mask) && from < BYTES && mask.len >= n;
    for (size_t i = 0; i < n && to + i < BYTES; i++) {
        bool is_kept = has_mask && from + i < BYTES && mask.bytes[i] == 0xff;

        state->origin[to + i] =
            is_kept && state->origin[from + i] != VALUE ? state->origin[from + i] : UNKNOWN;
    }
    return true;
}

/* Numbers of two or more bytes change their order: what the packet's bytes were is lost. */
static bool run_byteorder(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    (void) w;
    (void) place;
    set_unknown(state, register_at(e, NFTA_BYTEORDER_DREG),
                (size_t) nat_attrs_number(e, NFTA_BYTEORDER_LEN, BYTES) % (BYTES + 1));
    return true;
}

static void walk_chain(struct walk *w, const struct nft_chain *chain, const struct nat_packets *packets,
                       int jumps);

/* Follow a verdict; false: no packet stays in this chain. */
static bool take_verdict(struct walk *w, const struct place *place, const struct nat_packets *packets,
                         struct nat_attrs data)
{
    struct nat_attr verdict;

    if (!nat_attrs_find(data, NFTA_DATA_VERDICT, &verdict))
        return true;
    struct nft_key key = place->chain->key;
    int32_t code = (int32_t) nat_attrs_number(nat_attrs_of(verdict), NFTA_VERDICT_CODE, 0);
    key.name = nat_attrs_text(nat_attrs_of(verdict), NFTA_VERDICT_CHAIN);
    if ((code == NFT_JUMP || code == NFT_GOTO) && key.name)
        walk_chain(w, nft_find_chain(w->rules, &key), packets, place->jumps + 1);
    return code == NFT_CONTINUE || code == NFT_JUMP;
}

static bool run_immediate(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    struct nat_attr data;
    struct nat_attr value;

    if (find_value(e, NFTA_IMMEDIATE_DATA, &value))
        set_value(state, register_at(e, NFTA_IMMEDIATE_DREG), value.bytes, value.len);
    return !nat_attrs_find(e, NFTA_IMMEDIATE_DATA, &data) ||
           take_verdict(w, place, &state->packets, nat_attrs_of(data));
}

static void publish(struct walk *w, const struct place *place, const struct state *state, const char *action)
{
    static const char *const families[] = {
        [NFPROTO_INET] = "inet", [NFPROTO_IPV4] = "ip", [NFPROTO_IPV6] = "ip6"
    };
    const struct nft_key *key = &place->chain->key;
    char table[64];

    (void) snprintf(table, sizeof table, "table %s %s", families[key->family], key->table);
    nat_list_add(w->list, &state->packets, &(struct nat_place){ table, action });
}

static bool has_values(const struct state *state, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at + i >= BYTES || state->origin[at + i] != VALUE)
            return false;
    return true;
}

/* Write where packets go, as far as the registers have it. */
static void publish_nat(struct walk *w, const struct place *place, const struct state *state,
                        const char *word, const size_t registers[2], size_t address_len)
{
    char action[NAT_ACTION_MAX + 1];
    bool has_address = address_len > 0 && has_values(state, registers[0], address_len);
    bool has_port = has_values(state, registers[1], 2);

    nat_action(word, has_address ? state->value + registers[0] : NULL, address_len,
               has_port ? number_of(state->value + registers[1]) : 0, action);
    publish(w, place, state, action);
}

static bool run_nat(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    const size_t registers[2] = { register_at(e, NFTA_NAT_REG_ADDR_MIN),
                                  register_at(e, NFTA_NAT_REG_PROTO_MIN) };
    bool is_v6 = nat_attrs_number(e, NFTA_NAT_FAMILY, 0) == NFPROTO_IPV6;

    if (nat_attrs_number(e, NFTA_NAT_TYPE, NFT_NAT_SNAT) != NFT_NAT_DNAT)
        return false;
    publish_nat(w, place, state, "dnat", registers, is_v6 ? 16 : 4);
    return false;
}

static bool run_redir(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    const size_t registers[2] = { BYTES, register_at(e, NFTA_REDIR_REG_PROTO_MIN) };

    publish_nat(w, place, state, "redirect", registers, 0);
    return false;
}

static struct xtables_part part_of(const struct place *place, struct nat_attrs e, const unsigned types[3])
{
    struct nat_attr info;
    const char *name = nat_attrs_text(e, types[0]);

    (void) nat_attrs_find(e, types[2], &info);
    return (struct xtables_part){ .name = name ? name : "",
                                  .revision = (uint8_t) nat_attrs_number(e, types[1], 0),
                                  .info = info.bytes,
                                  .len = info.len,
                                  .is_v6 = place->chain->key.family == NFPROTO_IPV6 };
}

static bool run_target(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    static const unsigned types[] = { NFTA_TARGET_NAME, NFTA_TARGET_REV, NFTA_TARGET_INFO };
    const struct xtables_part target = part_of(place, e, types);
    char action[NAT_ACTION_MAX + 1];

    if (!xtables_target(&target, action))
        return true;
    publish(w, place, state, action);
    return false;
}

/* ---- expressions with several outcomes ---- */

static void follow(struct walk *w, struct place place, const struct state *before);

/* Follow the rest of the rule for each range of ports. */
static bool run_match(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    static const unsigned types[] = { NFTA_MATCH_NAME, NFTA_MATCH_REV, NFTA_MATCH_INFO };
    const struct xtables_part match = part_of(place, e, types);
    struct xtables_ports ports;

    if (state->forks == FORKS_MAX || !xtables_match(&match, &ports))
        return true;
    if (ports.ip_proto && !nat_packets_proto(&state->packets, ports.ip_proto))
        return false;
    for (size_t i = 0; i < ports.n; i++) {
        struct state one = *state;

        one.forks++;
        if (nat_packets_ports(&one.packets, ports.ranges[i].first, ports.ranges[i].last,
                              place->chain->key.name))
            follow(w, *place, &one);
    }
    return false;
}

/* Follow the rest of the rule for an element that the packets may match. */
static void take_one(struct walk *w, const struct place *place, const struct state *state, size_t at[2],
                     const struct nft_element *element)
{
    struct state one = *state;
    struct nat_attr value;

    one.forks++;
    if (element->low &&
        !narrow(&one, place->chain->key.name, at[0], element->low, element->high, element->len))
        return;
    set_unknown(&one, at[1], NFT_REG_SIZE + NFT_REG32_SIZE); /* an address and a port */
    if (nat_attrs_find(element->data, NFTA_DATA_VALUE, &value))
        set_value(&one, at[1], value.bytes, value.len);
    if (take_verdict(w, place, &one.packets, element->data))
        follow(w, *place, &one);
}

static bool knows_any(const struct state *state, size_t at)
{
    for (size_t i = at; i < BYTES; i++)
        if (state->origin[i] > VALUE)
            return true;
    return false;
}

static bool run_lookup(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e)
{
    size_t at[2] = { register_at(e, NFTA_LOOKUP_SREG), register_at(e, NFTA_LOOKUP_DREG) };
    struct nat_attr is_map;
    struct nft_key key = place->chain->key;

    key.name = nat_attrs_text(e, NFTA_LOOKUP_SET);
    bool has_data = nat_attrs_find(e, NFTA_LOOKUP_DREG, &is_map);
    bool is_inverted = nat_attrs_number(e, NFTA_LOOKUP_FLAGS, 0) & NFT_LOOKUP_F_INV;
    if (!key.name || is_inverted || state->forks == FORKS_MAX || (!has_data && !knows_any(state, at[0])))
        return true; /* a set of what dibs does not look at, such as sources */
    const struct nft_set *set = nft_find_set(w->rules, &key);
    if (!set)
        return true;
    for (size_t i = 0; i < set->n && !is_over(w); i++)
        if (!set->elements[i].is_end)
            take_one(w, place, state, at, &set->elements[i]);
    return false;
}

/* ---- the walk ---- */

static const struct expression {
    const char *name;
    bool (*run)(struct walk *w, const struct place *place, struct state *state, struct nat_attrs e);
} expressions[] = {
    { "payload", run_payload },     { "meta", run_meta },           { "cmp", run_cmp },
    { "range", run_range },         { "bitwise", run_bitwise },     { "lookup", run_lookup },
    { "match", run_match },         { "immediate", run_immediate }, { "nat", run_nat },
    { "byteorder", run_byteorder }, { "redir", run_redir },         { "target", run_target },
};

/* Expressions that write to no register. */
static bool is_statement(const char *name)
{
    static const char *const names[] = { "counter", "log",    "limit",  "quota", "connlimit",
                                         "masq",    "dynset", "objref", "last",  "notrack" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool run_expression(struct walk *w, const struct place *place, struct state *state,
                           struct nat_attrs attrs)
{
    const char *name = nat_attrs_text(attrs, NFTA_EXPR_NAME);
    struct nat_attr data;

    if (!name)
        return true;
    (void) nat_attrs_find(attrs, NFTA_EXPR_DATA, &data);
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        if (strcmp(name, expressions[i].name) == 0)
            return expressions[i].run(w, place, state, nat_attrs_of(data));
    if (!is_statement(name))
        set_unknown(state, 0, BYTES);
    return true;
}

static void follow(struct walk *w, struct place place, const struct state *before)
{
    struct state state = *before;
    struct nat_attr item;

    while (nat_attrs_next(&place.rest, &item))
        if (is_over(w) ||
            (item.type == NFTA_LIST_ELEM && !run_expression(w, &place, &state, nat_attrs_of(item))))
            return;
}

static void walk_chain(struct walk *w, const struct nft_chain *chain, const struct nat_packets *packets,
                       int jumps)
{
    const struct state state = { .packets = *packets };

    if (!chain || jumps > JUMPS_MAX)
        return;
    for (const struct nft_rule *rule = chain->first; rule && !is_over(w); rule = rule->next)
        follow(w, (struct place){ chain, rule->expressions, jumps }, &state);
}

void nft_publish(struct nft_rules *rules, struct nat_list *list)
{
    struct walk w = { .rules = rules, .list = list };

    for (size_t i = 0; i < rules->n_chains; i++) {
        const struct nft_chain *chain = &rules->chains[i];
        int family = chain->key.family == NFPROTO_IPV4   ? AF_INET
                     : chain->key.family == NFPROTO_IPV6 ? AF_INET6
                                                         : 0;
        const struct nat_packets all = nat_packets_of(family);

        if (chain->is_entry)
            walk_chain(&w, chain, &all, 0);
    }
    list->is_cut = list->is_cut || rules->is_cut;
}
