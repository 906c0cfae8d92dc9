/* SPDX-License-Identifier: MIT */
/* Who gets a connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "http/inside.h"

#include "base/banned.h"

enum {
    ACCEPTS_A_TURN = 64,    /* the rest comes in the next: those who are connected have their turn, too */
    NO_DESCRIPTOR_MS = 100, /* until the next attempt; sooner when a connection ends */
    USERS_GROW = 16,
};

/* Callers over TCP have no uid. The kernel gives nobody this one. */
#define UID_OF_TCP UINT32_MAX

static const char too_many[] =
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: " HTTP_PROBLEM_TYPE "\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n"
    "{\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429,"
    "\"detail\":\"too many connections of this user are open\",\"code\":6}\n";
_Static_assert(DIBS_UNAVAILABLE == 6, "the code in the text above");

static void pause_accepting(struct http_server *server, int64_t until_ms)
{
    server->is_paused = true;
    server->accept_again_ms = until_ms;
    for (struct http_listener *listener = TAILQ_FIRST(&server->listeners); listener;
         listener = TAILQ_NEXT(listener, link))
        loop_change(server->loop, &listener->source, 0);
}

void accept_resume(struct http_server *server)
{
    if (!server->is_paused)
        return;
    server->is_paused = false;
    server->accept_again_ms = INT64_MAX;
    for (struct http_listener *listener = TAILQ_FIRST(&server->listeners); listener;
         listener = TAILQ_NEXT(listener, link))
        loop_change(server->loop, &listener->source, EPOLLIN);
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
        if (server->n_users == server->max_users) {
            size_t more = server->max_users + USERS_GROW;
            struct http_user_count *grown = realloc(server->users, more * sizeof *grown);

            if (!grown)
                return false;
            server->users = grown;
            server->max_users = more;
        }
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
    struct ucred who = { .uid = UID_OF_TCP };
    socklen_t size = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.uid : UID_OF_TCP;
}

void listener_ready(loop_source *source, uint32_t events)
{
    struct http_listener *listener = (struct http_listener *) source;
    struct http_server *server = listener->server;

    (void) events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        if (server->n_connections >= server->limits.max_connections) {
            pause_accepting(server, INT64_MAX);
            return;
        }
        AUTO(fd_auto) int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                pause_accepting(server, clock_monotonic_ms() + NO_DESCRIPTOR_MS);
            if (errno == EAGAIN || server->is_paused)
                return;
            continue; /* that caller is gone already */
        }
        uint32_t uid = uid_of(fd);

        if (count_user(server, uid))
            connection_add(server, fd_take(&fd), listener, uid);
        else if (!listener->door.is_tls)
            (void) send(fd, too_many, sizeof too_many - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}
