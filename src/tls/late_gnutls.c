/* SPDX-License-Identifier: MIT */
#include "tls/late_gnutls.h"

#include "base/late.h"

#include "base/banned.h"

static struct late_gnutls gnutls;

dibs_status late_gnutls(const struct late_gnutls **out, dibs_err *err)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(gnutls, name)
        GNUTLS_MAP(X)
#undef X
    };
    static struct late_library library = { .name = "libgnutls.so.30",
                                           .what = "makes certificates",
                                           LATE_SYMBOLS(symbols) };

    *out = &gnutls;
    return late_need(&library, err);
}
