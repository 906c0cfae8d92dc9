/* SPDX-License-Identifier: MIT */
#include "host/nat/nft.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/grow.h"

#include "base/banned.h"

enum {
    OBJECTS_MAX = 1 << 20, /* of each kind; kube-proxy makes some ten thousand rules */
    KEY_BYTES_MAX = 64,    /* all registers of the kernel's machine */
};

static int compare(const void *a, const void *b)
{
    const struct nft_key *x = a;
    const struct nft_key *y = b;
    int order = (int) x->family - (int) y->family;

    if (order == 0)
        order = strcmp(x->table, y->table);
    return order ? order : strcmp(x->name, y->name);
}

static bool has_room(struct nft_rules *rules, void **items, size_t n, size_t *max, size_t size)
{
    bool has = n < OBJECTS_MAX && grow(items, n, max, size);

    rules->is_cut = rules->is_cut || !has;
    return has;
}

/* Keep a copy of the attributes: those of an answer are gone with it. */
static bool keep(struct nft_rules *rules, struct nat_attrs *attrs)
{
    uint8_t *copy = arena_take(&rules->arena, attrs->left ? attrs->left : 1);

    rules->is_cut = rules->is_cut || !copy;
    if (copy && attrs->left)
        memcpy(copy, attrs->at, attrs->left);
    attrs->at = copy;
    return copy;
}

/* Read the table's name, and another one; false: damaged, or of a family without ports. */
static bool read_key(const struct nat_object *object, unsigned table, unsigned name, struct nft_key *out)
{
    *out = (struct nft_key){ object->family, nat_attrs_text(object->attrs, table),
                             nat_attrs_text(object->attrs, name) };
    bool is_ip = out->family == NFPROTO_IPV4 || out->family == NFPROTO_IPV6 || out->family == NFPROTO_INET;
    return is_ip && out->table && out->name;
}

static void take_chain(struct nft_rules *rules, struct nat_object object)
{
    struct nft_chain chain = { 0 };
    struct nat_attr hook;

    if (!keep(rules, &object.attrs) || !read_key(&object, NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, &chain.key) ||
        !has_room(rules, (void **) &rules->chains, rules->n_chains, &rules->max_chains, sizeof chain))
        return;
    const char *type = nat_attrs_text(object.attrs, NFTA_CHAIN_TYPE);
    if (type && strcmp(type, "nat") == 0 && nat_attrs_find(object.attrs, NFTA_CHAIN_HOOK, &hook)) {
        uint64_t number = nat_attrs_number(nat_attrs_of(hook), NFTA_HOOK_HOOKNUM, NF_INET_NUMHOOKS);

        chain.is_entry = number == NF_INET_PRE_ROUTING || number == NF_INET_LOCAL_OUT;
    }
    rules->chains[rules->n_chains++] = chain;
}

static void take_rule(struct nft_rules *rules, struct nat_object object)
{
    struct nft_rule rule = { 0 };
    struct nat_attr expressions;

    if (!keep(rules, &object.attrs) || !read_key(&object, NFTA_RULE_TABLE, NFTA_RULE_CHAIN, &rule.chain) ||
        !nat_attrs_find(object.attrs, NFTA_RULE_EXPRESSIONS, &expressions) ||
        !has_room(rules, (void **) &rules->rules, rules->n_rules, &rules->max_rules, sizeof rule))
        return;
    rule.expressions = nat_attrs_of(expressions);
    rules->rules[rules->n_rules++] = rule;
}

static void take_set(struct nft_rules *rules, struct nat_object object)
{
    struct nft_set set = { 0 };

    if (!keep(rules, &object.attrs) || !read_key(&object, NFTA_SET_TABLE, NFTA_SET_NAME, &set.key) ||
        !has_room(rules, (void **) &rules->sets, rules->n_sets, &rules->max_sets, sizeof set))
        return;
    set.flags = (uint32_t) nat_attrs_number(object.attrs, NFTA_SET_FLAGS, 0);
    set.is_loaded = !rules->load;
    rules->sets[rules->n_sets++] = set;
}

