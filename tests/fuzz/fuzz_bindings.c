/* SPDX-License-Identifier: MIT */
/* Any bytes as packed bindings: what is accepted packs to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dibs_claim claim = { 0 };
    uint8_t packed[RECORD_BINDINGS_BYTES_MAX];

    if (!record_bindings_unpack(data, size, &claim)) {
        CHECK(claim.n_bindings <= DIBS_BINDINGS_MAX);
        return 0;
    }
    CHECK(claim.n_bindings >= 1 && claim.n_bindings <= DIBS_BINDINGS_MAX && size <= sizeof packed);
    for (size_t i = 0; i < claim.n_bindings; i++) {
        CHECK(claim.bindings[i].proto >= DIBS_TCP && claim.bindings[i].proto <= DIBS_SCTP);
        CHECK(claim.bindings[i].address.len == 4 || claim.bindings[i].address.len == 16);
        CHECK(!claim.bindings[i].address.v6only);
    }
    CHECK(record_bindings_pack(&claim, packed) == size);
    CHECK(memcmp(packed, data, size) == 0);
    CHECK(record_same_bindings(&claim, &claim));
    return 0;
}
