/* SPDX-License-Identifier: MIT */
/* Any text as an address and as a protocol: what is accepted reads back as itself and
 * conflicts with itself, what is refused has a reason that is safe to print. */
#include <stdlib.h>
#include <string.h>

#include "dibs/net.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const dibs_err *err)
{
    CHECK(err->code == DIBS_INVALID);
    CHECK(err->msg[0] != '\0');
    for (const char *at = err->msg; *at; at++)
        CHECK(*at >= 0x20 && *at < 0x7f);
}

static void check_one(const dibs_address *address)
{
    static const dibs_address dual_stack = { .len = 16 };
    char text[DIBS_ADDRESS_TEXT_MAX + 1] = "";
    dibs_address back[2] = { { .len = 0 } };
    dibs_err err = { .code = DIBS_OK };
    size_t n = 0;

    CHECK(address->len == 4 || address->len == 16);
    CHECK(!address->v6only);
    dibs_address_format(address, text);
    CHECK(dibs_address_parse(text, back, &n, &err) == DIBS_OK);
    CHECK(n == 1);
    CHECK(dibs_address_equal(address, &back[0]));
    CHECK(dibs_address_conflict(address, &back[0]));
    CHECK(dibs_address_conflict(address, &dual_stack) && dibs_address_conflict(&dual_stack, address));
}

static void check_proto(const char *text)
{
    dibs_proto proto = DIBS_TCP;
    dibs_proto back = DIBS_TCP;
    dibs_err err = { .code = DIBS_OK };

    if (dibs_proto_parse(text, &proto, &err) != DIBS_OK) {
        check_refusal(&err);
        return;
    }
    CHECK(dibs_proto_parse(dibs_proto_text(proto), &back, &err) == DIBS_OK);
    CHECK(back == proto);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dibs_address found[2] = { { .len = 0 } };
    dibs_err err = { .code = DIBS_OK };
    char *text = malloc(size + 1);
    size_t n = 0;

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (dibs_address_parse(text, found, &n, &err) == DIBS_OK) {
        CHECK(n == 1 || n == 2);
        for (size_t i = 0; i < n; i++)
            check_one(&found[i]);
    } else {
        check_refusal(&err);
        CHECK(n == 0 && found[0].len == 0);
    }
    check_proto(text);
    free(text);
    return 0;
}