/* Find the bytes of a key or its end; false: there is none, or a damaged one. */
static bool find_bytes(struct nat_attrs element, unsigned type, struct nat_attr *out)
{
    struct nat_attr key;

    return nat_attrs_find(element, type, &key) && nat_attrs_find(nat_attrs_of(key), NFTA_DATA_VALUE, out) &&
           out->len > 0 && out->len <= KEY_BYTES_MAX;
}

static void take_element(struct nft_rules *rules, struct nft_set *set, struct nat_attrs from)
{
    struct nft_element element = { 0 };
    struct nat_attr bytes;
    struct nat_attr data;
    uint64_t flags = nat_attrs_number(from, NFTA_SET_ELEM_FLAGS, 0);

    if (!has_room(rules, (void **) &set->elements, set->n, &set->max, sizeof element))
        return;
    if (find_bytes(from, NFTA_SET_ELEM_KEY, &bytes)) {
        element.low = element.high = bytes.bytes;
        element.len = bytes.len;
        if (find_bytes(from, NFTA_SET_ELEM_KEY_END, &bytes) && bytes.len == element.len)
            element.high = bytes.bytes;
    } else if (!(flags & NFT_SET_ELEM_CATCHALL)) {
        return;
    }
    element.is_end = flags & NFT_SET_ELEM_INTERVAL_END;
    if (nat_attrs_find(from, NFTA_SET_ELEM_DATA, &data))
        element.data = nat_attrs_of(data);
    set->elements[set->n++] = element;
}

static void take_elements(struct nft_rules *rules, struct nat_object object)
{
    struct nft_key key;
    struct nat_attr list;
    struct nat_attr item;

    if (!keep(rules, &object.attrs) ||
        !read_key(&object, NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_ELEM_LIST_SET, &key) ||
        !nat_attrs_find(object.attrs, NFTA_SET_ELEM_LIST_ELEMENTS, &list))
        return;
    nft_link(rules);
    struct nft_set *set =
        rules->n_sets ? bsearch(&key, rules->sets, rules->n_sets, sizeof *rules->sets, compare) : NULL;
    struct nat_attrs items = nat_attrs_of(list);
    while (set && nat_attrs_next(&items, &item))
        if (item.type == NFTA_LIST_ELEM)
            take_element(rules, set, nat_attrs_of(item));
}

void nft_take(void *ctx, const struct nat_object *object)
{
    struct nft_rules *rules = ctx;

    if (rules->is_linked && object->type != NFT_MSG_NEWSETELEM)
        return;
    switch (object->type) {
    case NFT_MSG_NEWCHAIN: take_chain(rules, *object); break;
    case NFT_MSG_NEWRULE: take_rule(rules, *object); break;
    case NFT_MSG_NEWSET: take_set(rules, *object); break;
    case NFT_MSG_NEWSETELEM: take_elements(rules, *object); break;
    default: break;
    }
}

void nft_link(struct nft_rules *rules)
{
    if (rules->is_linked)
        return;
    rules->is_linked = true;
    if (rules->n_chains > 1)
        qsort(rules->chains, rules->n_chains, sizeof *rules->chains, compare);
    if (rules->n_sets > 1)
        qsort(rules->sets, rules->n_sets, sizeof *rules->sets, compare);
    for (size_t i = 0; i < rules->n_rules; i++) {
        struct nft_rule *rule = &rules->rules[i];
        struct nft_chain *chain = nft_find_chain(rules, &rule->chain);

        if (!chain)
            continue;
        if (chain->last)
            chain->last->next = rule;
        else
            chain->first = rule;
        chain->last = rule;
    }
}

struct nft_chain *nft_find_chain(const struct nft_rules *rules, const struct nft_key *key)
{
    return rules->n_chains ? bsearch(key, rules->chains, rules->n_chains, sizeof *rules->chains, compare)
                           : NULL;
}

/* ---- sets ---- */

static int compare_elements(const void *a, const void *b)
{
    const struct nft_element *x = a;
    const struct nft_element *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = n ? memcmp(x->low, y->low, n) : 0;

    if (order == 0)
        order = (x->len > y->len) - (x->len < y->len);
    return order ? order : (int) y->is_end - (int) x->is_end; /* an end first: the next begins there */
}

