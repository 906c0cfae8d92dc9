/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_PROTO_H
#define DIBS_NET_PROTO_H
/* The table of protocols. */
#include "dibs/net.h"

struct proto {
    const char *text;       /* "tcp" */
    const char *kubernetes; /* "TCP" */
    int socket_type;        /* SOCK_STREAM, ... */
    int ip_proto;           /* IPPROTO_TCP, ... */
    bool is_optional;       /* a kernel may lack it */
};

/* Return the row of a protocol, or NULL when it is unknown. */
const struct proto *proto_row(dibs_proto proto);

/* Parse a list: "tcp", "tcp,udp", "tcp+udp"; each protocol counts once. */
enum { PROTO_LIST_MAX = DIBS_PROTO_MAX };
dibs_status proto_list(const char *text, dibs_proto out[PROTO_LIST_MAX], size_t *n, dibs_err *err);

/* The words of the table: for completions, and for a sentence. */
#define PROTO_WORDS "tcp udp sctp"
#define PROTO_PROSE "tcp, udp or sctp"
#endif
