/* SPDX-License-Identifier: MIT */
#include "net/bindings.h"

#include <string.h>

#include "base/err.h"

#include "base/banned.h"

dibs_status bindings_add(const char *text, const dibs_proto *protos, size_t n_protos,
                         dibs_binding out[DIBS_BINDINGS_MAX], size_t *n, dibs_err *err)
{
    dibs_address addresses[2];
    size_t n_addresses = 0;
    dibs_status s = dibs_address_parse(text, addresses, &n_addresses, err);

    if (s)
        return s;
    for (size_t p = 0; p < n_protos; p++) {
        for (size_t a = 0; a < n_addresses; a++) {
            dibs_binding one = { .proto = protos[p], .address = addresses[a] };
            if (bindings_cover(out, *n, &one))
                continue;
            if (*n == DIBS_BINDINGS_MAX)
                return err_set(err, DIBS_INVALID,
                               "more than %d bindings (protocols times addresses) for a port",
                               DIBS_BINDINGS_MAX);
            out[(*n)++] = one;
        }
    }
    return DIBS_OK;
}

bool bindings_narrow(const dibs_binding *wide, size_t n, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n_out)
{
    static const uint8_t loopback6[16] = { [15] = 1 };
    bool is_narrowed = false;

    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        dibs_binding b = wide[i];
        bool is_wide = b.address.len == 16 && dibs_address_is_wildcard(&b.address);
        dibs_binding other = { b.proto, { .len = 4, .bytes = { 127, 0, 0, 1 } } };
        bool is_half = b.address.len == 16 && memcmp(b.address.bytes, loopback6, 16) == 0 &&
                       bindings_have(wide, n, &other);

        is_narrowed = is_narrowed || is_wide || is_half;
        if (is_wide)
            b.address = (dibs_address){ .len = 4 };
        if (!is_half)
            out[(*n_out)++] = b;
    }
    return is_narrowed;
}

bool bindings_cover(dibs_binding *bindings, size_t n, const dibs_binding *one)
{
    for (size_t i = 0; i < n; i++) {
        dibs_address *address = &bindings[i].address;

        if (bindings[i].proto != one->proto)
            continue;
        if (dibs_address_equal(address, &one->address))
            return true;
        if (dibs_address_is_wildcard(address) && dibs_address_is_wildcard(&one->address)) {
            *address = (dibs_address){ .len = 16 };
            return true;
        }
    }
    return false;
}

static bool is_within(const dibs_binding *wide, const dibs_binding *inner)
{
    const dibs_address *all = &wide->address;

    return wide->proto == inner->proto &&
           (dibs_address_equal(all, &inner->address) ||
            (dibs_address_is_wildcard(all) &&
             (all->v6only ? inner->address.len == 16 && !dibs_address_is_wildcard(&inner->address)
                          : all->len == inner->address.len || all->len == 16)));
}

bool bindings_include(const dibs_binding *wide, size_t n_wide, const dibs_binding *inner, size_t n_inner)
{
    for (size_t i = 0; i < n_inner; i++) {
        bool is_included = false;

        for (size_t k = 0; k < n_wide && !is_included; k++)
            is_included = is_within(&wide[k], &inner[i]);
        if (!is_included)
            return false;
    }
    return true;
}

bool bindings_have(const dibs_binding *bindings, size_t n, const dibs_binding *one)
{
    for (size_t i = 0; i < n; i++)
        if (bindings[i].proto == one->proto && dibs_address_equal(&bindings[i].address, &one->address))
            return true;
    return false;
}

bool bindings_same(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b)
{
    bool is_same = n_a == n_b;

    for (size_t i = 0; i < n_a && is_same; i++)
        is_same = bindings_have(b, n_b, &a[i]);
    return is_same;
}

bool bindings_conflict(const dibs_binding *a, size_t n_a, const dibs_binding *b, size_t n_b)
{
    for (size_t i = 0; i < n_a; i++)
        for (size_t k = 0; k < n_b; k++)
            if (a[i].proto == b[k].proto && dibs_address_conflict(&a[i].address, &b[k].address))
                return true;
    return false;
}
