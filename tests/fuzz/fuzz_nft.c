/* SPDX-License-Identifier: MIT */
/* Any bytes as the messages with which nf_tables lists its rules: some ports are published, or none. The
 * corpus has real lists of chains, sets, rules and elements. */
#include <stdint.h>
#include <stdlib.h>

#include "host/nat/nft.h"
#include "nat_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct nat_list list;
    struct nft_rules rules = { 0 };
    struct nat_answer answer = { .fn = nft_take, .ctx = &rules };
    uint8_t *bytes = malloc(size ? size : 1); /* exactly as long: a read too far is found */

    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    nat_netlink_take(&answer, bytes, size);
    free(bytes); /* nothing refers to an answer */
    nft_link(&rules);
    nft_publish(&rules, &list);
    check_nat_list(&list);
    nft_done(&rules);
    nat_list_clear(&list);
    return 0;
}
