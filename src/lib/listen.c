/* SPDX-License-Identifier: MIT */
/* Claims with their sockets (dibs_listen), and passing these to other processes. */
#include "hold/listen.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "dibs/dibs.h"
#include "host/kernel.h"

#include "base/banned.h"

enum { TRIES_MAX = 8 }; /* ports that other processes take between the probe and our bind */

/* End the claim that this call has made. */
static void take_back(dibs *handle, const dibs_claim *claim)
{
    dibs_which which = { .token = claim->token };

    if (claim->was_there)
        return;
    if (claim->is_degraded)
        which = (dibs_which){ .port = claim->port };
    (void) dibs_claim_release(handle, &which, DIBS_RELEASE_FORCE | DIBS_RELEASE_UNKEEP, NULL, NULL);
}

dibs_status dibs_listen(dibs *handle, const dibs_request *request, dibs_sockets *out, dibs_err *err)
{
    dibs_sockets made = { .n = 0 };

    if (!handle || !request || !out)
        return err_set(err, DIBS_INVALID, "listening: an argument is missing");
    dibs_request wanted = *request;
    wanted.hold = DIBS_HOLD_FD;
    for (int tries = 1;; tries++) {
        dibs_status s =
            dibs_claim_ports(handle, &(dibs_batch){ .requests = &wanted, .n = 1 }, &made.claim, err);

        if (s != DIBS_OK)
            return s;
        s = listen_open(&made.claim, made.fd, &made.n, err);
        if (s == DIBS_OK)
            break;
        take_back(handle, &made.claim);
        bool may_move =
            !made.claim.was_there && (wanted.mode == DIBS_RANDOM || wanted.mode == DIBS_PREFERRED);
        if (s != DIBS_TAKEN || !may_move || tries == TRIES_MAX)
            return s;
    }
    *out = made;
    return DIBS_OK;
}

/* ---- passing: the text is "PORT NAME" ---- */

dibs_status dibs_sockets_send(int to, const dibs_sockets *sockets, dibs_err *err)
{
    char text[DIBS_NAME_MAX + 16];

    if (!sockets || sockets->n > DIBS_BINDINGS_MAX)
        return err_set(err, DIBS_INVALID, "passing sockets: an argument is missing or wrong");
    (void) snprintf(text, sizeof text, "%u %.*s", sockets->claim.port, DIBS_NAME_MAX, sockets->claim.name);
    return listen_send(to, &(struct listen_parcel){ text, strlen(text), sockets->fd, sockets->n }, err);
}

static bool read_text(const char *text, dibs_claim *out)
{
    const char *blank = strchr(text, ' ');
    uint64_t port = 0;

    if (!blank || !text_number(text, (size_t) (blank - text), DIBS_PORT_MAX, &port) || port == 0)
        return false;
    out->port = (uint16_t) port;
    return text_copy(out->name, sizeof out->name, blank + 1) &&
           (!out->name[0] || dibs_name_check(out->name, NULL) == DIBS_OK);
}

/* Read protocol and address from the socket itself: the sender may say anything. */
static bool read_binding(int fd, uint16_t port, dibs_binding *out)
{
    union kernel_sockaddr at = { .any = { .sa_family = AF_UNSPEC } };
    socklen_t len = sizeof at;
    int protocol = 0;
    int v6only = 0;
    socklen_t int_len = sizeof protocol;

    if (getsockname(fd, &at.any, &len) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &int_len) != 0)
        return false;
    *out = (dibs_binding){ .proto = protocol == IPPROTO_TCP   ? DIBS_TCP
                                    : protocol == IPPROTO_UDP ? DIBS_UDP
                                                              : DIBS_SCTP };
    if (at.any.sa_family == AF_INET) {
        out->address.len = sizeof at.v4.sin_addr;
        memcpy(out->address.bytes, &at.v4.sin_addr, sizeof at.v4.sin_addr);
        return ntohs(at.v4.sin_port) == port;
    }
    if (at.any.sa_family != AF_INET6 || getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &int_len) != 0)
        return false;
    out->address.len = sizeof at.v6.sin6_addr;
    memcpy(out->address.bytes, &at.v6.sin6_addr, sizeof at.v6.sin6_addr);
    out->address.v6only = v6only && dibs_address_is_wildcard(&out->address);
    return ntohs(at.v6.sin6_port) == port;
}

dibs_status dibs_sockets_receive(int from, dibs_sockets *out, dibs_err *err)
{
    AUTO(free_auto) struct listen_received *got = calloc(1, sizeof *got);
    dibs_sockets made = { .n = 0 };

    if (!out)
        return err_set(err, DIBS_INVALID, "receiving sockets: an argument is missing");
    if (!got)
        return err_set(err, DIBS_FAILURE, "receiving sockets: out of memory");
    dibs_status s = listen_receive(from, got, err);
    if (s != DIBS_OK)
        return s;
    bool is_well = got->n <= DIBS_BINDINGS_MAX && read_text(got->text, &made.claim);
    for (; is_well && made.n < got->n; made.n++) {
        made.fd[made.n] = got->fds[made.n];
        is_well = read_binding(made.fd[made.n], made.claim.port, &made.claim.bindings[made.n]);
    }
    for (size_t i = 0; !is_well && i < got->n; i++)
        (void) close(got->fds[i]);
    if (!is_well)
        return err_set(err, DIBS_INVALID, "receiving sockets: these are not the sockets of a claim");
    made.claim.n_bindings = made.n;
    made.claim.hold = DIBS_HOLD_FD;
    *out = made;
    return DIBS_OK;
}
