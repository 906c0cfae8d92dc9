/* SPDX-License-Identifier: MIT */
#include "host/nat/netlink.h"

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"

#include "base/banned.h"

enum {
    ANSWER_BYTES = 32768, /* the kernel fills at most this much */
    ANSWERS_MAX = 100000, /* of one list: 3 GiB */
    NAMES_BYTES = 1024,   /* two names of at most 256 bytes */
    WAIT_S = 2,
    TYPE_MASK = 0x3fff, /* of an attribute: the other two bits are flags */
};

/* ---- attributes ---- */

/* As NLA_ALIGN(), without its change of sign. */
static size_t padded(size_t n)
{
    return (n + 3) & ~(size_t) 3;
}

bool nat_attrs_next(struct nat_attrs *attrs, struct nat_attr *out)
{
    struct nlattr head;

    if (attrs->left < sizeof head)
        return false;
    memcpy(&head, attrs->at, sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > attrs->left)
        return false;
    *out =
        (struct nat_attr){ head.nla_type & TYPE_MASK, attrs->at + sizeof head, head.nla_len - sizeof head };
    size_t step = padded(head.nla_len);
    step = step < attrs->left ? step : attrs->left;
    attrs->at += step;
    attrs->left -= step;
    return true;
}

bool nat_attrs_find(struct nat_attrs attrs, unsigned type, struct nat_attr *out)
{
    while (nat_attrs_next(&attrs, out))
        if (out->type == type)
            return true;
    *out = (struct nat_attr){ 0 };
    return false;
}

struct nat_attrs nat_attrs_of(struct nat_attr attr)
{
    return (struct nat_attrs){ attr.bytes, attr.len };
}

const char *nat_attrs_text(struct nat_attrs attrs, unsigned type)
{
    struct nat_attr attr;

    if (!nat_attrs_find(attrs, type, &attr) || attr.len == 0 || attr.bytes[attr.len - 1] != '\0')
        return NULL;
    return (const char *) attr.bytes;
}

uint64_t nat_attrs_number(struct nat_attrs attrs, unsigned type, uint64_t other)
{
    struct nat_attr attr;
    uint64_t number = 0;

    if (!nat_attrs_find(attrs, type, &attr) || attr.len == 0 || attr.len > sizeof number)
        return other;
    for (size_t i = 0; i < attr.len; i++)
        number = number << 8 | attr.bytes[i];
    return number;
}

/* ---- requests ---- */

int nat_netlink_open(struct nat_netlink *nl)
{
    const struct timeval wait = { .tv_sec = WAIT_S };

    nl->seq = 0;
    nl->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (nl->fd < 0)
        return errno;
    (void) setsockopt(nl->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait); /* the kernel answers at once */
    return 0;
}

void nat_netlink_close(struct nat_netlink *nl)
{
    fd_auto(&nl->fd);
}

struct request {
    struct nlmsghdr head;
    struct nfgenmsg message;
    char names[NAMES_BYTES];
};

static void add_name(struct request *request, unsigned type, const char *name)
{
    size_t n = name ? strlen(name) + 1 : 0;
    struct nlattr attr = { .nla_len = (uint16_t) (sizeof attr + n), .nla_type = (uint16_t) type };
    size_t room = sizeof *request - request->head.nlmsg_len;

    if (n == 0 || padded(sizeof attr + n) > room)
        return;
    char *at = (char *) request + request->head.nlmsg_len;
    memcpy(at, &attr, sizeof attr);
    memcpy(at + sizeof attr, name, n);
    request->head.nlmsg_len += (uint32_t) padded(sizeof attr + n);
}

static int send_request(struct nat_netlink *nl, const struct nat_query *query, uint16_t flags)
{
    struct request request = {
        .head = { .nlmsg_len = offsetof(struct request, names),
                  .nlmsg_type = (uint16_t) (NFNL_SUBSYS_NFTABLES << 8 | query->type),
                  .nlmsg_flags = NLM_F_REQUEST | flags,
                  .nlmsg_seq = ++nl->seq },
        .message = { .nfgen_family = query->family, .version = NFNETLINK_V0 },
    };
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

    add_name(&request, query->table_attr, query->table);
    add_name(&request, query->set_attr, query->set);
    ssize_t sent =
        sendto(nl->fd, &request, request.head.nlmsg_len, 0, (struct sockaddr *) &kernel, sizeof kernel);
    return sent < 0 ? errno : 0;
}

