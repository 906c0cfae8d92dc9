/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_WEB_H
#define DIBS_TESTS_WEB_H
/* Servers of a few lines, which can be wrong in every way, and a client of ours for each case. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/client.h"
#include "support/t.h"

enum { REQUEST_MAX = 4 << 20, SERVERS_MAX = 4, SHORT_MS = 300, LONG_MS = 30000 };

/* Answers one request on `fd`; false closes the connection. */
struct server;
typedef bool (*serve_fn)(struct server *s, int fd);

struct server {
    int listening;
    uint16_t port;
    _Atomic(serve_fn) serve;
    pthread_t threads[SERVERS_MAX]; /* so many connections at once */
    atomic_int n_connections, n_closed, n_requests;
    atomic_bool is_ending;
};

struct world {
    struct web *web;
    struct web_answer answer;
    struct server server;
    char url[64];
    dibs_err err;
};

/* A whole request with its body, NUL-terminated; NULL at the end of the connection. The caller frees it. */
char *read_request(int fd);
void say(int fd, const char *text);
void serve_with(struct world *w, serve_fn serve);
int web_setup(void **state);
int web_teardown(void **state);
dibs_status ask(struct world *w, const struct web_request *request);
void ask_well(struct world *w, const struct web_request *request);
void ask_in_vain(struct world *w, const struct web_request *request, enum web_reach reach, const char *text);
bool body_is(const struct world *w, const char *text);

#define PLAIN(code, body) "HTTP/1.1 " code "\r\nContent-Length: " body
#define HI PLAIN("200 OK", "2\r\n\r\nhi")

bool serve_hi(struct server *s, int fd);
bool serve_refusal(struct server *s, int fd);
bool serve_nothing(struct server *s, int fd);

#define WEB_TEST(name) cmocka_unit_test_setup_teardown(name, web_setup, web_teardown)
#endif
