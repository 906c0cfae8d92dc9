/* SPDX-License-Identifier: MIT */
/* Accept connections within the limits of the server and of each user. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "http/server_internal.h"

#include "base/banned.h"

enum {
    ACCEPTS_A_TURN = 64,    /* the rest waits for the next turn, so that open connections are served */
    NO_DESCRIPTOR_MS = 100, /* until the next attempt; earlier when a connection ends */
    IDLE_STEPS = 30,        /* part of a step's time after which a connection is idle: 1 s by default */
};

/* Callers over TCP have no uid; this one belongs to no user. */
#define UID_OF_TCP UINT32_MAX
/* Callers of the reserved listener: a client with many uids must not keep administrators out. */
#define UID_OF_RESERVED (1ull + UINT32_MAX)

#define TOO_MANY                                                                \
    "{\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429," \
    "\"detail\":\"too many connections of this user are open\",\"code\":6}\n"
static const char too_many[] =
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: " HTTP_PROBLEM_TYPE "\r\nRetry-After: 1\r\n"
    "Connection: close\r\nContent-Length: 127\r\n\r\n" TOO_MANY;
_Static_assert(sizeof TOO_MANY - 1 == 127, "the length in the text above");
_Static_assert(DIBS_UNAVAILABLE == 6, "the code in the text above");

/* Accept connections (EPOLLIN), or none (0) until a connection ends or until `again_ms`. */
static void set_accepting(struct http_server *server, uint32_t events, int64_t again_ms, bool is_for_all)
{
    server->is_paused = events == 0;
    server->accept_again_ms = again_ms;
    for (struct http_listener *l = TAILQ_FIRST(&server->listeners); l; l = TAILQ_NEXT(l, link))
        if (is_for_all || !l->is_reserved)
            loop_change(server->loop, &l->source, events);
}

void accept_resume(struct http_server *server)
{
    if (server->is_paused)
        set_accepting(server, EPOLLIN, INT64_MAX, true);
}

/* ---- accounts ---- */

static struct http_account *find(const struct http_server *server, uint64_t uid)
{
    struct http_account *account = TAILQ_FIRST(&server->accounts);

    while (account && account->uid != uid)
        account = TAILQ_NEXT(account, link);
    return account;
}

void accept_leave(struct http_server *server, struct http_account *account)
{
    if (--account->n > 0)
        return;
    TAILQ_REMOVE(&server->accounts, account, link);
    free(account);
}

void accept_begin_unknown(struct http_request *r)
{
    const struct http_limits *limits = &r->server->limits;

    if (limits->max_unknown == 0 || r->account->uid != UID_OF_TCP)
        return;
    r->known_by_ms = clock_monotonic_ms() + limits->max_unknown_ms;
    TAILQ_INSERT_TAIL(&r->server->unknown, r, stranger);
    r->is_unknown = true;
}

void accept_end_unknown(struct http_request *r)
{
    if (r->is_unknown)
        TAILQ_REMOVE(&r->server->unknown, r, stranger);
    r->is_unknown = false;
}

static int64_t idle_ms(const struct http_server *server)
{
    return server->limits.max_step_ms / IDLE_STEPS;
}

/* Find the connection for whose next bytes the server has waited longest: of this account, or of the one that
 * has most connections. */
static struct http_request *find_idle(const struct http_server *server, const struct http_account *account)
{
    int64_t latest_ms = clock_monotonic_ms() - idle_ms(server) + server->limits.max_step_ms;
    struct http_request *best = NULL;

    for (struct http_request *r = TAILQ_FIRST(&server->steps); r && r->deadline_ms <= latest_ms;
         r = TAILQ_NEXT(r, step))
        if (r->state == HTTP_ARRIVING && !r->is_leaving &&
            (account ? r->account == account && !best : !best || r->account->n > best->account->n))
            best = r;
    return best;
}

/* Close a connection for another one. Return false when there was none to close. */
static bool evict(struct http_request *r)
{
    if (!r)
        return false;
    connection_cut(r);
    r->is_leaving = true;
    r->account->n_leaving++;
    return true;
}

/* Count one more connection of the uid. NULL: it has too many, and none is idle; or out of memory. */
static struct http_account *join(struct http_server *server, uint64_t uid)
{
    struct http_account *account = find(server, uid);
    bool is_unknown = server->limits.max_unknown > 0 && uid == UID_OF_TCP;
    size_t max = is_unknown ? server->limits.max_unknown : server->limits.max_per_user;

    if (!account) {
        account = calloc(1, sizeof *account);
        if (!account)
            return NULL;
        account->uid = uid;
        TAILQ_INSERT_TAIL(&server->accounts, account, link);
    } else if (account->n - account->n_leaving >= max &&
               !evict(is_unknown ? TAILQ_FIRST(&server->unknown) : find_idle(server, account))) {
        return NULL;
    }
    account->n++;
    return account;
}

bool http_identify(struct http_request *r, uint32_t uid)
{
    struct http_account *before = r->account;

    if (before->uid == uid || r->is_leaving)
        return true;
    struct http_account *account = join(r->server, uid);
    if (!account)
        return false;
    account->n_large += r->is_large;
    before->n_large -= r->is_large;
    r->account = account;
    accept_leave(r->server, before);
    accept_end_unknown(r);
    return true;
}

static uint64_t uid_of(const struct http_server *server, int fd)
{
    struct ucred peer = { .uid = UID_OF_TCP };
    socklen_t size = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid == UID_OF_TCP)
        return UID_OF_TCP;
    return server->handler->account ? server->handler->account(server->handler->ctx, peer.uid) : peer.uid;
}

void http_client_address(const struct http_request *r, char out[DIBS_ADDRESS_TEXT_MAX + 1])
{
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof from;

    out[0] = '\0';
    if (getpeername(r->watch.fd, (struct sockaddr *) &from, &size) != 0)
        return;
    if (from.ss_family == AF_INET)
        (void) inet_ntop(AF_INET, &((const struct sockaddr_in *) &from)->sin_addr, out,
                         DIBS_ADDRESS_TEXT_MAX + 1);
    else if (from.ss_family == AF_INET6)
        (void) inet_ntop(AF_INET6, &((const struct sockaddr_in6 *) &from)->sin6_addr, out,
                         DIBS_ADDRESS_TEXT_MAX + 1);
}

/* ---- connections ---- */

/* Stop accepting until a connection has ended, which an idle one does at once. */
static void make_room(struct http_server *server, bool is_reserved)
{
    bool is_made = evict(find_idle(server, NULL));

    set_accepting(server, 0, is_made ? INT64_MAX : clock_monotonic_ms() + idle_ms(server), is_reserved);
}

void listener_ready(loop_source *source, uint32_t events)
{
    struct http_listener *listener = (struct http_listener *) source;
    struct http_server *server = listener->server;

    size_t max = server->limits.max_connections + (listener->is_reserved ? HTTP_RESERVED_MAX : 0);

    (void) events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        if (server->n_connections >= max) {
            if (i == 0) /* a client waits for sure */
                make_room(server, listener->is_reserved);
            return;
        }
        AUTO(fd_auto) int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                set_accepting(server, 0, clock_monotonic_ms() + NO_DESCRIPTOR_MS, true);
            if (errno == EAGAIN || server->is_paused)
                return;
            continue; /* the client is gone already */
        }
        struct http_account *account =
            join(server, listener->is_reserved ? UID_OF_RESERVED : uid_of(server, fd));

        if (account)
            connection_add(server, fd_take(&fd), listener, account);
        else if (!listener->is_tls)
            (void) send(fd, too_many, sizeof too_many - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}
