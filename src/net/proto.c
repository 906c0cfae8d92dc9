/* SPDX-License-Identifier: MIT */
#include <strings.h>

#include "base/err.h"
#include "dibs/net.h"
#include "net/quote.h"

#include "base/banned.h"

static const dibs_proto protos[] = { DIBS_TCP, DIBS_UDP, DIBS_SCTP };

dibs_status dibs_proto_parse(const char *text, dibs_proto *out, dibs_err *err)
{
    char shown[QUOTE_SIZE];

    if (!out)
        return err_set(err, DIBS_INVALID, "no place for the protocol");
    for (size_t i = 0; text && i < sizeof protos / sizeof *protos; i++) {
        if (strcasecmp(text, dibs_proto_text(protos[i])) == 0) {
            *out = protos[i];
            return DIBS_OK;
        }
    }
    return err_set(err, DIBS_INVALID, "protocol '%s' is not known: use tcp, udp or sctp",
                   quote_text(shown, text));
}

const char *dibs_proto_text(dibs_proto proto)
{
    switch (proto) {
    case DIBS_TCP: return "tcp";
    case DIBS_UDP: return "udp";
    case DIBS_SCTP: return "sctp";
    }
    return "unknown";
}
