/* SPDX-License-Identifier: MIT */
/* Any bytes as a table of iptables-legacy: the first is the family, then where each hook's chain begins and
 * ends (16 bits each, times 8), then the entries. */
#include <stdint.h>
#include <stdlib.h>

#include "host/nat/legacy.h"
#include "nat_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 1 + 4 * LEGACY_HOOKS };
    static struct nat_list list, brief;
    uint16_t offsets[2 * LEGACY_HOOKS];

    if (size < HEAD)
        return 0;
    struct legacy_table table = { .is_v6 = data[0] & 1, .hooks = ~0u, .n = size - HEAD };
    memcpy(offsets, data + 1, sizeof offsets);
    for (size_t i = 0; i < LEGACY_HOOKS; i++) {
        table.first[i] = offsets[i] * 8u;
        table.policy[i] = offsets[LEGACY_HOOKS + i] * 8u;
    }
    uint8_t *entries = malloc(table.n ? table.n : 1); /* exactly as long: a read too far is found */
    if (!entries)
        return 0;
    if (table.n)
        memcpy(entries, data + HEAD, table.n);
    table.entries = entries;
    legacy_publish(&table, &list);
    check_nat_list(&list);
    brief.is_brief = true;
    legacy_publish(&table, &brief);
    assert(brief.n == 0 && memcmp(brief.ports, list.ports, sizeof list.ports) == 0);
    nat_list_clear(&list);
    nat_list_clear(&brief);
    free(entries);
    return 0;
}
