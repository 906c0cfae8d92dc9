/* SPDX-License-Identifier: MIT */
/* List listening and bound sockets, completely before the first callback: a dump may be repeated. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "host/proc_read.h"
#include "host/procnet.h"
#include "net/proto.h"

#include "base/banned.h"

/* 65,535 ports on several addresses; 48 bytes each, so at most 48 MiB. */
#define SOCKETS_MAX (1u << 20)

bool socket_list_add(struct socket_list *list, const struct kernel_socket *socket)
{
    if (list->n == SOCKETS_MAX || !grow((void **) &list->item, list->n, &list->max, sizeof *list->item))
        return false;
    list->item[list->n++] = *socket;
    return true;
}

void socket_list_done(struct socket_list *list)
{
    free(list->item);
    *list = (struct socket_list){ 0 };
}

dibs_address socket_address(const uint8_t *bytes, bool is_v6, bool v6only)
{
    static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
    bool is_mapped = is_v6 && memcmp(bytes, mapped, sizeof mapped) == 0;
    dibs_address address = { .len = is_v6 && !is_mapped ? 16 : 4, .v6only = is_v6 && !is_mapped && v6only };

    memcpy(address.bytes, is_mapped ? bytes + sizeof mapped : bytes, address.len);
    return address;
}

enum kernel_socket_state socket_state(dibs_proto proto, unsigned state)
{
    if (state == SOCKET_LISTENING || (proto == DIBS_UDP && state == SOCKET_CLOSED))
        return KERNEL_LISTENING;
    return state == SOCKET_BOUND || state == SOCKET_CLOSED ? KERNEL_BOUND : KERNEL_CONNECTED;
}

/* Fields of a line, counted from 0: "sl: local remote state queues timer retransmits uid timeout inode". */
enum { FIELD_LOCAL = 1, FIELD_STATE = 3, FIELD_UID = 7, FIELD_INODE = 9, N_FIELDS };

struct field {
    const char *text;
    size_t len;
};

static bool hex_number(const char *text, size_t n, uint32_t *out)
{
    static const char digits[] = "0123456789abcdef";

    *out = 0;
    for (size_t i = 0; i < n; i++) {
        const char *digit = memchr(digits, tolower((unsigned char) text[i]), sizeof digits - 1);

        if (!digit)
            return false;
        *out = *out << 4 | (uint32_t) (digit - digits);
    }
    return n > 0 && n <= 8;
}

/* Parse "0100007F:1F90": 32-bit words in the machine's order, so a copy has network order. */
static bool parse_local(struct field f, bool is_v6, struct kernel_socket *out)
{
    size_t n_words = is_v6 ? 4 : 1;
    uint32_t words[4] = { 0 };
    uint32_t port = 0;

    if (f.len != n_words * 8 + 5 || f.text[n_words * 8] != ':')
        return false;
    for (size_t i = 0; i < n_words; i++)
        if (!hex_number(f.text + i * 8, 8, &words[i]))
            return false;
    if (!hex_number(f.text + n_words * 8 + 1, 4, &port) || port == 0)
        return false;
    out->port = (uint16_t) port;
    out->address = socket_address((const uint8_t *) words, is_v6, false);
    return true;
}

bool procnet_line_parse(const char *line, bool is_v6, const struct socket_query *query,
                        struct kernel_socket *out)
{
    const char *end = line + strlen(line);
    struct field f[N_FIELDS] = { { 0 } };
    struct kernel_socket socket = { .proto = query->proto };
    uint32_t state = 0;
    uint64_t uid = 0;

    for (size_t i = 0; i < N_FIELDS; i++) {
        if (!proc_next_word(&line, end, &f[i].text))
            return false;
        f[i].len = (size_t) (line - f[i].text);
    }
    if (!hex_number(f[FIELD_STATE].text, f[FIELD_STATE].len, &state) ||
        !text_number(f[FIELD_UID].text, f[FIELD_UID].len, UINT32_MAX, &uid) ||
        !text_number(f[FIELD_INODE].text, f[FIELD_INODE].len, UINT64_MAX, &socket.inode) ||
        !parse_local(f[FIELD_LOCAL], is_v6, &socket))
        return false;
    if (state > SOCKET_BOUND || !(query->states >> state & 1) ||
        (query->port != 0 && socket.port != query->port))
        return false;
    socket.serves = SOCKETS_SERVING(query->proto) >> state & 1;
    socket.state = socket_state(query->proto, state);
    socket.uid = (uint32_t) uid;
    *out = socket;
    return true;
}

static dibs_status read_table(const char *path, bool is_v6, const struct socket_query *query,
                              struct socket_list *list, dibs_err *err)
{
    FILE *file = fopen(path, "re");
    char line[512]; /* the kernel pads its lines to 150 bytes */
    bool is_full = false;

