/* SPDX-License-Identifier: MIT */
/* The answers to calls that send and receive datagrams. A datagram has its sender's port number, so the
 * notifier itself sends to, and receives for, a program that has a UDP number. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "hold/as/internal.h"

#include "base/banned.h"

enum {
    DATA_MAX = 65536,    /* no datagram is longer */
    CONTROL_MAX = 4096,  /* of ancillary data; what the kernel adds to a datagram is far shorter */
    VECTOR_MAX = 1024,   /* messages of one call, as in the kernel */
    IOV_COUNT_MAX = 1024 /* the kernel's UIO_MAXIOV */
};

/* A message as the program describes it: the addresses are in its memory. */
struct message {
    uint64_t name, iov, control;
    uint64_t name_size, n_iov, control_size;
    uint64_t name_size_at, control_size_at, flags_at; /* where results go; 0: nowhere */
    struct iovec *parts;                              /* in the program's memory */
    size_t total;
};

struct datagram {
    struct message message;
    char data[DATA_MAX];
    char control[CONTROL_MAX];
    struct iovec parts[IOV_COUNT_MAX];
};

/* struct msghdr, iovec and mmsghdr of 32-bit programs. */
struct small_header {
    uint32_t name, name_size, iov, n_iov, control, control_size, flags;
};
struct small_part {
    uint32_t base, size;
};

static size_t header_size(const struct as_request *request)
{
    return request->is_32bit ? sizeof(struct small_header) : sizeof(struct msghdr);
}

/* Return the size of an element of the array that sendmmsg() and recvmmsg() get. */
static size_t element_size(const struct as_request *request)
{
    return request->is_32bit ? sizeof(struct small_header) + sizeof(uint32_t) : sizeof(struct mmsghdr);
}

static bool read_header(const struct as_request *request, uint64_t at, struct message *out)
{
    struct small_header small = { 0 };
    struct msghdr header = { 0 };

    if (request->is_32bit) {
        if (!as_request_read(request, at, &small, sizeof small))
            return false;
        *out = (struct message){ small.name,
                                 small.iov,
                                 small.control,
                                 small.name_size,
                                 small.n_iov,
                                 small.control_size,
                                 at + offsetof(struct small_header, name_size),
                                 at + offsetof(struct small_header, control_size),
                                 at + offsetof(struct small_header, flags),
                                 NULL,
                                 0 };
        return true;
    }
    if (!as_request_read(request, at, &header, sizeof header))
        return false;
    *out = (struct message){ (uintptr_t) header.msg_name,
                             (uintptr_t) header.msg_iov,
                             (uintptr_t) header.msg_control,
                             header.msg_namelen,
                             header.msg_iovlen,
                             header.msg_controllen,
                             at + offsetof(struct msghdr, msg_namelen),
                             at + offsetof(struct msghdr, msg_controllen),
                             at + offsetof(struct msghdr, msg_flags),
                             NULL,
                             0 };
    return true;
}

static bool read_small_parts(const struct as_request *request, struct datagram *d)
{
    const struct message *m = &d->message;
    AUTO(free_auto) struct small_part *small = calloc(m->n_iov + 1, sizeof *small);

    if (!small || !as_request_read(request, m->iov, small, m->n_iov * sizeof *small))
        return false;
    for (size_t i = 0; i < m->n_iov; i++)
        d->parts[i] = (struct iovec){ (void *) (uintptr_t) small[i].base, small[i].size };
    return true;
}

/* Read the list of the message's parts, unless it has only one (iov 0). */
static bool read_parts(const struct as_request *request, struct datagram *d)
{
    struct message *m = &d->message;

    m->parts = d->parts;
    m->total = 0;
    if (m->n_iov > IOV_COUNT_MAX)
        return false;
    if (m->iov &&
        (request->is_32bit ? !read_small_parts(request, d)
                           : !as_request_read(request, m->iov, d->parts, m->n_iov * sizeof *d->parts)))
        return false;
    for (size_t i = 0; i < m->n_iov; i++) {
        if (m->parts[i].iov_len > SSIZE_MAX - m->total)
            return false;
        m->total += m->parts[i].iov_len;
    }
    return true;
}

/* Describe a call without msghdr: sendto() and recvfrom() have the same arguments but for the last. */
static void read_plain(const struct as_request *request, struct datagram *d)
{
    const uint64_t *args = request->args;

    d->message = (struct message){ .name = args[4], .n_iov = 1 };
    d->parts[0] = (struct iovec){ (void *) (uintptr_t) args[1], args[2] };
    if (request->call == AS_RECVFROM)
        d->message.name_size_at = args[5];
    else
        d->message.name_size = args[5];
}

/* ---- sending ---- */

