/* SPDX-License-Identifier: MIT */
/* Any bytes as ip_local_reserved_ports: refused with the output untouched, or a set that, written in the
 * kernel's form, reads back as the same set. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/kernel.h"

/* 32768 numbers of five digits, commas, a newline. */
#define TEXT_MAX 200000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t write_list(const struct portbits *bits, char *out)
{
    size_t used = 0;

    for (uint32_t port = 1; port <= DIBS_PORT_MAX; port++) {
        uint32_t last = port;

        if (!portbits_has(bits, (uint16_t) port))
            continue;
        while (last < DIBS_PORT_MAX && portbits_has(bits, (uint16_t) (last + 1)))
            last++;
        used += (size_t) snprintf(out + used, TEXT_MAX - used, last > port ? "%s%u-%u" : "%s%u",
                                  used ? "," : "", port, last);
        port = last;
    }
    out[used++] = '\n';
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char list[TEXT_MAX];
    static struct portbits got;
    static struct portbits again;
    static struct portbits before;
    char *text = malloc(size ? size : 1); /* exactly as long: a read too far is found */

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    memset(&before, 0x5a, sizeof before);
    got = before;
    if (kernel_reserved_parse(text, size, &got)) {
        assert(!portbits_has(&got, 0));
        assert(kernel_reserved_parse(list, write_list(&got, list), &again));
        assert(memcmp(&got, &again, sizeof got) == 0);
    } else {
        assert(memcmp(&got, &before, sizeof got) == 0);
    }
    free(text);
    return 0;
}
