/* SPDX-License-Identifier: MIT */
#include "hold/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "host/kernel.h"

#include "base/banned.h"

/* The message begins with the number of bytes of its text: a stream may deliver it in pieces. */
struct head {
    uint32_t text_n, n;
};

static int open_one(const dibs_binding *binding, uint16_t port)
{
    union kernel_sockaddr address;
    socklen_t len = kernel_sockaddr(&binding->address, port, &address);
    AUTO(fd_auto) int fd = kernel_open(binding);

    if (fd < 0 || kernel_bind(fd, &address, len) != 0 ||
        (binding->proto != DIBS_UDP && listen(fd, SOMAXCONN) != 0))
        return -1;
    return fd_take(&fd);
}

dibs_status listen_open(const dibs_claim *claim, int fds[DIBS_BINDINGS_MAX], size_t *n, dibs_err *err)
{
    for (size_t i = 0; i < claim->n_bindings; i++) {
        fds[i] = open_one(&claim->bindings[i], claim->port);
        if (fds[i] >= 0)
            continue;
        int failed = errno;
        while (i-- > 0)
            (void) close(fds[i]);
        if (failed == EADDRINUSE)
            return err_set(err, DIBS_TAKEN, "port %u is in use by another process", claim->port);
        kernel_probe_why(&claim->bindings[0], claim->port, failed, err);
        return failed == EACCES ? DIBS_DENIED : DIBS_FAILURE;
    }
    *n = claim->n_bindings;
    return DIBS_OK;
}

/* ---- passing ---- */

/* Room for the descriptors of a message, aligned for its header. */
union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(LISTEN_PARCEL_FDS * sizeof(int))];
};

dibs_status listen_send(int to, const struct listen_parcel *parcel, dibs_err *err)
{
    struct head head = { (uint32_t) parcel->text_n, (uint32_t) parcel->n };
    struct iovec parts[] = { { &head, sizeof head }, { (void *) (uintptr_t) parcel->text, parcel->text_n } };
    union control control = { .room = { 0 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t sent = -1;

    if (parcel->n > LISTEN_PARCEL_FDS || parcel->text_n > LISTEN_PARCEL_TEXT)
        return err_set(err, DIBS_INVALID, "at most %d sockets can be passed at once", LISTEN_PARCEL_FDS);
    if (parcel->n > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(parcel->n * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(parcel->n * sizeof(int));
        memcpy(CMSG_DATA(&control.head), parcel->fds, parcel->n * sizeof(int));
    }
    do {
        sent = sendmsg(to, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "passing sockets");
    /* A Unix socket takes a message of this size as a whole, or waits. */
    return sent == (ssize_t) (sizeof head + parcel->text_n)
               ? DIBS_OK
               : err_set(err, DIBS_UNAVAILABLE, "passing sockets: only a part was taken");
}

/* Keep the descriptors of a message; those that do not fit, or are of a second message, are closed. */
static void take_fds(struct msghdr *message, struct listen_received *out)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        size_t n = c->cmsg_len >= CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            int fd = -1;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (out->n < LISTEN_PARCEL_FDS)
                out->fds[out->n++] = fd;
            else
                (void) close(fd);
        }
    }
}

static void drop_fds(struct listen_received *received)
{
    while (received->n > 0)
        (void) close(received->fds[--received->n]);
}

/* Receive into one of the two parts; the first piece brings the descriptors. */
static dibs_status receive_more(int from, struct iovec *parts, size_t n_parts, struct listen_received *out,
                                size_t *n, dibs_err *err)
{
    union control control;
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = n_parts, .msg_control = &control, .msg_controllen = sizeof control
    };
    ssize_t got = -1;

    do {
        got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "receiving sockets");
    take_fds(&message, out);
    if (got == 0)
        return err_set(err, DIBS_UNAVAILABLE, "receiving sockets: the other side has closed");
    if (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
        return err_set(err, DIBS_INVALID, "receiving sockets: there are more than fit");
    *n += (size_t) got;
    return DIBS_OK;
}

static dibs_status receive_all(int from, struct listen_received *out, dibs_err *err)
{
    struct head head = { 0 };
    size_t n = 0;
    struct iovec parts[] = { { &head, sizeof head }, { out->text, sizeof out->text - 1 } };
    dibs_status s = receive_more(from, parts, 2, out, &n, err);

    if (s == DIBS_OK && n < sizeof head)
        s = err_set(err, DIBS_INVALID, "receiving sockets: a message of another kind");
    if (s == DIBS_OK && head.text_n > LISTEN_PARCEL_TEXT)
        s = err_set(err, DIBS_INVALID, "receiving sockets: the text has %u bytes", head.text_n);
    /* Terminates: each turn receives at least a byte. */
    while (s == DIBS_OK && n < sizeof head + head.text_n) {
        struct iovec rest = { out->text + n - sizeof head, sizeof head + head.text_n - n };

        s = receive_more(from, &rest, 1, out, &n, err);
    }
    if (s == DIBS_OK && (n > sizeof head + head.text_n || head.n != out->n))
        s = err_set(err, DIBS_INVALID, "receiving sockets: the message and its sockets differ");
    out->text[s == DIBS_OK ? head.text_n : 0] = '\0';
    return s;
}

dibs_status listen_receive(int from, struct listen_received *out, dibs_err *err)
{
    out->n = 0;
    dibs_status s = receive_all(from, out, err);

    if (s != DIBS_OK)
        drop_fds(out);
    return s;
}
