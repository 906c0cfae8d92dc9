/* SPDX-License-Identifier: MIT */
/* Addresses as values: packed, normalised, never looked up. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/text.h"
#include "dibs/net.h"

#include "base/banned.h"

#define V4_BYTES 4
#define V6_BYTES 16

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };
static const dibs_address loopback4 = { .len = V4_BYTES, .bytes = { 127, 0, 0, 1 } };
static const dibs_address loopback6 = { .len = V6_BYTES, .bytes = { [15] = 1 } };
static const dibs_address dual_stack = { .len = V6_BYTES };

static dibs_status refuse(dibs_err *err, const char *text, const char *why)
{
    char shown[52];

    return err_set(err, DIBS_INVALID, "address '%s': %s", text_safe(text ? text : "", shown, sizeof shown),
                   why);
}

static bool literal(const char *text, dibs_address *out)
{
    char bare[INET6_ADDRSTRLEN] = ""; /* inet_pton() needs a NUL-terminated string */
    size_t n = strnlen(text, INET6_ADDRSTRLEN + 2);
    bool had_brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
    dibs_address found = { 0 };

    n -= had_brackets ? 2 : 0;
    if (n >= sizeof bare)
        return false;
    memcpy(bare, text + had_brackets, n);
    if (!had_brackets && inet_pton(AF_INET, bare, found.bytes) == 1) {
        found.len = V4_BYTES;
    } else if (inet_pton(AF_INET6, bare, found.bytes) == 1) {
        found.len = V6_BYTES;
    } else {
        return false;
    }
    /* The kernel delivers IPv4 traffic to a v4-mapped socket: treat it as that IPv4 address. */
    if (found.len == V6_BYTES && memcmp(found.bytes, mapped_prefix, sizeof mapped_prefix) == 0) {
        dibs_address unmapped = { .len = V4_BYTES };
        memcpy(unmapped.bytes, found.bytes + sizeof mapped_prefix, V4_BYTES);
        found = unmapped;
    }
    *out = found;
    return true;
}

/* Return why no program can listen on the address, or NULL. */
static const char *unusable(const dibs_address *address)
{
    static const uint8_t broadcast[V4_BYTES] = { 255, 255, 255, 255 };

    if (address->len == V6_BYTES)
        return address->bytes[0] == 0xff ? "a multicast address cannot be claimed" : NULL;
    if ((address->bytes[0] & 0xf0) == 0xe0)
        return "a multicast address cannot be claimed";
    if (memcmp(address->bytes, broadcast, V4_BYTES) == 0)
        return "the broadcast address cannot be claimed";
    return NULL;
}

dibs_status dibs_address_parse(const char *text, dibs_address out[2], size_t *n, dibs_err *err)
{
    dibs_address found = { 0 };

    if (!text || !*text)
        return refuse(err, text, "is empty; '*' means every address");
    if (!out || !n)
        return refuse(err, text, "there is no place for it");
    if (strcasecmp(text, "localhost") == 0) {
        out[0] = loopback4;
        out[1] = loopback6;
        *n = 2;
        return DIBS_OK;
    }
    if (strcmp(text, "*") == 0) {
        out[0] = dual_stack;
        *n = 1;
        return DIBS_OK;
    }
    if (strchr(text, '%'))
        return refuse(err, text,
                      "zone ids are not supported, since an interface's number changes: such an address "
                      "cannot be claimed");
    if (!literal(text, &found))
        return refuse(err, text,
                      "is not an IPv4 or IPv6 address, 'localhost' or '*'; host names are not looked up");
    const char *why = unusable(&found);
    if (why)
        return refuse(err, text, why);
    out[0] = found;
    *n = 1;
    return DIBS_OK;
}

void dibs_address_format(const dibs_address *address, char out[DIBS_ADDRESS_TEXT_MAX + 1])
{
    _Static_assert(DIBS_ADDRESS_TEXT_MAX + 1 >= INET6_ADDRSTRLEN, "an address fits its text");
    static const dibs_address none = { 0 };

    if (!out)
        return;
    if (!address)
        address = &none;
    /* Only an observed IPv6-only wildcard is "::"; the dual-stack one is "*". */
    if (address->len == V6_BYTES && dibs_address_is_wildcard(address) && !address->v6only) {
        (void) snprintf(out, DIBS_ADDRESS_TEXT_MAX + 1, "*");
        return;
    }
    int family = address->len == V4_BYTES ? AF_INET : AF_INET6;
    if ((address->len != V4_BYTES && address->len != V6_BYTES) ||
        !inet_ntop(family, address->bytes, out, DIBS_ADDRESS_TEXT_MAX + 1))
        (void) snprintf(out, DIBS_ADDRESS_TEXT_MAX + 1, "invalid");
}

bool dibs_address_is_wildcard(const dibs_address *address)
{
    static const uint8_t zero[V6_BYTES];

    return address && (address->len == V4_BYTES || address->len == V6_BYTES) &&
           memcmp(address->bytes, zero, address->len) == 0;
}

static bool same_bytes(const dibs_address *a, const dibs_address *b)
{
    return a->len == b->len && a->len <= V6_BYTES && memcmp(a->bytes, b->bytes, a->len) == 0;
}

bool dibs_address_equal(const dibs_address *a, const dibs_address *b)
{
    /* v6only distinguishes two wildcards only. */
    return a && b && same_bytes(a, b) && (!dibs_address_is_wildcard(a) || a->v6only == b->v6only);
}

bool dibs_address_conflict(const dibs_address *a, const dibs_address *b)
{
    if (!a || !b)
        return false;
    if (a->len == b->len)
        return same_bytes(a, b) || dibs_address_is_wildcard(a) || dibs_address_is_wildcard(b);
    /* Across families only a dual-stack wildcard conflicts. */
    const dibs_address *v6 = a->len == V6_BYTES ? a : b;
    return v6->len == V6_BYTES && dibs_address_is_wildcard(v6) && !v6->v6only;
}
