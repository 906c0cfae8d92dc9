/* SPDX-License-Identifier: MIT */
/* Netlink sock_diag: list the kernel's sockets, or find one socket by its two ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "host/procnet.h"
#include "net/proto.h"

#include "base/banned.h"

/* The kernel fills at most 32 KiB per answer. */
#define ANSWER_BYTES 32768
/* Attempts for a dump that changes while it is read. */
#define TRIES_MAX 5
/* One answer carries about 100 sockets, so this is far more than a list can hold. */
#define ANSWERS_MAX 1000000

struct dump {
    int fd;
    const struct socket_query *query;
    uint32_t seq;
    struct socket_list *list;
    bool is_interrupted;
    bool is_done;
};

static dibs_status send_request(int fd, const struct inet_diag_req_v2 *req, uint16_t flags, uint32_t seq,
                                dibs_err *err)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 req;
    } msg = { .req = *req };
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

    msg.head.nlmsg_len = sizeof msg;
    msg.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    msg.head.nlmsg_flags = NLM_F_REQUEST | flags;
    msg.head.nlmsg_seq = seq;
    if (sendto(fd, &msg, sizeof msg, 0, (struct sockaddr *) &kernel, sizeof kernel) < 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot ask the kernel for its sockets");
    return DIBS_OK;
}

static dibs_status ask_for_dump(struct dump *d, uint8_t family, dibs_err *err)
{
    struct inet_diag_req_v2 req = {
        .sdiag_family = family,
        .sdiag_protocol = (uint8_t) proto_row(d->query->proto)->ip_proto,
        .idiag_states = d->query->states,
    };

    /* A dump compares the local port of the request, so no filter program is needed. */
    req.id.idiag_sport = htons(d->query->port);
    return send_request(d->fd, &req, NLM_F_DUMP, ++d->seq, err);
}

/* Receive the next answer of *n bytes; 0: the sender was not the kernel, and the message is ignored. */
static dibs_status receive(int fd, char *buf, size_t size, size_t *n, dibs_err *err)
{
    struct sockaddr_nl from = { 0 };
    struct iovec iov = { buf, size };
    struct msghdr msg = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t got = recvmsg(fd, &msg, 0);

    *n = 0;
    if (got < 0 && errno == EINTR)
        return DIBS_OK;
    if (got < 0)
        return err_os(err, DIBS_FAILURE, errno, "the kernel does not send its list of sockets");
    if (msg.msg_flags & MSG_TRUNC)
        return err_set(err, DIBS_FAILURE, "the kernel's list of sockets was cut");
    *n = from.nl_pid == 0 ? (size_t) got : 0;
    return DIBS_OK;
}

/* As NLMSG_DATA(), which drops const. */
static const void *payload(const struct nlmsghdr *head)
{
    return (const char *) head + NLMSG_HDRLEN;
}

/* Read the attribute that says whether an IPv6 socket refuses IPv4. Missing: it accepts both. */
static bool is_v6only(const struct nlmsghdr *head)
{
    const char *text = (const char *) head;
    struct rtattr attr;

    for (size_t at = NLMSG_SPACE(sizeof(struct inet_diag_msg)); at + sizeof attr <= head->nlmsg_len;
         at += RTA_ALIGN(attr.rta_len)) {
        memcpy(&attr, text + at, sizeof attr);
        if (attr.rta_len < sizeof attr || attr.rta_len > head->nlmsg_len - at)
            return false;
        if (attr.rta_type == INET_DIAG_SKV6ONLY && attr.rta_len > sizeof attr)
            return text[at + sizeof attr] != 0;
    }
    return false;
}

static dibs_status take_socket(struct dump *d, const struct nlmsghdr *head, dibs_err *err)
{
    struct inet_diag_msg diag;
    struct kernel_socket socket = { .proto = d->query->proto };

    if (head->nlmsg_len < NLMSG_LENGTH(sizeof diag))
        return err_set(err, DIBS_FAILURE, "the kernel's list of sockets has a message cut short");
    memcpy(&diag, payload(head), sizeof diag);
    socket.port = ntohs(diag.id.idiag_sport);
    socket.uid = diag.idiag_uid;
    socket.inode = diag.idiag_inode;
    socket.serves = SOCKETS_SERVING(socket.proto) >> diag.idiag_state & 1;
    socket.state = socket_state(socket.proto, diag.idiag_state);
    socket.address =
        socket_address((const uint8_t *) diag.id.idiag_src, diag.idiag_family == AF_INET6, is_v6only(head));
    if (socket.port == 0 || (d->query->port != 0 && socket.port != d->query->port) ||
        (diag.id.idiag_if == KERNEL_GUARD_DEVICE) != d->query->is_of_guards)
        return DIBS_OK;
    if (!socket_list_add(d->list, &socket))
        return err_set(err, DIBS_FAILURE, "there are more sockets than fit into memory");
    return DIBS_OK;
}

