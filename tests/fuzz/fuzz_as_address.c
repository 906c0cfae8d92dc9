/* SPDX-License-Identifier: MIT */
/* Socket addresses as programs below `dibs run --as` pass them: any bytes of any size. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "hold/as/internal.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_address address = { .size = 0 };

    if (size > sizeof address.space)
        return 0;
    memcpy(&address.space, data, size);
    address.size = (socklen_t) size;
    if (!as_address_has_port(&address))
        return 0;
    if (address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6)
        (void) as_address_is_local(&address);
    uint16_t port = as_address_port(&address);
    as_address_set_port(&address, (uint16_t) (port + 1));
    assert(as_address_port(&address) == (uint16_t) (port + 1));
    return 0;
}
