/* SPDX-License-Identifier: MIT */
#include "net/proto.h"

#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

static const struct proto rows[DIBS_PROTO_MAX + 1] = {
    [DIBS_TCP] = { .text = "tcp", .kubernetes = "TCP", .socket_type = SOCK_STREAM, .ip_proto = IPPROTO_TCP },
    [DIBS_UDP] = { .text = "udp", .kubernetes = "UDP", .socket_type = SOCK_DGRAM, .ip_proto = IPPROTO_UDP },
    [DIBS_SCTP] = { .text = "sctp",
                    .kubernetes = "SCTP",
                    .socket_type = SOCK_STREAM,
                    .ip_proto = IPPROTO_SCTP,
                    .is_optional = true },
};

const struct proto *proto_row(dibs_proto proto)
{
    return proto >= DIBS_TCP && proto <= DIBS_PROTO_MAX ? &rows[proto] : NULL;
}

dibs_status dibs_proto_parse(const char *text, dibs_proto *out, dibs_err *err)
{
    char shown[52];

    if (!out)
        return err_set(err, DIBS_INVALID, "the output for the protocol is missing");
    for (dibs_proto proto = DIBS_TCP; text && proto <= DIBS_PROTO_MAX; proto++) {
        if (strcasecmp(text, rows[proto].text) == 0) {
            *out = proto;
            return DIBS_OK;
        }
    }
    return err_set(err, DIBS_INVALID, "protocol '%s' is not known: use " PROTO_PROSE,
                   text_safe(text ? text : "", shown, sizeof shown));
}

const char *dibs_proto_text(dibs_proto proto)
{
    const struct proto *row = proto_row(proto);

    return row ? row->text : "unknown";
}

#define PROTO_TEXT_MAX 15 /* longer than every protocol's name */

dibs_status proto_list(const char *text, dibs_proto out[PROTO_LIST_MAX], size_t *n, dibs_err *err)
{
    *n = 0;
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",+");
        char word[PROTO_TEXT_MAX + 1] = "";
        dibs_proto proto = DIBS_TCP;

        memcpy(word, p, len < PROTO_TEXT_MAX ? len : PROTO_TEXT_MAX); /* cut: it matches none anyway */
        dibs_status s = dibs_proto_parse(word, &proto, err);
        if (s)
            return s;
        bool is_there = false;
        for (size_t i = 0; i < *n; i++)
            is_there = is_there || out[i] == proto;
        if (!is_there)
            out[(*n)++] = proto; /* there are at most PROTO_LIST_MAX different ones */
        p += len;
        if (!*p)
            return DIBS_OK;
    }
}