/* Read an error: an error message, or the number that ends a dump. */
static dibs_status take_error(const struct nlmsghdr *head, dibs_err *err)
{
    int error = 0;

    if (head->nlmsg_len >= NLMSG_LENGTH(sizeof error))
        memcpy(&error, payload(head), sizeof error);
    return error == 0 ? DIBS_OK
                      : err_os(err, DIBS_FAILURE, error < 0 ? -error : error,
                               "the kernel refuses to list its sockets");
}

/* Read every message of one answer. */
static dibs_status take_answer(struct dump *d, const char *buf, size_t len, dibs_err *err)
{
    const struct nlmsghdr *head = NULL;
    dibs_status s = DIBS_OK;

    for (size_t at = 0; s == DIBS_OK && !d->is_done && at + sizeof *head <= len;
         at += NLMSG_ALIGN(head->nlmsg_len)) {
        head = (const void *) (buf + at);
        if (head->nlmsg_len < sizeof *head || head->nlmsg_len > len - at)
            return err_set(err, DIBS_FAILURE, "the kernel's list of sockets is damaged");
        if (head->nlmsg_seq != d->seq)
            continue;
        d->is_interrupted = d->is_interrupted || (head->nlmsg_flags & NLM_F_DUMP_INTR);
        d->is_done = head->nlmsg_type == NLMSG_DONE;
        if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR)
            s = take_error(head, err);
        else if (head->nlmsg_type == SOCK_DIAG_BY_FAMILY)
            s = take_socket(d, head, err);
    }
    return s;
}

static dibs_status dump_family(struct dump *d, uint8_t family, dibs_err *err)
{
    _Alignas(struct nlmsghdr) char buf[ANSWER_BYTES];
    dibs_status s = ask_for_dump(d, family, err);

    d->is_done = false;
    d->is_interrupted = false;
    for (int i = 0; i < ANSWERS_MAX && s == DIBS_OK && !d->is_done; i++) {
        size_t n = 0;

        s = receive(d->fd, buf, sizeof buf, &n, err);
        if (s == DIBS_OK)
            s = take_answer(d, buf, n, err);
    }
    if (s == DIBS_OK && !d->is_done)
        return err_set(err, DIBS_FAILURE, "the kernel's list of sockets does not end");
    return s;
}

dibs_status sock_diag_list(int fd, const struct socket_query *query, struct socket_list *list, dibs_err *err)
{
    static const uint8_t families[] = { AF_INET, AF_INET6 };
    struct dump d = { .fd = fd, .query = query, .list = list };

    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        size_t before = list->n;
        int tries = 0;

        do {
            list->n = before;
            dibs_status s = dump_family(&d, families[i], err);
            if (s != DIBS_OK)
                return s;
        } while (d.is_interrupted && ++tries < TRIES_MAX);
        if (d.is_interrupted)
            return err_set(err, DIBS_FAILURE,
                           "the kernel's list of sockets changes faster than it can be read");
    }
    return DIBS_OK;
}

static void put_end(const struct sockaddr_storage *from, uint32_t address[4], uint16_t *port)
{
    const struct sockaddr_in *v4 = (const void *) from;
    const struct sockaddr_in6 *v6 = (const void *) from;

    if (from->ss_family == AF_INET6) {
        memcpy(address, &v6->sin6_addr, sizeof v6->sin6_addr);
        *port = v6->sin6_port;
    } else {
        memcpy(address, &v4->sin_addr, sizeof v4->sin_addr);
        *port = v4->sin_port;
    }
}

/* Check the ends and the state: the kernel answers with a listening socket when no other has these ends, and
 * reports uid 0 and no inode for a closed socket. */
static bool is_wanted(const struct inet_diag_msg *diag, const struct inet_diag_sockid *id)
{
    return diag->idiag_state == SOCKET_ESTABLISHED && diag->idiag_inode != 0 &&
           diag->id.idiag_sport == id->idiag_sport && diag->id.idiag_dport == id->idiag_dport;
}

dibs_status sock_diag_find(int fd, const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
                           uint32_t *uid, dibs_err *err)
{
    _Alignas(struct nlmsghdr) char buf[ANSWER_BYTES];
    struct inet_diag_req_v2 req = {
        .sdiag_family = (uint8_t) local->ss_family,
        .sdiag_protocol = IPPROTO_TCP,
        .id.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
    };
    struct inet_diag_msg diag;
    size_t n = 0;

    put_end(local, req.id.idiag_src, &req.id.idiag_sport);
    put_end(peer, req.id.idiag_dst, &req.id.idiag_dport);
    dibs_status s = send_request(fd, &req, 0, 1, err);
    for (int i = 0; i < TRIES_MAX && s == DIBS_OK && n == 0; i++)
        s = receive(fd, buf, sizeof buf, &n, err);
    if (s != DIBS_OK)
        return s;
    const struct nlmsghdr *head = (const void *) buf;
    if (n < NLMSG_LENGTH(sizeof diag) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return err_set(err, DIBS_NOT_FOUND, "no socket of this host has this connection");
    memcpy(&diag, payload(head), sizeof diag);
    if (!is_wanted(&diag, &req.id))
        return err_set(err, DIBS_NOT_FOUND, "no socket of this host has this connection any more");
    *uid = diag.idiag_uid;
    return DIBS_OK;
}