/* Receive one answer; *n is 0 if another process sent it. */
static int receive(const struct nat_netlink *nl, uint8_t *bytes, size_t *n)
{
    struct sockaddr_nl from = { 0 };
    socklen_t size = sizeof from;
    ssize_t got = recvfrom(nl->fd, bytes, ANSWER_BYTES, MSG_TRUNC, (struct sockaddr *) &from, &size);

    *n = 0;
    if (got < 0)
        return errno == EINTR ? 0 : errno;
    if (got > ANSWER_BYTES)
        return EMSGSIZE;
    *n = from.nl_pid == 0 ? (size_t) got : 0;
    return 0;
}

static void take_message(struct nat_answer *a, const struct nlmsghdr *head, const uint8_t *message)
{
    struct nfgenmsg about;
    int error = 0;

    if (a->seq != 0 && head->nlmsg_seq != a->seq)
        return;
    if (head->nlmsg_flags & NLM_F_DUMP_INTR)
        a->error = EAGAIN;
    if (head->nlmsg_type == NLMSG_ERROR || head->nlmsg_type == NLMSG_DONE) {
        a->is_done = true;
        if (head->nlmsg_len >= NLMSG_LENGTH(sizeof error))
            memcpy(&error, message + NLMSG_HDRLEN, sizeof error);
        if (error != 0)
            a->error = error < 0 ? -error : error;
        return;
    }
    if (head->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES || head->nlmsg_len < NLMSG_LENGTH(sizeof about))
        return;
    memcpy(&about, message + NLMSG_HDRLEN, sizeof about);
    size_t skipped = NLMSG_SPACE(sizeof about);
    bool is_longer = head->nlmsg_len > skipped;
    const struct nat_object object = { .type = head->nlmsg_type & 0xff,
                                       .family = about.nfgen_family,
                                       .attrs = { message + (is_longer ? skipped : 0),
                                                  is_longer ? head->nlmsg_len - skipped : 0 } };
    a->fn(a->ctx, &object);
}

void nat_netlink_take(struct nat_answer *answer, const uint8_t *bytes, size_t n)
{
    struct nlmsghdr head;

    for (size_t at = 0; !answer->is_done && n - at >= sizeof head;) {
        memcpy(&head, bytes + at, sizeof head);
        if (head.nlmsg_len < sizeof head || head.nlmsg_len > n - at) {
            answer->error = EBADMSG;
            return;
        }
        take_message(answer, &head, bytes + at);
        size_t step = NLMSG_ALIGN((size_t) head.nlmsg_len);
        at += step < n - at ? step : n - at;
    }
}

int nat_netlink_list(struct nat_netlink *nl, const struct nat_query *query, nat_object_fn fn, void *ctx)
{
    _Alignas(struct nlmsghdr) uint8_t bytes[ANSWER_BYTES];
    struct nat_answer a = { .fn = fn, .ctx = ctx };
    int failed = send_request(nl, query, NLM_F_DUMP);

    a.seq = nl->seq;
    for (int i = 0; i < ANSWERS_MAX && !failed && !a.is_done; i++) {
        size_t n = 0;

        failed = receive(nl, bytes, &n);
        if (!failed)
            nat_netlink_take(&a, bytes, n);
        if (a.error == EBADMSG)
            break;
    }
    return failed ? failed : a.error;
}

/* ---- the generation ---- */

static void note_generation(void *ctx, const struct nat_object *object)
{
    uint64_t *generation = ctx;

    if (object->type == NFT_MSG_NEWGEN)
        *generation = nat_attrs_number(object->attrs, NFTA_GEN_ID, 0);
}

int nat_netlink_generation(struct nat_netlink *nl, uint32_t *out)
{
    _Alignas(struct nlmsghdr) uint8_t bytes[ANSWER_BYTES];
    uint64_t generation = UINT64_MAX;
    struct nat_answer a = { .fn = note_generation, .ctx = &generation };
    int failed = send_request(nl, &(struct nat_query){ .type = NFT_MSG_GETGEN }, 0);

    a.seq = nl->seq;
    for (int i = 0; i < ANSWERS_MAX && !failed && !a.is_done && generation == UINT64_MAX; i++) {
        size_t n = 0;

        failed = receive(nl, bytes, &n);
        if (!failed)
            nat_netlink_take(&a, bytes, n);
    }
    if (failed || a.error)
        return failed ? failed : a.error;
    *out = (uint32_t) generation;
    return 0;
}