/* Does the message go to a number of the tree? Then *to is its real address. */
static bool find_target(const struct as_request *request, const struct message *m, struct as_address *to)
{
    if (!as_address_read(request, m->name, m->name_size, to) || to->any.sa_family == AF_UNSPEC)
        return false;
    const struct as_number *number = as_number_inside(request->tree, DIBS_UDP, as_address_port(to));
    if (!number || !as_address_is_local(to))
        return false;
    as_address_set_port(to, number->outside);
    return true;
}

/* Send the message to its real address, or as it is. Returns a count or a negative errno. */
static int64_t send_one(const struct as_request *request, int fd, int flags, struct datagram *d)
{
    struct as_address to;
    struct message *m = &d->message;
    bool is_ours = find_target(request, m, &to);

    if (!is_ours && m->name && !as_address_read(request, m->name, m->name_size, &to))
        return -EINVAL;
    if (!read_parts(request, d) || m->control_size > CONTROL_MAX || (m->control_size && request->is_32bit))
        return -EINVAL;
    if (m->total > sizeof d->data)
        return -EMSGSIZE;
    struct iovec here = { d->data, m->total };
    if ((m->total && process_vm_readv(request->tid, &here, 1, m->parts, m->n_iov, 0) != (ssize_t) m->total) ||
        (m->control_size && !as_request_read(request, m->control, d->control, m->control_size)))
        return -EFAULT;
    struct msghdr header = { .msg_name = m->name ? &to.space : NULL,
                             .msg_namelen = m->name ? to.size : 0,
                             .msg_iov = &here,
                             .msg_iovlen = 1,
                             .msg_control = m->control_size ? d->control : NULL,
                             .msg_controllen = m->control_size };
    if (!as_request_is_valid(request))
        return -EINTR;
    /* To this very host a datagram never waits for space. */
    ssize_t n = sendmsg(fd, &header, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

/* Has the array a message to a number of the tree? */
static bool has_target(const struct as_request *request, struct datagram *d, size_t n)
{
    struct as_address to;

    for (size_t i = 0; i < n; i++)
        if (read_header(request, request->args[1] + i * element_size(request), &d->message) &&
            find_target(request, &d->message, &to))
            return true;
    return false;
}

static struct as_answer send_several(const struct as_request *request, int fd, struct datagram *d, size_t n)
{
    int64_t sent = 0;
    size_t i = 0;

    for (; i < n; i++) {
        uint64_t at = request->args[1] + i * element_size(request);

        sent = read_header(request, at, &d->message) ? send_one(request, fd, (int) request->args[3], d)
                                                     : -EFAULT;
        uint32_t size = (uint32_t) sent;
        if (sent < 0 || !as_request_write(request, at + header_size(request), &size, sizeof size))
            break;
    }
    return (struct as_answer){ .value = i ? (int64_t) i : sent };
}

struct as_answer as_datagram_send(const struct as_request *request)
{
    AUTO(free_auto) struct datagram *d = malloc(sizeof *d);
    size_t n = request->args[2] < VECTOR_MAX ? (size_t) request->args[2] : VECTOR_MAX;
    struct as_address to;
    bool is_ours = false;

    if (!d)
        return AS_CONTINUE;
    if (request->call == AS_SENDMMSG) {
        is_ours = has_target(request, d, n);
    } else {
        if (request->call == AS_SENDTO)
            read_plain(request, d);
        else if (!read_header(request, request->args[1], &d->message))
            return AS_CONTINUE;
        is_ours = find_target(request, &d->message, &to);
    }
    int flags = (int) request->args[request->call == AS_SENDMSG ? 2 : 3];
    bool connects = flags & MSG_FASTOPEN; /* a TCP socket; to any number */
    AUTO(fd_auto) int fd = is_ours || connects ? as_request_socket(request) : -1;
    dibs_proto proto = fd < 0 ? 0 : as_socket_proto(fd);
    if (connects && proto == DIBS_TCP)
        return (struct as_answer){ .value = -EOPNOTSUPP };
    if (!is_ours || proto != DIBS_UDP || !as_request_is_valid(request))
        return AS_CONTINUE;
    if (request->call == AS_SENDMMSG)
        return send_several(request, fd, d, n);
    return (struct as_answer){ .value = send_one(request, fd, flags, d) };
}

/* ---- receiving ---- */

static bool write_size(const struct as_request *request, uint64_t at, uint64_t value)
{
    uint32_t small = (uint32_t) value;
    bool is_wide = !request->is_32bit && at != 0 && sizeof(size_t) == 8;

    return !at || (is_wide ? as_request_write(request, at, &value, sizeof value)
                           : as_request_write(request, at, &small, sizeof small));
}

/* Write the sender's address with its number inside, and what the program wants to know else. */
static bool put_results(const struct as_request *request, const struct message *m, struct as_address *from,
                        const struct msghdr *header)
{
    int32_t size = (int32_t) from->size;
    uint64_t used = m->name_size < from->size ? m->name_size : from->size;
    const struct as_number *number = NULL;

    if (as_address_has_port(from))
        number = as_number_outside(request->tree, DIBS_UDP, as_address_port(from));
    if (number && as_address_is_local(from))
        as_address_set_port(from, number->inside);
    return (!m->name || !used || as_request_write(request, m->name, &from->space, used)) &&
           (!m->name || !m->name_size_at || as_request_write(request, m->name_size_at, &size, sizeof size)) &&
           (!header->msg_controllen ||
            as_request_write(request, m->control, header->msg_control, header->msg_controllen)) &&
           write_size(request, m->control_size_at, header->msg_controllen) &&
           (!m->flags_at ||
            as_request_write(request, m->flags_at, &header->msg_flags, sizeof header->msg_flags));
}

/* Receive one message, without waiting. Returns a count or a negative errno. */
static int64_t receive_one(const struct as_request *request, int fd, int flags, struct datagram *d)
{
    struct message *m = &d->message;
    struct as_address from = { .size = 0 };
    size_t control = m->control_size < sizeof d->control ? m->control_size : sizeof d->control;

    if (!m->control || request->is_32bit)
        control = 0;
    if (!read_parts(request, d))
        return -EFAULT;
    struct iovec here = { d->data, m->total < sizeof d->data ? m->total : sizeof d->data };
    struct msghdr header = { .msg_name = &from.space,
                             .msg_namelen = sizeof from.space,
                             .msg_iov = &here,
                             .msg_iovlen = 1,
                             .msg_control = d->control,
                             .msg_controllen = control };
    if (!as_request_is_valid(request))
        return -EINTR; /* nobody would get the datagram */
    ssize_t n = recvmsg(fd, &header, flags | MSG_DONTWAIT);
    if (n < 0)
        return -errno;
    from.size = header.msg_namelen;
    here.iov_len = (size_t) n < here.iov_len ? (size_t) n : here.iov_len;
    if ((here.iov_len && process_vm_writev(request->tid, &here, 1, m->parts, m->n_iov, 0) < 0) ||
        !put_results(request, m, &from, &header))
        return -EFAULT;
    return n;
}

static struct as_answer receive_several(const struct as_request *request, int fd, int flags,
                                        struct datagram *d)
{
    size_t n = request->args[2] < VECTOR_MAX ? (size_t) request->args[2] : VECTOR_MAX;
    int64_t got = 0;
    size_t i = 0;

    for (; i < n; i++) {
        uint64_t at = request->args[1] + i * element_size(request);

        got = read_header(request, at, &d->message) ? receive_one(request, fd, flags & ~MSG_WAITFORONE, d)
                                                    : -EFAULT;
        uint32_t size = (uint32_t) got;
        if (got < 0 || !as_request_write(request, at + header_size(request), &size, sizeof size))
            break;
    }
    return (struct as_answer){ .value = i ? (int64_t) i : got };
}

/* Read the size of the buffer for the address: recvfrom() has a pointer to it. */
static bool read_name_size(const struct as_request *request, struct message *m)
{
    uint32_t size = 0;

    if (request->call != AS_RECVFROM)
        return m->name_size <= INT_MAX;
    if (!as_request_read(request, m->name_size_at, &size, sizeof size) || size > INT_MAX)
        return false;
    m->name_size = size;
    return true;
}

/* Calls that do not ask for the sender go on in the kernel, which also returns the errors of malformed ones.
 */
struct as_answer as_datagram_receive(const struct as_request *request)
{
    AUTO(free_auto) struct datagram *d = malloc(sizeof *d);
    bool is_plain = request->call == AS_RECVFROM;
    int flags = (int) request->args[request->call == AS_RECVMSG ? 2 : 3];

    if (!d || (flags & MSG_ERRQUEUE))
        return AS_CONTINUE;
    if (is_plain)
        read_plain(request, d);
    else if (!read_header(request, request->args[1], &d->message))
        return AS_CONTINUE;
    if (!d->message.name || !read_name_size(request, &d->message) ||
        (d->message.control_size && request->is_32bit))
        return AS_CONTINUE;
    AUTO(fd_auto) int fd = as_request_socket(request);
    if (fd < 0 || as_socket_proto(fd) != DIBS_UDP)
        return AS_CONTINUE;
    struct as_answer answer = { 0 };
    if (request->call == AS_RECVMMSG)
        answer = receive_several(request, fd, flags, d);
    else
        answer.value = receive_one(request, fd, flags, d);
    answer.waits = answer.value == -EAGAIN && !(flags & MSG_DONTWAIT) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    return answer;
}
