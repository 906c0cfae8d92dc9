/* SPDX-License-Identifier: MIT */
/* Accept connections within the limits of the server and of each user. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/grow.h"
#include "http/server_internal.h"

#include "base/banned.h"

enum {
    ACCEPTS_A_TURN = 64,    /* the rest waits for the next turn, so that open connections are served */
    NO_DESCRIPTOR_MS = 100, /* until the next attempt; earlier when a connection ends */
};

/* Callers over TCP have no uid; this one belongs to no user. */
#define UID_OF_TCP UINT32_MAX

static const char too_many[] =
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: " HTTP_PROBLEM_TYPE "\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n"
    "{\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429,"
    "\"detail\":\"too many connections of this user are open\",\"code\":6}\n";
_Static_assert(DIBS_UNAVAILABLE == 6, "the code in the text above");

/* Accept connections (EPOLLIN), or none (0) until a connection ends or until `again_ms`. */
static void set_accepting(struct http_server *server, uint32_t events, int64_t again_ms)
{
    server->is_paused = events == 0;
    server->accept_again_ms = again_ms;
    for (struct http_listener *l = TAILQ_FIRST(&server->listeners); l; l = TAILQ_NEXT(l, link))
        loop_change(server->loop, &l->source, events);
}

void accept_resume(struct http_server *server)
{
    if (server->is_paused)
        set_accepting(server, EPOLLIN, INT64_MAX);
}

struct http_user_count *accept_user(const struct http_server *server, uint32_t uid)
{
    for (size_t i = 0; i < server->n_users; i++)
        if (server->users[i].uid == uid)
            return &server->users[i];
    return NULL;
}

static bool count_user(struct http_server *server, uint32_t uid)
{
    struct http_user_count *user = accept_user(server, uid);

    if (!user) {
        if (!grow((void **) &server->users, server->n_users, &server->max_users, sizeof *user))
            return false;
        user = &server->users[server->n_users++];
        *user = (struct http_user_count){ .uid = uid };
    }
    if (user->n >= server->limits.max_per_user)
        return false;
    user->n++;
    return true;
}

void accept_forget_user(struct http_server *server, uint32_t uid)
{
    struct http_user_count *user = accept_user(server, uid);

    if (user && --user->n == 0)
        *user = server->users[--server->n_users];
}

static uint32_t uid_of(int fd)
{
    struct ucred peer = { .uid = UID_OF_TCP };
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.uid : UID_OF_TCP;
}

void listener_ready(loop_source *source, uint32_t events)
{
    struct http_listener *listener = (struct http_listener *) source;
    struct http_server *server = listener->server;

    (void) events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        if (server->n_connections >= server->limits.max_connections) {
            set_accepting(server, 0, INT64_MAX);
            return;
        }
        AUTO(fd_auto) int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                set_accepting(server, 0, clock_monotonic_ms() + NO_DESCRIPTOR_MS);
            if (errno == EAGAIN || server->is_paused)
                return;
            continue; /* the client is gone already */
        }
        uint32_t uid = uid_of(fd);

        if (count_user(server, uid))
            connection_add(server, fd_take(&fd), listener, uid);
        else if (!listener->is_tls)
            (void) send(fd, too_many, sizeof too_many - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}
