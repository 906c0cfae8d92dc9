/* SPDX-License-Identifier: MIT */
/* Any text as /proc/net/ip_vs. */
#include <stdint.h>
#include <stdlib.h>

#include "host/nat/ipvs.h"
#include "nat_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct nat_list list;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    (void) ipvs_publish(text, &list);
    check_nat_list(&list);
    nat_list_clear(&list);
    free(text);
    return 0;
}