    if (!file) /* without IPv6 there is no such table */
        return is_v6 && errno == ENOENT ? DIBS_OK
                                        : err_os(err, DIBS_UNAVAILABLE, errno, "cannot read %s", path);
    /* Bounded by the list, and by the kernel: every line is a socket of this namespace. */
    while (!is_full && fgets(line, sizeof line, file)) {
        struct kernel_socket socket = { 0 };

        if (procnet_line_parse(line, is_v6, query, &socket))
            is_full = !socket_list_add(list, &socket);
    }
    bool has_failed = ferror(file) != 0;
    (void) fclose(file);
    if (is_full)
        return err_set(err, DIBS_FAILURE, "%s lists more sockets than fit into memory", path);
    return has_failed ? err_set(err, DIBS_UNAVAILABLE, "cannot read %s to its end", path) : DIBS_OK;
}

dibs_status procnet_list(const struct socket_query *query, struct socket_list *list, dibs_err *err)
{
    char path[64];

    if (query->proto != DIBS_TCP && query->proto != DIBS_UDP)
        return err_set(err, DIBS_UNAVAILABLE, "the kernel does not list its %s sockets",
                       dibs_proto_text(query->proto));
    for (int is_v6 = 0; is_v6 <= 1; is_v6++) {
        (void) snprintf(path, sizeof path, "/proc/thread-self/net/%s%s",
                        query->proto == DIBS_UDP ? "udp" : "tcp", is_v6 ? "6" : "");
        dibs_status s = read_table(path, is_v6, query, list, err);
        if (s != DIBS_OK)
            return s;
    }
    return DIBS_OK;
}

static dibs_status list_sockets(uint64_t netns, const struct socket_query *query, struct socket_list *list,
                                dibs_err *err)
{
    bool is_here = netns == 0 || netns == kernel_netns();
    AUTO(fd_auto) int fd = -1;

    /* All namespaces share one kernel: no process can have a socket of a protocol that it lacks. */
    if (proto_row(query->proto)->is_optional && !kernel_has_proto(query->proto))
        return DIBS_OK;
    dibs_status s = netns_socket(netns, &fd, err);
    if (s == DIBS_OK)
        s = sock_diag_list(fd, query, list, err);
    else if (!is_here)
        return s;
    if (s == DIBS_OK)
        return DIBS_OK;
    list->n = 0;
    if (is_here)
        return procnet_list(query, list, err);
    return err_wrap(err, DIBS_UNAVAILABLE, "sockets of another network namespace");
}

static dibs_status show_sockets(uint64_t netns, const struct socket_query *query, kernel_socket_fn fn,
                                void *ctx, dibs_err *err)
{
    AUTO(socket_list_done) struct socket_list list = { 0 };
    dibs_status s = list_sockets(netns, query, &list, err);

    for (size_t i = 0; s == DIBS_OK && i < list.n; i++) {
        if (!fn(ctx, &list.item[i]))
            break;
    }
    return s;
}

dibs_status kernel_sockets(uint64_t netns, dibs_proto proto, uint16_t port, kernel_socket_fn fn, void *ctx,
                           dibs_err *err)
{
    return show_sockets(
        netns, &(struct socket_query){ .proto = proto, .port = port, .states = SOCKETS_SERVING(proto) }, fn,
        ctx, err);
}

dibs_status kernel_blocking_sockets(uint64_t netns, dibs_proto proto, uint16_t port, kernel_socket_fn fn,
                                    void *ctx, dibs_err *err)
{
    return show_sockets(
        netns, &(struct socket_query){ .proto = proto, .port = port, .states = SOCKETS_BLOCKING(proto) }, fn,
        ctx, err);
}

bool kernel_has_guard(dibs_proto proto, uint16_t port)
{
    const struct socket_query query = {
        .proto = proto, .port = port, .states = SOCKETS_BLOCKING(proto), .is_of_guards = true
    };
    AUTO(socket_list_done) struct socket_list list = { 0 };
    AUTO(fd_auto) int fd = -1;

    return netns_socket(0, &fd, NULL) == DIBS_OK && sock_diag_list(fd, &query, &list, NULL) == DIBS_OK &&
           list.n > 0;
}

dibs_status kernel_peer_uid(int fd, uint32_t *uid, dibs_err *err)
{
    struct sockaddr_storage here = { 0 };
    struct sockaddr_storage there = { 0 };
    socklen_t here_len = sizeof here;
    socklen_t there_len = sizeof there;

    if (getsockname(fd, (struct sockaddr *) &here, &here_len) != 0 ||
        getpeername(fd, (struct sockaddr *) &there, &there_len) != 0)
        return err_os(err, DIBS_NOT_FOUND, errno, "the other end has gone");
    if (here.ss_family != there.ss_family || (here.ss_family != AF_INET && here.ss_family != AF_INET6))
        return err_set(err, DIBS_INVALID, "this is not a TCP connection");
    AUTO(fd_auto) int netlink = -1;
    dibs_status s = netns_socket(0, &netlink, err);
    return s == DIBS_OK ? sock_diag_find(netlink, &there, &here, uid, err) : s;
}