/* The kernel lists an interval as its first key, and the first key after it. Set the last key of each. */
static void close_intervals(struct nft_rules *rules, struct nft_set *set)
{
    if (set->n > 1)
        qsort(set->elements, set->n, sizeof *set->elements, compare_elements);
    for (size_t i = 0; i < set->n; i++) {
        struct nft_element *element = &set->elements[i];
        const struct nft_element *after = i + 1 < set->n ? element + 1 : NULL;
        uint8_t *last = NULL;

        if (element->is_end || element->len == 0)
            continue;
        last = arena_take(&rules->arena, element->len);
        if (!last) {
            rules->is_cut = true;
            return;
        }
        memset(last, 0xff, element->len); /* without an end: up to the highest */
        if (after && after->len == element->len && memcmp(after->low, element->low, element->len) > 0) {
            memcpy(last, after->low, element->len);
            for (size_t k = element->len; k > 0 && last[k - 1]-- == 0;)
                k--; /* borrow from the byte before */
        }
        element->high = last;
    }
}

const struct nft_set *nft_find_set(struct nft_rules *rules, const struct nft_key *key)
{
    struct nft_set *set =
        rules->n_sets ? bsearch(key, rules->sets, rules->n_sets, sizeof *rules->sets, compare) : NULL;

    if (!set)
        return NULL;
    if (!set->is_loaded && rules->load)
        rules->load(rules->load_ctx, rules, set);
    set->is_loaded = true;
    if (!set->is_ordered && (set->flags & NFT_SET_INTERVAL) && !(set->flags & NFT_SET_CONCAT))
        close_intervals(rules, set);
    set->is_ordered = true;
    return set;
}

void nft_done(struct nft_rules *rules)
{
    for (size_t i = 0; i < rules->n_sets; i++)
        free(rules->sets[i].elements);
    free(rules->sets);
    free(rules->rules);
    free(rules->chains);
    arena_free(rules->arena);
    *rules = (struct nft_rules){ 0 };
}

/* ---- the kernel's ---- */

struct reading {
    struct nat_netlink *nl;
    int failed;
};

static void load_set(void *ctx, struct nft_rules *rules, struct nft_set *set)
{
    struct reading *reading = ctx;
    const struct nat_query query = { .type = NFT_MSG_GETSETELEM,
                                     .family = set->key.family,
                                     .table_attr = NFTA_SET_ELEM_LIST_TABLE,
                                     .table = set->key.table,
                                     .set_attr = NFTA_SET_ELEM_LIST_SET,
                                     .set = set->key.name };
    int failed = nat_netlink_list(reading->nl, &query, nft_take, rules);

    reading->failed = reading->failed ? reading->failed : failed;
}

/* Read rules and sets of every table in which packets enter a NAT chain. */
static int read_tables(struct reading *reading, struct nft_rules *rules)
{
    const struct nft_key *before = NULL;
    size_t n_chains = rules->n_chains;
    int failed = 0;

    if (n_chains > 1)
        qsort(rules->chains, n_chains, sizeof *rules->chains, compare);
    for (size_t i = 0; i < n_chains && !failed; i++) {
        const struct nft_key *key = &rules->chains[i].key;
        bool is_known = before && before->family == key->family && strcmp(before->table, key->table) == 0;
        struct nat_query query = {
            .type = NFT_MSG_GETSET, .family = key->family, .table_attr = NFTA_SET_TABLE, .table = key->table
        };

        if (!rules->chains[i].is_entry || is_known)
            continue;
        before = key;
        failed = nat_netlink_list(reading->nl, &query, nft_take, rules);
        query.type = NFT_MSG_GETRULE;
        query.table_attr = NFTA_RULE_TABLE;
        if (!failed)
            failed = nat_netlink_list(reading->nl, &query, nft_take, rules);
    }
    return failed;
}

int nft_read(struct nat_netlink *nl, struct nat_list *list)
{
    struct reading reading = { .nl = nl };
    struct nft_rules rules = { .load = load_set, .load_ctx = &reading };
    int failed = nat_netlink_list(nl, &(struct nat_query){ .type = NFT_MSG_GETCHAIN }, nft_take, &rules);

    if (!failed)
        failed = read_tables(&reading, &rules);
    if (!failed) {
        nft_link(&rules);
        nft_publish(&rules, list);
        list->n_read = rules.n_rules;
        failed = reading.failed;
    }
    nft_done(&rules);
    return failed;
}
