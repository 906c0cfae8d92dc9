/* SPDX-License-Identifier: MIT */
#include "http/late_mhd.h"

#include "base/late.h"

#include "base/banned.h"

static struct late_mhd mhd;

dibs_status late_mhd(const struct late_mhd **out, dibs_err *err)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(mhd, name)
        MHD_MAP(X)
#undef X
    };
    static struct late_library library = { .name = "libmicrohttpd.so.12",
                                           .what = "serves HTTP",
                                           LATE_SYMBOLS(symbols) };

    *out = &mhd;
    return late_need(&library, err);
}
