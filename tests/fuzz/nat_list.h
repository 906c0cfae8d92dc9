/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_FUZZ_NAT_LIST_H
#define DIBS_TESTS_FUZZ_NAT_LIST_H
#include <assert.h>
#include <string.h>

#include "host/nat/published.h"

/* What holds for every list: rules have ports, an address, a text that ends, and are found by their ports. */
static inline void check_nat_list(const struct nat_list *list)
{
    assert(list->n <= NAT_RULES_MAX);
    for (size_t i = 0; i < list->n; i++) {
        const struct nat_rule *rule = &list->rules[i];

        assert(rule->ports.first > 0 && rule->ports.first <= rule->ports.last);
        assert(rule->address.len == 4 || rule->address.len == 16);
        assert(memchr(rule->text, '\0', sizeof rule->text) && rule->text[0]);
        assert(portbits_has(&list->ports[rule->proto], rule->ports.first));
        assert(portbits_has(&list->ports[rule->proto], rule->ports.last));
    }
}
#endif
