/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_HTTP_H
#define DIBS_TESTS_HTTP_H
/* A server and its clients in one thread, over real sockets: clients never block, and a client that waits
 * runs the server meanwhile. Clients send bytes, not requests, so that they can be wrong. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "http/server.h"
#include "support/t.h"

#define W_HELD_MAX 2048
#define W_WAIT_MS 10000

struct world {
    struct loop *loop;
    struct http_server *server;
    struct http_handler handler;
    struct sockaddr_un address;
    socklen_t address_size;
    int listening;
    struct http_request *turn[W_HELD_MAX]; /* to be answered in this turn */
    size_t n_turn;
    struct http_request *held[W_HELD_MAX]; /* "/later": by the test itself */
    size_t n_held;
    size_t n_requested, n_abandoned, n_connected, n_disconnected;
    unsigned n_turns;
    bool refuses;               /* connections */
    const char *last_abandoned; /* its user */
    dibs_err err;
};

/* ---- the handler ---- */

void w_answer(struct http_request *r, int status, const char *text);

/* ---- the server ---- */

/* Run a turn as a daemon does; wait only where nothing else would wake it. */
void w_turn(struct world *w, int64_t wait_ms);

/* Turns the server until `condition` is so; ten seconds at most. */
#define W_UNTIL(w, condition)                                             \
    do {                                                                  \
        int64_t until_ = clock_monotonic_ms() + W_WAIT_MS;                \
        while (!(condition) && clock_monotonic_ms() < until_)             \
            w_turn((w), 5);                                               \
        if (!(condition))                                                 \
            fail_msg("%s:%d: never: %s", __FILE__, __LINE__, #condition); \
    } while (0)

/* A Unix socket in the abstract namespace: nothing is left behind. */
struct world *w_open(const struct http_limits *limits);
void w_close(struct world *w);

/* ---- clients ---- */

struct client {
    int fd;
    size_t n;
    bool is_over; /* the server has closed */
    char got[64 << 10];
};

/* Waits in the kernel's queue at first. */
struct client *c_open(const struct world *w);
void c_close(struct client *c);

/* All of it, or as much as the server takes before it closes. */
void c_send_bytes(struct world *w, const struct client *c, const char *bytes, size_t n);
void c_send(struct world *w, const struct client *c, const char *text);

/* Read the available bytes without waiting. */
void c_read(struct client *c);
bool c_has(struct client *c, const char *text);
bool c_is_over(struct client *c);

/* Sends it, waits until `expected` is in the answer, and forgets the answer. */
void c_expect(struct world *w, struct client *c, const char *request, const char *expected);
#endif
