/* SPDX-License-Identifier: MIT */
/* Any bytes as the stream of a watch: cut in another way they say the same. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/lines.h"
#include "kube/client/informer.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *hear(void *ctx, const char *line, size_t n)
{
    struct informer_message m = { 0 };
    uint64_t *heard = ctx;
    const char *wrong = informer_message_read(line, n, &m);

    if (wrong) {
        CHECK(!m.doc);
        return wrong;
    }
    CHECK(m.object && (m.kind == INFORMER_ERROR ? m.code > 0 : *m.version != '\0'));
    *heard = hash_fnv1a(*heard, m.version, strlen(m.version) + 1);
    informer_message_done(&m);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes rest[2] = { 0 };
    uint64_t whole = HASH_FNV_BASIS;
    uint64_t drops = HASH_FNV_BASIS;
    const char *text = (const char *) data;
    const char *wrong = size > 0 ? lines_take(&rest[0], text, size, hear, &whole) : NULL;
    const char *other = NULL;

    for (size_t i = 0; i < size && !other; i++)
        other = lines_take(&rest[1], text + i, 1, hear, &drops);
    CHECK(!wrong == !other && whole == drops);
    bytes_done(&rest[0]);
    bytes_done(&rest[1]);
    return 0;
}
